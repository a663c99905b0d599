//! Datasets of records: by index, by member, by column, with every kind of source.

use crate::records_files::{Made, dataset, made, open, sample, value, write};
use holdall::schema::Entry;
use holdall::{DType, Io, Records, Result, TensorRecords as _, Work, WriteOptions};
use std::sync::atomic::{AtomicU64, Ordering};

const COUNT: u64 = 24_000;

/// Runs a test on the records of a file, for each way of opening and writing it.
fn everywhere(made: &Made, test: impl Fn(&Records)) {
    for options in [WriteOptions::new(), WriteOptions::new().with_zstd(1)] {
        let file = write(made, &options);
        for io in [Io::Map, Io::Read] {
            let records = open(&file, io).tensor("set").unwrap().records().unwrap();
            test(&records);
            test(&records.loaded().unwrap());
        }
    }
}

fn records_of(made: &Made) -> Result<Records> {
    open(&write(made, &WriteOptions::new()), Io::Map).tensor("set")?.records()
}

#[test]
fn records_come_back_by_place() {
    everywhere(&dataset(COUNT), |records| {
        assert_eq!(records.len(), COUNT);
        for i in [0, 1, 2, 7, 40, COUNT / 2, COUNT - 1] {
            let record = records.record(i).unwrap();
            assert_eq!(record.index(), i);
            assert_eq!(record.to_value().unwrap(), value(i));
            record.check().unwrap();
        }
        let e = records.record(COUNT).unwrap_err();
        assert_eq!((e.code(), e.tensor()), ("records/index", Some("set")));
        assert_eq!(records.record(u64::MAX).unwrap_err().code(), "records/index");
    });
}

#[test]
fn parts_are_records_of_their_own() {
    everywhere(&dataset(50), |records| {
        let paths = ["id", "text", "tags", "box", "shape", "shape.named", "meta"];
        for (i, record) in (0..).zip(records.iter(0..50).unwrap()) {
            let (record, json) = (record.unwrap(), value(i));
            for path in paths {
                let accessor = records.accessor(path).unwrap();
                let part = record.part(&accessor).unwrap();
                let Some(part) = part else {
                    assert!(path == "shape.named" && json["shape"]["kind"] == "circle");
                    continue;
                };
                assert_eq!((part.index(), part.ty()), (i, accessor.ty()));
                let found = part.to_value().unwrap();
                match path {
                    "shape.named" => assert_eq!(found["name"], json["shape"]["name"]),
                    path => assert_eq!(found, json[path]),
                }
                let again = part.with_heap(|schema, bytes, heap| {
                    schema.record_value(part.ty(), bytes, heap, records.limits())
                });
                assert_eq!(again.unwrap(), found);
            }
        }
    });
}

#[test]
fn members_are_read_where_they_lie() {
    everywhere(&dataset(50), |records| {
        let (id, x) = (records.typed::<u64>("id").unwrap(), records.typed::<f32>("x").unwrap());
        let half = records.typed::<f32>("half").unwrap();
        let flag = records.typed::<bool>("flag").unwrap();
        let third = records.typed::<i16>("box[2]").unwrap();
        let radius = records.typed::<f64>("shape.circle.r").unwrap();
        let [label, text, meta, shape, name] =
            ["label", "text", "meta", "shape", "shape.named.name"]
                .map(|path| records.accessor(path).unwrap());
        for (i, record) in (0..).zip(records.iter(0..50).unwrap()) {
            let record = record.unwrap();
            let json = value(i);
            assert_eq!(record.get(&id).unwrap(), Some(i));
            assert_eq!(records.get(i, &x).unwrap(), Some(i as f32 / 4.0));
            assert_eq!(record.get(&half).unwrap(), Some(0.5));
            assert_eq!(record.get(&third).unwrap(), Some(2));
            assert_eq!(record.get(&flag).unwrap(), json["flag"].as_bool());
            assert_eq!(record.is_present(flag.accessor()).unwrap(), i % 4 == 0);
            assert_eq!(record.enum_value(&label).unwrap(), json["label"].as_str());
            assert_eq!(record.string(&text).unwrap().as_deref(), json["text"].as_str());
            let found = record.json(&meta).unwrap().unwrap();
            assert_eq!(serde_json::from_str::<serde_json::Value>(&found).unwrap(), json["meta"]);
            assert_eq!(record.variant(&shape).unwrap(), json["shape"]["kind"].as_str());
            assert_eq!(record.get(&radius).unwrap(), json["shape"]["r"].as_f64());
            assert_eq!(record.string(&name).unwrap().as_deref(), json["shape"]["name"].as_str());
        }
        let e = records.record(0).unwrap().string(&label).unwrap_err();
        assert_eq!(e.code(), "record/access");
        assert_eq!(records.typed::<f32>("id").unwrap_err().code(), "record/access");
        assert_eq!(records.accessor("nothing").unwrap_err().code(), "schema/unknown-path");
        assert_eq!(records.accessor("box[4]").unwrap_err().code(), "schema/unknown-path");
    });
}

