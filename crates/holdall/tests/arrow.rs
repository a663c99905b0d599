//! Converts records and blobs to Arrow batches and back: bit for bit, and refused if the types do not fit.
#![cfg(feature = "arrow")]

#[path = "../examples/arrow.rs"]
mod arrow_example;

use crate::records_files::{Made, blob, dataset, made, open, sample, value, write};
use holdall::records::arrow::arrow_array::cast::AsArray as _;
use holdall::records::arrow::arrow_array::types::{
    Float16Type, Int8Type, Int16Type, Int32Type, UInt8Type, UInt64Type,
};
use holdall::records::arrow::arrow_array::{self as arrays, Array, ArrayRef, RecordBatch};
use holdall::records::arrow::arrow_array::{RecordBatchReader, StringArray, UInt64Array};
use holdall::records::arrow::arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use holdall::records::arrow::row_schema;
use holdall::records::{Build, DatasetWriter, FillOptions, Rows};
use holdall::schema::{Content, Entry};
use holdall::{
    Blob, DType, ErrorKind, File, Io, Limits, OpenOptions, Records, Result, TensorRecords as _,
    WriteOptions,
};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

const ALL: &[&str] = &[];

fn records_of(made: &Made, io: Io) -> Records {
    open(&write(made, &WriteOptions::new()), io).tensor("set").unwrap().records().unwrap()
}

fn batch_of(records: &Records) -> Result<RecordBatch> {
    records.arrow(ALL)?.batch(records.iter(0..records.len())?)
}

/// Returns a dataset of that kind, filled by `fill`.
fn written(
    kind: &serde_json::Value,
    fill: impl FnOnce(&mut DatasetWriter) -> Result<()>,
) -> Result<Records> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.zt");
    let mut build = Build::create(&path, &WriteOptions::new()).unwrap();
    let mut set = build.dataset_with_schema("set", kind)?;
    let filled = fill(&mut set);
    build.add(set)?;
    build.finish()?;
    filled?;
    holdall::open(&path)?.tensor("set")?.records()
}

fn values(records: &Records) -> Vec<serde_json::Value> {
    let all = records.iter(0..records.len()).unwrap();
    all.map(|r| r.unwrap().to_value().unwrap()).collect()
}

/// Returns a batch of columns, all of which may have nulls.
fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

#[test]
fn the_example_runs() {
    let folder = tempfile::tempdir().unwrap();
    arrow_example::run(&folder.path().join("table.mt")).unwrap();
}