#[test]
fn texts_are_a_member_of_all_records() {
    everywhere(&dataset(50), |records| {
        let records = records.loaded().unwrap();
        let texts = records.texts("text").unwrap().unwrap();
        assert_eq!(texts.len(), 50);
        for i in 0..50 {
            assert_eq!(Some(texts.get(i).unwrap()), value(i)["text"].as_str());
        }
        assert_eq!(texts.get(50).unwrap_err().code(), "records/index");
        assert_eq!(records.texts("label").unwrap_err().code(), "record/access");
        assert!(records.texts("shape.named.name").unwrap().is_none());
    });
}

#[test]
fn ragged_rows_are_slices_of_the_heap() {
    everywhere(&dataset(40), |records| {
        let [mask, tags, fixed, text] =
            ["mask", "tags", "box", "text"].map(|path| records.accessor(path).unwrap());
        let number = records.element_accessor(&mask, "").unwrap().typed::<u16>().unwrap();
        let (name, at) = (
            records.element_accessor(&tags, "name").unwrap(),
            records.element_accessor(&tags, "at").unwrap().typed::<i32>().unwrap(),
        );
        let short = records.element_accessor(&fixed, "").unwrap().typed::<i16>().unwrap();
        for i in 0..40 {
            let record = records.record(i).unwrap();
            let row = record.elements(&mask).unwrap().unwrap();
            let wanted: Vec<u16> = (0..(i % 5) as u16).collect();
            assert_eq!((row.len(), row.to_vec(&number).unwrap()), (wanted.len(), wanted));
            let found = record.elements(&tags).unwrap().unwrap();
            assert_eq!(found.len() as u64, i % 3);
            for (t, tag) in found.iter().enumerate() {
                assert_eq!(tag.string(&name).unwrap().unwrap(), format!("tag{t}"));
                assert_eq!(tag.get(&at).unwrap(), Some(t as i32));
                assert_eq!(tag.to_value().unwrap(), value(i)["tags"][t]);
            }
            assert!(found.at(3).is_none());
            let corners = record.elements(&fixed).unwrap().unwrap();
            assert_eq!(corners.to_vec(&short).unwrap(), [(i % 100) as i16, -1, 2, 3]);
            assert_eq!(record.elements(&text).unwrap_err().code(), "record/access");
        }
        assert_eq!(records.element_accessor(&text, "").unwrap_err().code(), "record/access");
    });
}

#[test]
fn a_column_is_a_member_of_all_records() {
    everywhere(&dataset(COUNT), |records| {
        let x = records.column::<f32>("x").unwrap();
        let wanted: Vec<f32> = (0..COUNT).map(|i| i as f32 / 4.0).collect();
        assert!(x.to_vec().unwrap() == wanted);
        assert!(x.iter().map(|v| v.unwrap().unwrap()).eq(wanted.iter().copied()));
        let mut some = [0.0; 3];
        x.copy_range_into(COUNT - 3..COUNT, &mut some).unwrap();
        assert_eq!(some[..], wanted[wanted.len() - 3..]);
        assert_eq!(x.get(5).unwrap(), Some(1.25));
        if let Some(base) = x.base() {
            let at = 9 * x.stride();
            assert_eq!(f32::from_le_bytes(base[at..at + 4].try_into().unwrap()), 2.25);
        }

        let ids = records.column::<u64>("id").unwrap().to_vec().unwrap();
        assert!(ids.into_iter().eq(0..COUNT));
        let boxes = records.column::<i16>("box[1]").unwrap().to_vec().unwrap();
        assert!(boxes.into_iter().all(|b| b == -1));

        let flag = records.column::<bool>("flag").unwrap();
        assert!(!flag.is_always_present() && x.is_always_present());
        assert!(flag.presence().unwrap().into_iter().eq((0..COUNT).map(|i| i % 4 == 0)));
        assert!(flag.to_vec().unwrap().into_iter().eq((0..COUNT).map(|i| i % 8 == 0)));
        let radius = records.column::<f64>("shape.circle.r").unwrap().to_vec().unwrap();
        assert!(radius.iter().zip(0..).all(|(r, i)| *r == if i % 2 == 0 { 1.5 } else { 0.0 }));

        let e = x.copy_into(&mut [0.0; 3]).unwrap_err();
        assert_eq!(e.code(), "records/buffer", "{e}");
        let e = x.copy_range_into(COUNT - 1..COUNT + 1, &mut [0.0; 2]).unwrap_err();
        assert_eq!(e.code(), "records/index", "{e}");
    });
}

#[test]
fn values_are_a_column_where_it_lies() {
    everywhere(&dataset(50), |records| {
        let is_at_hand = records.bytes().is_some();
        let x = records.column::<f32>("x").unwrap();
        assert_eq!(x.values().is_some(), is_at_hand);
        if let Some(values) = x.values() {
            assert_eq!((values.len(), values.is_empty()), (50, false));
            assert!((0..50).all(|i| values.get(i) == Some(i as f32 / 4.0)));
            assert!(values.iter().eq((0..50).map(|i| i as f32 / 4.0)));
            for outside in [50, usize::MAX / 2, usize::MAX] {
                assert_eq!(values.get(outside), None);
            }
        }
        // The last element of the array, and so the last bytes that a value may have.
        let last = records.column::<i16>("box[3]").unwrap();
        assert_eq!(last.values().map(|v| v.iter().all(|b| b == 3)), is_at_hand.then_some(true));
        // Absent in some records, a boolean, and narrower than the type it is read as.
        assert!(records.column::<bool>("flag").unwrap().values().is_none());
        assert!(records.column::<f64>("shape.circle.r").unwrap().values().is_none());
        assert!(records.column::<f32>("half").unwrap().values().is_none());
        assert!(records.column::<f64>("x").unwrap().values().is_none());
    });
}

#[test]
fn many_threads_see_every_record_once() {
    everywhere(&dataset(COUNT), |records| {
        let id = records.typed::<u64>("id").unwrap();
        for work in [Work::new().with_threads(1), Work::new().with_threads(3), Work::new()] {
            let (sum, count) = (AtomicU64::new(0), AtomicU64::new(0));
            records
                .par_for_each(&work, |record| {
                    let found = record.get(&id)?.unwrap_or(u64::MAX);
                    assert_eq!(found, record.index());
                    sum.fetch_add(found, Ordering::Relaxed);
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })
                .unwrap();
            assert_eq!(sum.into_inner(), COUNT * (COUNT - 1) / 2);
            assert_eq!(count.into_inner(), COUNT);
        }
        let stop = |_: holdall::records::Record<'_>| records.record(COUNT).map(drop);
        assert_eq!(records.par_for_each(&Work::new(), stop).unwrap_err().code(), "records/index");
        let e = records.iter(1..COUNT + 1).map(drop).unwrap_err();
        assert_eq!(e.code(), "records/index");
    });
}

#[test]
fn a_dataset_may_be_empty() {
    everywhere(&dataset(0), |records| {
        assert!(records.is_empty());
        let x = records.column::<f32>("x").unwrap();
        assert!(x.to_vec().unwrap().is_empty());
        assert!(x.values().is_none_or(|v| v.is_empty() && v.get(0).is_none()));
        assert_eq!(records.iter(0..0).unwrap().count(), 0);
        records.par_for_each(&Work::new(), |_| panic!("there is no record")).unwrap();
    });
}

/// Returns a sound dataset with changed parts.
fn changed(change: impl Fn(&mut Made)) -> Made {
    let mut made = dataset(4);
    change(&mut made);
    for (spec, bytes) in made.spec.components.iter_mut().zip(&made.bytes) {
        spec.decoded_len = bytes.len() as u64;
    }
    made
}