#[test]
fn every_kind_has_its_type() {
    let records = records_of(&dataset(9), Io::Map);
    let batch = batch_of(&records).unwrap();
    let schema = batch.schema();
    let of = |name: &str| schema.field_with_name(name).unwrap().clone();
    assert_eq!(of("id"), Field::new("id", DataType::UInt64, false));
    assert_eq!(of("half"), Field::new("half", DataType::Float16, false));
    assert_eq!(of("flag"), Field::new("flag", DataType::Boolean, true));
    let names = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
    assert_eq!(of("label"), Field::new("label", names, false));
    assert_eq!(
        [of("text"), of("meta")].map(|f| f.data_type().clone()),
        [DataType::LargeUtf8, DataType::LargeUtf8]
    );
    assert!(matches!(of("box").data_type(), DataType::FixedSizeList(_, 4)));
    assert!(matches!(of("tags").data_type(), DataType::LargeList(_)));
    assert!(matches!(of("shape").data_type(), DataType::Struct(of) if of.len() == 3));

    assert_eq!(batch["id"].as_primitive::<UInt64Type>().values(), &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(batch["half"].as_primitive::<Float16Type>().value(1).to_f32(), 0.5);
    let flags: Vec<_> = batch["flag"].as_boolean().iter().collect();
    assert_eq!(flags[..5], [Some(true), None, None, None, Some(false)]);
    let labels = batch["label"].as_dictionary::<UInt8Type>();
    assert_eq!(labels.keys().values(), &[0, 1, 1, 0, 1, 1, 0, 1, 1]);
    let names: Vec<_> = labels.values().as_string::<i32>().iter().flatten().collect();
    assert_eq!(names, ["cat", "dog"]);
    assert_eq!(batch["text"].as_string::<i64>().value(8), "record 8 — ünïcode");
    assert_eq!(batch["meta"].as_string::<i64>().value(8), r#"{"n":8}"#);
    let corners = batch["box"].as_fixed_size_list().value(7);
    assert_eq!(corners.as_primitive::<Int16Type>().values(), &[7, -1, 2, 3]);
    let tags = batch["tags"].as_list::<i64>().value(5);
    let tags = tags.as_struct();
    assert_eq!(tags.column(0).as_string::<i64>().value(1), "tag1");
    assert_eq!(tags.column(1).as_primitive::<Int32Type>().values(), &[0, 1]);
    let shape = batch["shape"].as_struct();
    assert_eq!(shape.column(0).as_string::<i64>().value(1), "named");
    assert!(shape.column_by_name("circle").unwrap().is_null(1));
    assert_eq!(
        shape.column_by_name("named").unwrap().as_struct().column(0).as_string::<i64>().value(1),
        "n1"
    );
}

#[test]
fn records_come_back_however_they_were_opened() {
    let wanted: Vec<_> = (0..500).map(value).collect();
    for io in [Io::Map, Io::Read] {
        let records = records_of(&dataset(500), io);
        let batch = batch_of(&records).unwrap();
        let again = written(&sample(), |set| {
            assert_eq!(set.batch(&batch.slice(0, 123))?, 123);
            assert_eq!(set.batch(&batch.slice(123, 377))?, 377);
            Ok(())
        });
        assert!(values(&again.unwrap()) == wanted, "{io:?}");
    }
}

#[test]
fn members_and_records_are_chosen() {
    let records = records_of(&dataset(100), Io::Map);
    let arrow = records.arrow(&["shape.named.name", "id", "box[2]"]).unwrap();
    let query = records.query().with_condition("label=cat and id>=50").unwrap();
    let batch = arrow.batch(query.run().unwrap()).unwrap();
    let names: Vec<_> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["shape.named.name", "id", "box[2]"]);
    let ids = batch["id"].as_primitive::<UInt64Type>();
    assert_eq!((ids.len(), ids.value(0), ids.value(1)), (17, 51, 54));
    let names = batch["shape.named.name"].as_string::<i64>();
    assert!(names.value(0) == "n51" && names.is_null(1));

    let mut batches = arrow.batches(records.iter(0..100).unwrap(), 40);
    assert_eq!(RecordBatchReader::schema(&batches), arrow.schema());
    let lens: Vec<_> = batches.by_ref().map(|b| b.unwrap().num_rows()).collect();
    assert_eq!(lens, [40, 40, 20]);
    assert!(batches.next().is_none());
    assert_eq!(arrow.batch(std::iter::empty()).unwrap().num_rows(), 0);

    assert_eq!(records.arrow(&["idd"]).unwrap_err().code(), "schema/unknown-path");
    let other = records_of(&dataset(1), Io::Map);
    let e = arrow.batch(other.iter(0..1).unwrap()).unwrap_err();
    assert_eq!((e.code(), e.tensor()), ("records/other-kind", Some("set")));
}

/// Returns every dataset and blob of the corpus.
fn corpus() -> Vec<(String, File)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept");
    let mut out = Vec::new();
    for format in ["metatensor", "ztensor"] {
        for entry in std::fs::read_dir(folder.join(format)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "mt" || e == "zt")
                && let Ok(file) = holdall::open(&path)
            {
                out.push((path.display().to_string(), file));
            }
        }
    }
    out
}

#[test]
fn the_corpus_comes_back() {
    let (mut datasets, mut blobs) = (0, 0);
    for (path, file) in corpus() {
        for tensor in file.tensors() {
            if tensor.layout().as_str() == "records" {
                let records = tensor.records().unwrap();
                let batch = batch_of(&records).unwrap_or_else(|e| panic!("{path}: {e}"));
                assert_eq!(batch.num_rows() as u64, records.len());
                let text = tensor.attributes().get(holdall::schema::TENSOR_SCHEMA_ATTRIBUTE);
                let text = text.and_then(|t| t.as_text()).unwrap();
                let kind = serde_json::from_str(text).unwrap();
                let again = written(&kind, |set| set.batch(&batch).map(drop));
                let again = again.unwrap_or_else(|e| panic!("{path}: {e}"));
                assert_eq!(values(&again), values(&records), "{path}");
                for at in 0..records.len() {
                    // Records without entries are equal to the bit.
                    let (a, b) = (records.record(at).unwrap(), again.record(at).unwrap());
                    assert!(
                        records.heap().is_some_and(|h| !h.is_empty()) || a.bytes() == b.bytes()
                    );
                }
                datasets += 1;
            } else if tensor.layout().as_str() == "blob" {
                let blob = tensor.blob().unwrap();
                let again = runs_again(&blob);
                for at in 0..blob.len() {
                    assert_eq!(again.get(at).unwrap(), blob.get(at).unwrap(), "{path}");
                }
                blobs += 1;
            }
        }
    }
    assert!(datasets >= 9 && blobs >= 4, "{datasets} {blobs}");
}