#[test]
fn tensors_that_are_no_datasets_are_refused() {
    use holdall::{Attributes, Layout, Value};
    let kind = |text: &str| {
        Attributes::from_iter([("metatensor.kind".to_owned(), Value::Text(text.to_owned()))])
    };
    type Change = Box<dyn Fn(&mut Made)>;
    let cases: Vec<(&str, Change)> = vec![
        ("file/wrong-layout", Box::new(|m| m.spec.layout = Layout::from_name("other"))),
        ("records/kind", Box::new(|m| m.spec.attributes = Attributes::new())),
        (
            "records/kind",
            Box::new(|m| {
                m.spec.attributes =
                    Attributes::from_iter([("metatensor.kind".to_owned(), Value::Integer(1))]);
            }),
        ),
        ("json/truncated", Box::new(move |m| m.spec.attributes = kind("{"))),
        ("schema/kind", Box::new(move |m| m.spec.attributes = kind("{}"))),
        ("records/size", Box::new(|m| m.spec.shape = vec![5])),
        ("records/size", Box::new(|m| m.spec.shape = vec![u64::MAX])),
        ("records/size", Box::new(|m| m.spec.shape = vec![2, 2])),
        ("records/size", Box::new(|m| m.bytes[0].truncate(100))),
        (
            "records/heap",
            Box::new(|m| {
                m.spec.components.pop();
                m.bytes.pop();
            }),
        ),
    ];
    for (at, (code, change)) in cases.into_iter().enumerate() {
        let e = records_of(&changed(change)).map(drop).expect_err(code);
        assert_eq!((e.code(), e.tensor()), (code, Some("set")), "{at}: {e}");
    }
    let numbers = r#"{"TypeDef:Struct": ["a"], "required": ["a"], "properties": {"a": {"TypeDef:Int8": true}}}"#;
    let parts = vec![("data", DType::U8, vec![0; 32]), ("blob_data", DType::U8, vec![1])];
    let e = records_of(&made("records", numbers, 2, parts)).map(drop).unwrap_err();
    assert_eq!(e.code(), "records/heap", "{e}");
}

#[test]
fn hostile_records_are_errors_and_never_bytes_of_something_else() {
    let sound = dataset(4);
    let records = records_of(&sound).unwrap();
    let at = |path: &str| records.accessor(path).unwrap();
    let stride = records.extent().stride as usize;
    let heap = sound.bytes[1].len() as u64;
    let entry = |path: &str, record: usize, offset: u64, len: u64| {
        let start = record * stride + at(path).offset();
        changed(move |m| {
            let bytes = Entry { offset, len }.to_bytes();
            m.bytes[0][start..start + 16].copy_from_slice(&bytes);
        })
    };
    let byte = |offset: usize, byte: u8| changed(move |m| m.bytes[0][stride + offset] = byte);
    let cases = [
        ("record/entry-bounds", "text", entry("text", 1, heap - 1, 2)),
        ("record/entry-bounds", "text", entry("text", 1, u64::MAX, 2)),
        ("record/entry-bounds", "text", entry("text", 1, 2, u64::MAX)),
        ("record/entry-bounds", "tags", entry("tags", 1, 0, 1 << 62)),
        ("record/entry-empty", "text", entry("text", 1, 9, 0)),
        ("record/entry-length", "mask", entry("mask", 1, 0, 3)),
        ("record/entry-align", "mask", entry("mask", 1, 1, 2)),
        ("record/entry-length", "tags", entry("tags", 1, 0, 17)),
        ("record/presence", "flag", byte(0, 2)),
        ("record/presence", "flag", byte(at("flag").offset(), 1)),
        ("record/enum-index", "label", byte(at("label").offset(), 2)),
        ("record/union-tag", "shape", byte(at("shape").offset(), 9)),
        ("record/json", "meta", entry("meta", 1, 0, 1)),
        ("record/utf8", "text", {
            // The last byte of a two-byte letter alone.
            let text = at("text").offset();
            changed(move |m| {
                let found: [u8; 16] =
                    m.bytes[0][stride + text..stride + text + 16].try_into().unwrap();
                let found = Entry::from_bytes(found);
                m.bytes[1][found.offset as usize] = 0xff;
            })
        }),
    ];
    for (code, path, made) in cases {
        for options in [WriteOptions::new(), WriteOptions::new().with_zstd(1)] {
            for io in [Io::Map, Io::Read] {
                let records =
                    open(&write(&made, &options), io).tensor("set").unwrap().records().unwrap();
                let record = records.record(1).unwrap();
                let what = format!("{code} in {path} ({io:?})");
                assert_eq!(record.check().unwrap_err().code(), code, "{what}");
                let e = record.to_value().unwrap_err();
                assert_eq!((e.code(), e.tensor()), (code, Some("set")), "{what}: {e}");
                assert!(e.message().contains("record 1"), "{e}");
                // The other records are unchanged.
                assert_eq!(records.record(2).unwrap().to_value().unwrap(), value(2), "{what}");
                let part = records.accessor(path).unwrap();
                let found = match (code, path) {
                    ("record/entry-empty" | "record/presence", _) => continue,
                    (_, "text") => record.string(&part).map(drop),
                    (_, "meta") => record.json(&part).map(drop),
                    (_, "label") => record.enum_value(&part).map(drop),
                    (_, "shape") => record.variant(&part).map(drop),
                    _ => record.elements(&part).map(drop),
                };
                assert_eq!(found.unwrap_err().code(), code, "{what}");
            }
        }
    }
}