fn runs_again(blob: &Blob) -> Blob {
    let batch = blob.arrow(0..blob.len()).unwrap();
    assert_eq!(batch.schema().field(0).name(), blob.tensor().name());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.zt");
    let mut build = Build::create(&path, &WriteOptions::new()).unwrap();
    let mut runs = build.blob_with_content("runs", blob.content()).unwrap();
    assert_eq!(runs.array(batch.column(0)).unwrap(), blob.len());
    build.add(runs).unwrap();
    build.finish().unwrap();
    holdall::open(&path).unwrap().tensor("runs").unwrap().blob().unwrap()
}

#[test]
fn bits_of_numbers_are_kept() {
    let scalars =
        ["Float16", "BFloat16", "Float8E4M3", "Float32", "Float64", "Complex64", "Timestamp"];
    let names: Vec<_> = scalars.iter().map(|s| s.to_lowercase()).collect();
    let mut properties: serde_json::Map<_, _> = scalars
        .iter()
        .zip(&names)
        .map(|(s, n)| (n.clone(), json!({format!("TypeDef:{s}"): true})))
        .collect();
    for (name, dtype, shape) in
        [("f6", "F6_E2M3", json!([2, 4])), ("f4", "F4", json!([4])), ("c", "C64", json!([2]))]
    {
        properties.insert(name.into(), json!({"TypeDef:Tensor": {"dtype": dtype, "shape": shape}}));
    }
    properties.insert("i".into(), json!({"TypeDef:Tensor": {"dtype": "I32", "shape": [2, 2]}}));
    let members: Vec<_> = properties.keys().cloned().collect();
    let kind = json!({"TypeDef:Struct": members, "required": members, "properties": properties});
    let extent = {
        let limits = holdall::schema::SchemaLimits::default();
        let schema = holdall::schema::Schema::compile_record(&kind, &limits).unwrap();
        schema.extent(schema.record().unwrap()).unwrap()
    };
    // Arbitrary bits: payloads of NaNs, unusual codes.
    let mut random = 7u32;
    let mut bytes = Vec::new();
    for at in 0..50 * extent.stride {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes.push(if at % extent.stride < extent.size { (random >> 24) as u8 } else { 0 });
    }
    let original = records_of(
        &made("records", &kind.to_string(), 50, vec![("data", DType::U8, bytes)]),
        Io::Map,
    );
    let batch = batch_of(&original).unwrap();
    let of = |name: &str| batch.schema().field_with_name(name).unwrap().clone();
    assert_eq!(of("bfloat16").metadata()["holdall.dtype"], "bfloat16");
    assert_eq!(*of("bfloat16").data_type(), DataType::FixedSizeBinary(2));
    assert_eq!(of("i").metadata()["ARROW:extension:metadata"], r#"{"shape": [2, 2]}"#);
    assert!(of("f6").metadata().is_empty());
    assert_eq!(
        *of("timestamp").data_type(),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
    );
    let again = written(&kind, |set| set.batch(&batch).map(drop)).unwrap();
    // Padding between members has no meaning.
    for (at, name) in (0..50).flat_map(|at| members.iter().map(move |name| (at, name))) {
        let bits = |records: &Records| {
            let part = records.accessor(name).unwrap();
            let len = records.schema().extent(part.ty()).unwrap().size;
            records.record(at).unwrap().bytes()[part.offset()..][..len as usize].to_vec()
        };
        assert_eq!(bits(&again), bits(&original), "{name} of {at}");
    }
}

fn record(members: serde_json::Value, required: &[&str]) -> serde_json::Value {
    let names: Vec<_> = members.as_object().unwrap().keys().cloned().collect();
    json!({"TypeDef:Struct": names, "required": required, "properties": members})
}

#[test]
fn columns_of_other_types_that_mean_the_same_are_taken() {
    let kind = record(
        json!({
            "n": {"TypeDef:Int8": true},
            "x": {"TypeDef:Float64": true},
            "at": {"TypeDef:Timestamp": true},
            "name": {"TypeDef:String": true, "default": "nobody"},
            "label": {"enum": ["cat", "dog"], "TypeDef:Enum": true},
            "more": {"TypeDef:Array": true, "items": {"TypeDef:Uint16": true}},
            "raw": {"TypeDef:Bytes": true},
        }),
        &["n", "x", "at", "name", "label", "more", "raw"],
    );
    let names: arrays::DictionaryArray<Int8Type> = [Some("a"), None].into_iter().collect();
    let more = arrays::ListArray::from_iter_primitive::<arrays::types::UInt16Type, _, _>([
        Some(vec![Some(1), Some(2)]),
        Some(vec![]),
    ]);
    let batch = table(vec![
        ("n", Arc::new(UInt64Array::from(vec![1, 127]))),
        ("x", Arc::new(arrays::Float32Array::from(vec![0.5, -2.0]))),
        ("at", Arc::new(arrays::TimestampMillisecondArray::from(vec![1_500, 0]))),
        ("name", Arc::new(names)),
        ("label", Arc::new(arrays::StringViewArray::from(vec!["dog", "cat"]))),
        ("more", Arc::new(more)),
        (
            "raw",
            Arc::new(
                arrays::FixedSizeBinaryArray::try_from_iter([[1u8, 2], [3, 4]].iter()).unwrap(),
            ),
        ),
    ]);
    let made = written(&kind, |set| set.batch(&batch).map(drop)).unwrap();
    assert_eq!(
        values(&made),
        [
            json!({"n": 1, "x": 0.5, "at": "1970-01-01T00:00:01.5Z", "name": "a", "label": "dog",
                   "more": [1, 2], "raw": "AQI="}),
            json!({"n": 127, "x": -2.0, "at": "1970-01-01T00:00:00Z", "name": "nobody", "label": "cat",
                   "more": [], "raw": "AwQ="}),
        ]
    );
    let days = record(json!({"day": {"TypeDef:Timestamp": true}}), &[]);
    let batch = table(vec![("day", Arc::new(arrays::Date32Array::from(vec![Some(1), None])))]);
    let made = written(&days, |set| set.batch(&batch).map(drop)).unwrap();
    assert_eq!(values(&made), [json!({"day": "1970-01-02T00:00:00Z"}), json!({})]);
    let batch = table(vec![("day", Arc::new(arrays::NullArray::new(2)))]);
    assert_eq!(
        values(&written(&days, |set| set.batch(&batch).map(drop)).unwrap()),
        [json!({}), json!({})]
    );
}

/// Returns the records of batches in memory and of the same batches one by one.
fn both_ways(
    kind: &serde_json::Value,
    batches: &[RecordBatch],
) -> [Result<Vec<serde_json::Value>>; 2] {
    let ways: [fn(Vec<RecordBatch>) -> Rows; 2] = [
        |batches| Rows::from_table(batches, "rows"),
        |batches| Rows::from_batches(batches.into_iter().map(Ok), "rows"),
    ];
    ways.map(|rows| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.zt");
        let mut build = Build::create(&path, &WriteOptions::new())?;
        let set = build.dataset_with_schema("set", kind)?;
        let count = build.add_rows(set, rows(batches.to_vec()), &FillOptions::new())?;
        build.finish()?;
        let file = holdall::open(&path)?;
        let records = file.tensor("set")?.records()?;
        assert_eq!(records.len(), count);
        Ok(values(&records))
    })
}

#[test]
fn tables_in_memory_are_the_records_of_their_batches() {
    let kind = record(
        json!({
            "n": {"TypeDef:Int32": true},
            "ok": {"TypeDef:Boolean": true},
            "at": {"TypeDef:Timestamp": true},
            "name": {"TypeDef:String": true},
            "raw": {"TypeDef:Bytes": true},
            "label": {"enum": ["cat", "dog"], "TypeDef:Enum": true},
            "gone": {"TypeDef:String": true},
        }),
        &["n"],
    );
    let count = 70_000;
    let every = |n: i32, text: &'static str| (n % 3 != 0).then_some(text);
    let names = ["", "a", "größer", "a longer text"];
    let name = |n: i32| every(n, names[n as usize % names.len()]);
    let labels: arrays::DictionaryArray<Int8Type> =
        (0..count).map(|n| every(n, if n % 2 == 0 { "dog" } else { "cat" })).collect();
    let whole = table(vec![
        ("n", Arc::new(arrays::Int32Array::from_iter_values(0..count))),
        ("ok", Arc::new((0..count).map(|n| Some(n % 5 == 0)).collect::<arrays::BooleanArray>())),
        ("name", Arc::new((0..count).map(name).collect::<StringArray>())),
        ("raw", Arc::new((0..count).map(name).collect::<arrays::LargeBinaryArray>())),
        ("at", Arc::new(arrays::TimestampMillisecondArray::from_iter_values((0..).take(70_000)))),
        ("label", Arc::new(labels)),
    ]);
    // Bitmaps and texts begin within their buffers, and a piece of records has rows of two parts.
    let batches = [whole.slice(3, 1000), whole.slice(0, 0), whole.slice(1, 69_000)];
    let [one, other] = both_ways(&kind, &batches);
    let one = one.unwrap();
    assert_eq!(one.len(), 70_000);
    assert_eq!(
        one[1],
        json!({"n": 4, "ok": false, "name": "", "raw": "", "at": "1970-01-01T00:00:00.004Z", "label": "dog"})
    );
    assert!(one == other.unwrap());
    assert_eq!(
        both_ways(&kind, &batches[1..2]).map(Result::unwrap),
        [Vec::<serde_json::Value>::new(), Vec::new()]
    );

    // Invalid values are refused as they are batch by batch.
    let refused = |column: &str, array: ArrayRef| {
        let n = Arc::new(arrays::Int32Array::from_iter_values(0..2)) as ArrayRef;
        let columns =
            if column == "n" { vec![("n", array)] } else { vec![("n", n), (column, array)] };
        let [one, other] = both_ways(&kind, &[table(columns)]).map(Result::unwrap_err);
        assert_eq!((one.code(), one.message()), (other.code(), other.message()));
        one.code()
    };
    let labels: arrays::DictionaryArray<Int8Type> = ["cat", "cow"].into_iter().collect();
    assert_eq!(refused("label", Arc::new(labels)), "record/enum-value");
    assert_eq!(
        refused("n", Arc::new(arrays::Int32Array::from(vec![Some(1), None]))),
        "record/missing-member"
    );
    assert_eq!(
        refused("at", Arc::new(arrays::TimestampSecondArray::from(vec![0, i64::MAX]))),
        "record/range"
    );
    assert_eq!(
        refused("more", Arc::new(StringArray::from(vec!["a", "b"]))),
        "record/unknown-member"
    );
    // Bytes for a text are converted one row at a time.
    let bytes = arrays::BinaryArray::from_iter_values([b"\xff", b"a"]);
    let converted = both_ways(
        &kind,
        &[table(vec![
            ("n", Arc::new(arrays::Int32Array::from(vec![1, 2]))),
            ("name", Arc::new(bytes)),
        ])],
    );
    let [one, other] = converted.map(|made| made.map_err(|e| e.code()));
    assert_eq!(one, other);
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let int8 = || json!({"n": {"TypeDef:Int8": true}});
    let texts = || -> ArrayRef { Arc::new(StringArray::from(vec!["a"])) };
    let ints = |n: i64| -> ArrayRef { Arc::new(arrays::Int64Array::from(vec![n])) };
    let list = |items: Vec<Option<i32>>| -> ArrayRef {
        Arc::new(arrays::ListArray::from_iter_primitive::<Int32Type, _, _>([Some(items)]))
    };
    let array = |len: Option<u64>| match len {
        None => json!({"a": {"TypeDef:Array": true, "items": {"TypeDef:Int32": true}}}),
        Some(n) => {
            json!({"a": {"TypeDef:Array": true, "items": {"TypeDef:Int32": true}, "minItems": n, "maxItems": n}})
        }
    };
    let enums = json!({"n": {"enum": ["x"], "TypeDef:Enum": true}});
    let far: ArrayRef = Arc::new(arrays::TimestampSecondArray::from(vec![i64::MAX]));
    /// A kind, its columns, the rule that they break, and words of the error.
    type Case = (serde_json::Value, Vec<(&'static str, ArrayRef)>, &'static str, &'static str);
    let cases: Vec<Case> = vec![
        (
            int8(),
            vec![("n", texts())],
            "records/arrow",
            "column `n` has the type Utf8, but the member is a `TypeDef:Int8`",
        ),
        (int8(), vec![("n", ints(128))], "record/range", "128"),
        (
            int8(),
            vec![("n", Arc::new(arrays::Int64Array::from(vec![None])))],
            "record/missing-member",
            "null",
        ),
        (int8(), vec![("n", ints(1)), ("m", ints(1))], "record/unknown-member", "`m`"),
        (
            int8(),
            vec![("n", ints(1)), ("n", ints(1))],
            "record/unknown-member",
            "two columns are called `n`",
        ),
        (int8(), vec![], "record/missing-member", "missing or null"),
        (enums, vec![("n", texts())], "record/enum-value", "`a`"),
        (
            array(Some(2)),
            vec![("a", list(vec![Some(1)]))],
            "record/count",
            "expected 2 elements, found 1",
        ),
        (array(None), vec![("a", list(vec![Some(1), None]))], "record/type", "null"),
        (json!({"n": {"TypeDef:Timestamp": true}}), vec![("n", far)], "record/range", "time"),
        (json!({"n": {"TypeDef:Record": true}}), vec![("n", texts())], "record/json", ""),
        (
            json!({"n": {"TypeDef:Float32": true}}),
            vec![("n", Arc::new(arrays::Float64Array::from(vec![0.1])))],
            "records/arrow",
            "Float64",
        ),
    ];
    for (members, columns, code, part) in cases {
        let required: Vec<_> = members.as_object().unwrap().keys().cloned().collect();
        let required: Vec<_> = required.iter().map(String::as_str).collect();
        let fields = columns.iter().map(|(n, c)| Field::new(*n, c.data_type().clone(), true));
        let options = arrays::RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(
            Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            columns.iter().map(|(_, c)| c.clone()).collect(),
            &options,
        );
        let e = written(&record(members, &required), |set| set.batch(&batch.unwrap()).map(drop));
        let e = e.unwrap_err();
        assert_eq!(e.code(), code, "{e}");
        assert!(e.to_string().contains(part), "{e}");
        assert_eq!(e.tensor(), Some("set"));
    }
}

#[test]
fn a_table_says_its_own_kind() {
    let records = records_of(&dataset(20), Io::Map);
    let arrow = records.arrow(&["id", "half", "flag", "text", "box", "tags", "mask"]).unwrap();
    let batch = arrow.batch(records.iter(0..20).unwrap()).unwrap();
    let kind = row_schema(&batch.schema()).unwrap();
    assert_eq!(kind["required"], json!(["id", "half", "text", "box", "tags", "mask"]));
    assert_eq!(kind["properties"]["box"]["minItems"], 4);
    let again = written(&kind, |set| set.batch(&batch).map(drop)).unwrap();
    for (found, at) in values(&again).into_iter().zip(0..) {
        let mut wanted = value(at);
        for gone in ["x", "label", "shape", "meta"] {
            wanted.as_object_mut().unwrap().remove(gone);
        }
        assert_eq!(found, wanted);
    }
    let decimal = Schema::new(vec![Field::new("d", DataType::Decimal128(10, 2), false)]);
    let decimal = holdall::records::arrow::row_schema(&decimal).unwrap();
    assert_eq!(decimal["properties"]["d"]["arrow.decimal"], json!([10, 2]));
    let months = DataType::Interval(IntervalUnit::YearMonth);
    let odd = Schema::new(vec![Field::new("d", months, false)]);
    let e = holdall::records::arrow::row_schema(&odd).unwrap_err();
    assert_eq!((e.code(), e.kind()), ("records/arrow", ErrorKind::Misuse));
    let tensor = record(
        json!({"t": {"TypeDef:Tensor": {"dtype": "F32", "shape": [2, 3]}},
        "u": {"TypeDef:BFloat16": true}, "w": {"TypeDef:Timestamp": true}}),
        &["t", "u", "w"],
    );
    let empty = records_of(
        &made("records", &tensor.to_string(), 0, vec![("data", DType::U8, vec![])]),
        Io::Map,
    );
    let again = holdall::records::arrow::row_schema(&empty.arrow(ALL).unwrap().schema()).unwrap();
    assert_eq!(again["properties"]["t"], tensor["properties"]["t"]);
    for (name, key) in [("u", "TypeDef:BFloat16"), ("w", "TypeDef:Timestamp")] {
        assert_eq!(again["properties"][name][key], true);
    }
}

#[test]
fn runs_of_blobs_are_columns() {
    let runs = blob("I16", &[&[1, 0, 2, 0], &[], &[255, 255]], 2);
    let runs =
        open(&write(&runs, &WriteOptions::new()), Io::Read).tensor("set").unwrap().blob().unwrap();
    let batch = runs.arrow(0..3).unwrap();
    let lists = batch.column(0).as_list::<i64>();
    assert_eq!(lists.value(0).as_primitive::<Int16Type>().values(), &[1, 2]);
    assert!(lists.value(1).is_empty() && lists.value(2).as_primitive::<Int16Type>().value(0) == -1);
    assert_eq!(runs.arrow(1..4).unwrap_err().code(), "records/index");

    let mut texts = holdall::records::BlobWriter::new(
        "t",
        Content::Utf8,
        Path::new("."),
        &holdall::schema::SchemaLimits::default(),
    );
    let some: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    assert_eq!(texts.array(&some).unwrap_err().code(), "record/type");
    let e = texts.array(&UInt64Array::from(vec![1])).unwrap_err();
    assert_eq!((e.code(), e.tensor()), ("records/arrow", Some("t")));
    assert_eq!(texts.len(), 1, "the row before is there");
}

#[test]
fn hostile_records_are_refused() {
    let broken = |members: serde_json::Value, bytes: &[u8], heap: &[u8]| {
        let kind = record(
            members.clone(),
            &members.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(),
        );
        let mut data = bytes.to_vec();
        data.resize(16, 0);
        let mut parts = vec![("data", DType::U8, data)];
        if !heap.is_empty() {
            parts.push(("blob_data", DType::U8, heap.to_vec()));
        }
        batch_of(&records_of(&made("records", &kind.to_string(), 1, parts), Io::Map))
            .unwrap_err()
            .code()
    };
    assert_eq!(broken(json!({"b": {"TypeDef:Boolean": true}}), &[2], &[]), "record/bool-byte");
    let flags = json!({"b": {"TypeDef:Array": true, "minItems": 2, "maxItems": 2, "items": {"TypeDef:Boolean": true}}});
    assert_eq!(broken(flags, &[1, 9], &[]), "record/bool-byte");
    assert_eq!(
        broken(json!({"e": {"enum": ["a"], "TypeDef:Enum": true}}), &[7], &[]),
        "record/enum-index"
    );
    let entry = Entry { offset: 2, len: 9 }.to_bytes();
    assert_eq!(
        broken(json!({"s": {"TypeDef:String": true}}), &entry, b"abcd"),
        "record/entry-bounds"
    );
    let entry = Entry { offset: 0, len: 2 }.to_bytes();
    assert_eq!(broken(json!({"s": {"TypeDef:String": true}}), &entry, b"\xff\xff"), "record/utf8");

    // Entries that share their bytes represent more than fits into memory.
    let kind = record(json!({"s": {"TypeDef:String": true}}), &["s"]).to_string();
    let heap = vec![b'a'; 1 << 16];
    let entry = Entry { offset: 0, len: 1 << 16 }.to_bytes();
    let parts = vec![("data", DType::U8, entry.repeat(4096)), ("blob_data", DType::U8, heap)];
    let file = write(&made("records", &kind, 4096, parts), &WriteOptions::new());
    let mut limits = Limits::default();
    limits.decoded_len = 1 << 20;
    let file = OpenOptions::new().with_limits(limits).open(file.path()).unwrap();
    let records = file.tensor("set").unwrap().records().unwrap();
    let e = batch_of(&records).unwrap_err();
    assert_eq!((e.code(), e.kind()), ("record/too-large", ErrorKind::Limit));
    let some = records.arrow(ALL).unwrap().batch(records.iter(0..8).unwrap()).unwrap();
    assert_eq!(some.column(0).as_string::<i64>().value(7).len(), 1 << 16);
    // A reader returns the error, and then nothing more.
    let mut batches = records.arrow(ALL).unwrap().batches(records.iter(0..4096).unwrap(), 4096);
    assert!(batches.next().unwrap().is_err() && batches.next().is_none());
}