/// Arrays whose elements all point at the same bytes: small to store, large to follow.
#[test]
fn entries_that_share_bytes_do_not_multiply_without_end() {
    let kind = serde_json::json!({"type": "array", "TypeDef:Array": true, "items": {
        "type": "array", "TypeDef:Array": true, "items": {"TypeDef:Bytes": true, "type": "string"}}});
    // 1000 entries of 1 MiB each, then 1000 entries that point at those.
    let mut heap = vec![7u8; 1 << 20];
    let leaves = heap.len() as u64;
    (0..1000).for_each(|_| heap.extend(Entry { offset: 0, len: 1 << 20 }.to_bytes()));
    let nodes = heap.len() as u64;
    (0..1000).for_each(|_| heap.extend(Entry { offset: leaves, len: 16_000 }.to_bytes()));
    let record = Entry { offset: nodes, len: 16_000 }.to_bytes().to_vec();
    let parts = vec![("data", DType::U8, record), ("blob_data", DType::U8, heap)];
    let made = made("records", &kind.to_string(), 1, parts);
    let file = write(&made, &WriteOptions::new());
    let mut limits = holdall::Limits::default();
    limits.decoded_len = 64 << 20;
    for io in [Io::Map, Io::Read] {
        let options = holdall::OpenOptions::new().with_io(io).with_limits(limits.clone());
        let records = options.open(file.path()).unwrap().tensor("set").unwrap().records().unwrap();
        let e = records.record(0).unwrap().check().unwrap_err();
        assert_eq!(e.code(), "record/too-large", "{e}");
        let e = records.record(0).unwrap().to_value().unwrap_err();
        assert_eq!(e.code(), "record/too-large", "{e}");
    }
    // Whatever the limit, the total is at most a multiple of the file's bytes.
    let records = open(&file, Io::Map).tensor("set").unwrap().records().unwrap();
    let (len, most) = (parts_len(&records), records.limits().decoded_len);
    assert!(most >= len && most <= 64 * len, "{most} of {len}");
    assert_eq!(records.record(0).unwrap().check().unwrap_err().code(), "record/too-large");
}

/// Returns the bytes of all components.
fn parts_len(records: &Records) -> u64 {
    records.tensor().components().map(|c| c.stored_len()).sum()
}

#[test]
fn accessors_of_other_schemas_do_no_harm() {
    let (big, kind) = (records_of(&dataset(2)).unwrap(), r#"{"TypeDef:Int8": true}"#);
    let parts = vec![("data", DType::U8, vec![1, 2, 3])];
    let small = records_of(&made("records", kind, 3, parts)).unwrap();
    let record = small.record(2).unwrap();
    for path in ["text", "tags", "meta", "mask", "shape"] {
        let part = big.accessor(path).unwrap();
        assert!(record.string(&part).is_err() && record.json(&part).is_err());
        assert!(record.elements(&part).is_err() && record.data(&part).is_err());
        assert!(small.element_accessor(&part, "").is_err());
    }
    assert!(small.record(0).unwrap().get(&big.typed::<f32>("x").unwrap()).is_err());
    assert_eq!(small.column::<i8>("").unwrap().to_vec().unwrap(), [1, 2, 3]);
    assert_eq!(sample()["TypeDef:Struct"][0], "id");
}
