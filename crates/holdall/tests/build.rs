//! Writes datasets, blobs and tensors into one file: from text, values, bytes and other files.

#[path = "../examples/dataset.rs"]
mod dataset_example;

use crate::count::Count;
use crate::records_files::{encode, sample, value};
use holdall::records::{Build, DatasetWriter};
use holdall::schema::{Content, Entry};
use holdall::{
    DType, File, Io, OpenOptions, Result, Role, TensorRecords as _, TensorSpec, Work, WriteOptions,
};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn build(path: &Path) -> Build {
    Build::create(path, &WriteOptions::new()).unwrap()
}

fn open(path: &Path) -> File {
    OpenOptions::new().open(path).unwrap()
}

/// Writes one dataset, and returns its records.
fn round(kind: &serde_json::Value, fill: impl Fn(&mut DatasetWriter)) -> Vec<serde_json::Value> {
    round_with(kind, |d| d, fill).0
}

/// Returns the records, and the bytes of their heap.
fn round_with(
    kind: &serde_json::Value,
    with: impl Fn(DatasetWriter) -> DatasetWriter,
    fill: impl Fn(&mut DatasetWriter),
) -> (Vec<serde_json::Value>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.zt");
    let mut build = build(&path);
    let mut set = with(build.dataset_with_schema("set", kind).unwrap());
    fill(&mut set);
    build.add(set).unwrap();
    build.finish().unwrap();
    let tensor = open(&path).tensor("set").unwrap();
    let heap = tensor.component(&Role::from_name("blob_data")).and_then(|c| c.decoded_len);
    let records = tensor.records().unwrap();
    let all = records.iter(0..records.len()).unwrap().map(|r| r.unwrap().to_value().unwrap());
    (all.collect(), heap.unwrap_or(0))
}

fn all(count: u64) -> Vec<serde_json::Value> {
    (0..count).map(value).collect()
}

fn text(count: u64) -> Vec<u8> {
    (0..count).flat_map(|i| format!("{}\n", value(i)).into_bytes()).collect()
}

#[test]
fn the_example_runs() {
    let folder = tempfile::tempdir().unwrap();
    dataset_example::run(folder.path(), 1000).unwrap();
}

#[test]
fn records_come_back_however_they_went_in() {
    let wanted = all(300);
    let by_value = round(&sample(), |set| wanted.iter().for_each(|v| set.value(v).unwrap()));
    assert!(by_value == wanted);
    let by_text = round(&sample(), |set| {
        wanted.iter().for_each(|v| set.text(v.to_string().as_bytes()).unwrap());
        assert_eq!(set.len(), 300);
    });
    assert!(by_text == wanted);
    let by_bytes = round(&sample(), |set| {
        let (records, heap) = encode(&sample(), wanted.iter().cloned());
        let stride = set.extent().stride as usize;
        records.chunks_exact(stride).for_each(|r| set.raw(r, &heap).unwrap());
    });
    assert!(by_bytes == wanted);
}

#[test]
fn datasets_that_were_not_added_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.mt");
    let filled = |build: &Build, name: &str| {
        let mut set = build.dataset_with_schema(name, &sample()).unwrap();
        set.value(&value(0)).unwrap();
        set
    };
    // Dropped, or still alive elsewhere.
    let first = build(&path);
    drop(filled(&first, "train"));
    let mut texts = first.blob_with_content("texts", Content::Utf8).unwrap();
    texts.text("a").unwrap();
    let e = first.finish().unwrap_err();
    assert_eq!((e.code(), e.kind()), ("build/not-added", holdall::ErrorKind::Misuse));
    assert_eq!(e.message(), "`train`, `texts` were begun, but not added to the file");
    assert!(e.hint().is_some_and(|hint| hint.contains("discard")), "{e}");
    assert!(!path.exists());

    // Finished, but not added.
    let second = build(&path);
    drop(holdall::records::FinishedTensor::from(filled(&second, "train")));
    let e = second.finish().unwrap_err();
    assert_eq!(e.message(), "`train` was begun, but not added to the file");

    // Discarded, and started again under the same name.
    let mut third = build(&path);
    filled(&third, "train").discard();
    texts.discard();
    let train = filled(&third, "train");
    third.add(train).unwrap();
    // The error about a dataset that cannot be added is returned at once.
    let again = filled(&third, "train");
    assert_eq!(third.add(again).unwrap_err().code(), "write/same-name");
    assert_eq!(third.finish().unwrap().tensors, 1);
    assert_eq!(open(&path).tensor("train").unwrap().records().unwrap().len(), 1);
}

/// Records with nested entries are parsed; the entries of others are moved together.
#[test]
fn lines_are_encoded_on_many_threads_in_order() {
    let mut flat = sample();
    flat["TypeDef:Struct"] = json!(["id", "text", "mask", "meta", "flag"]);
    flat["required"] = json!(["id", "text", "mask", "meta"]);
    let names = ["id", "text", "mask", "meta", "flag"];
    flat["properties"].as_object_mut().unwrap().retain(|name, _| names.contains(&name.as_str()));
    let of_flat = |mut value: serde_json::Value| {
        value.as_object_mut().unwrap().retain(|name, _| names.contains(&name.as_str()));
        value
    };
    const COUNT: u64 = 20_000;
    for (kind, wanted) in
        [(sample(), all(COUNT)), (flat, all(COUNT).into_iter().map(of_flat).collect::<Vec<_>>())]
    {
        let lines: Vec<u8> =
            wanted.iter().flat_map(|v| format!("{v}\r\n \n").into_bytes()).collect();
        for threads in [1, 2, 5] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("set.zt");
            let mut build = Build::create(
                &path,
                &WriteOptions::new().with_work(Work::new().with_threads(threads)),
            )
            .unwrap();
            let mut set = build.dataset_with_schema("set", &kind).unwrap();
            // Some before, so that the heap is not empty, and the last line without a line feed.
            set.value(&wanted[0]).unwrap();
            let end = lines.len() - 4;
            assert_eq!(set.lines(&lines[..end]).unwrap(), COUNT);
            build.add(set).unwrap();
            build.finish().unwrap();
            let records = open(&path).tensor("set").unwrap().records().unwrap();
            assert_eq!(records.len(), COUNT + 1);
            let found = records.iter(1..COUNT + 1).unwrap();
            assert!(found.zip(&wanted).all(|(r, v)| r.unwrap().to_value().unwrap() == *v));
        }
    }
}

#[test]
fn equal_values_share_their_bytes_when_asked() {
    let same = |set: &mut DatasetWriter| {
        for i in 0..100 {
            let mut value = value(2);
            value["id"] = json!(i);
            set.value(&value).unwrap();
        }
        set.lines(&text(50)[..]).unwrap();
        set.lines(&text(50)[..]).unwrap();
    };
    let (plain, long) = round_with(&sample(), |d| d, same);
    let (shared, short) = round_with(&sample(), DatasetWriter::with_dedup, same);
    assert!(plain == shared);
    assert!(short < long / 3, "{short} of {long} bytes");
}

#[test]
fn a_record_that_is_refused_leaves_no_trace() {
    let kind = sample();
    let mut wrong = value(1);
    wrong["mask"] = json!([1, -1]);
    let wanted = all(3);
    let (found, heap) = round_with(&kind, DatasetWriter::with_dedup, |set| {
        set.value(&wanted[0]).unwrap();
        let e = set.value(&wrong).unwrap_err();
        assert_eq!((e.code(), e.tensor()), ("record/range", Some("set")), "{e}");
        assert_eq!(set.text(b"{").unwrap_err().code(), "json/truncated");
        set.value(&wanted[1]).unwrap();
        let stride = set.extent().stride as usize;
        let (mut records, heap) = encode(&kind, [value(1)].into_iter());
        assert_eq!(set.raw(&records[1..], &heap).unwrap_err().code(), "record/length");
        let e = set.raw(&records[..stride], &heap[..20]).unwrap_err();
        assert_eq!(e.code(), "record/entry-bounds", "{e}");
        records[0] = 0xff;
        assert_eq!(set.raw(&records, &heap).unwrap_err().code(), "record/presence");
        set.value(&wanted[2]).unwrap();
        assert_eq!(set.len(), 3);
    });
    assert!(found == wanted);
    let sound = round_with(&kind, DatasetWriter::with_dedup, |set| {
        wanted.iter().for_each(|v| set.value(v).unwrap());
    });
    assert_eq!(heap, sound.1);
}

#[test]
fn a_wrong_line_is_named() {
    for threads in [1, 4] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.zt");
        let build =
            Build::create(&path, &WriteOptions::new().with_work(Work::new().with_threads(threads)))
                .unwrap();
        let mut set = build.dataset_with_schema("set", &sample()).unwrap();
        let mut lines = text(9000);
        lines.extend(b"{\"id\": -1}\n");
        lines.extend(text(9000));
        let e = set.lines(&lines[..]).unwrap_err();
        assert_eq!((e.code(), e.tensor()), ("record/range", Some("set")), "{e}");
        assert!(e.message().starts_with("line 9001: "), "{e}");
        let mut failing = std::io::Read::chain(&b"{"[..], Failing);
        assert_eq!(set.lines(&mut failing).unwrap_err().code(), "io/failed");
    }
}

struct Failing;

impl std::io::Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }
}

struct Endless;

impl std::io::Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        out.fill(b' ');
        Ok(out.len())
    }
}

#[test]
fn a_line_without_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let build = build(&folder.path().join("set.zt"));
    let mut set = build.dataset_with_schema("set", &sample()).unwrap();
    assert_eq!(set.lines(Endless).unwrap_err().code(), "records/line");
}

/// Returns a schema for a whole file.
fn schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "train": {"type": "array", "items": {"$ref": "#/$defs/sample"}, "TypeDef:Array": true},
            "splits": {"type": "array", "items": {"type": "object", "properties": {
                "texts": {"TypeDef:Blob": {"content": "utf-8"}}}}},
            "weights": {"type": "object", "additionalProperties": {"TypeDef:Tensor": {"dtype": "F32"}}}
        },
        "$defs": {"sample": sample()}
    })
}

#[test]
fn datasets_blobs_and_tensors_share_a_file_and_a_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.zt");
    let progress = Arc::new(Count::default());
    let options = WriteOptions::new().with_work(progress.work());
    let build = Build::create(&path, &options).unwrap();
    let mut build = build.with_schema(&schema()).unwrap();
    let (mut train, mut texts) =
        (build.dataset("train").unwrap(), build.blob("splits[1].texts").unwrap().with_dedup());
    for i in 0..100u64 {
        train.value(&value(i)).unwrap();
        assert_eq!(texts.text(&format!("text {}", i % 10)).unwrap(), i);
    }
    for (name, code) in [
        ("weights.w", "records/node"),
        ("splits[0]", "records/node"),
        ("nothing", "records/node"),
        ("train[0]", "records/node"),
        ("a..b", "schema/path"),
    ] {
        assert_eq!(build.dataset(name).map(drop).unwrap_err().code(), code, "{name}");
        assert_eq!(build.blob(name).map(drop).unwrap_err().code(), code, "{name}");
    }
    assert_eq!(build.blob("train").map(drop).unwrap_err().code(), "records/node");
    build.add(train).unwrap();
    build.add(texts).unwrap();
    let w: Vec<u8> = (0..300_000u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let spec = |name: &str| TensorSpec::dense(name, DType::F32, [300_000]);
    build.tensor(spec("weights.a"), &[&w]).unwrap();
    build.tensor_from(spec("weights.b"), std::io::Cursor::new(w.clone())).unwrap();
    let e = build.tensor(spec("weights.a"), &[&w]).unwrap_err();
    assert_eq!(e.code(), "write/same-name");
    let report = build.finish().unwrap();
    assert_eq!(report.tensors, 4);
    assert_eq!(report.target_len, std::fs::metadata(&path).unwrap().len());
    // Tensors of `tensor_from` are not counted while they are written.
    let total = progress.total.load(Ordering::Relaxed);
    assert_eq!(progress.done.load(Ordering::Relaxed), total - w.len() as u64);

    let file = open(&path);
    let found = file.attributes().get("metatensor.schema").unwrap().as_text().unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(found).unwrap(), schema());
    for name in ["weights.a", "weights.b"] {
        assert!(*file.tensor(name).unwrap().bytes(&Role::Data).unwrap() == w);
    }
    let records = file.tensor("train").unwrap().records().unwrap();
    assert_eq!(records.record(99).unwrap().to_value().unwrap(), value(99));
    let texts = file.tensor("splits[1].texts").unwrap().blob().unwrap();
    assert_eq!((texts.len(), &*texts.str(57).unwrap()), (100, "text 7"));
    assert_eq!(
        file.tensor("splits[1].texts").unwrap().bytes(&Role::from_name("blob_data")).unwrap().len(),
        60
    );

    // A file with some of the contents.
    let some = folder.path().join("some.zt");
    let mut build = self::build(&some);
    let mut odd = build.dataset_with_schema("odd", &sample_of_schema()).unwrap();
    for i in (1..100).step_by(2) {
        odd.copy(&records.record(i).unwrap()).unwrap();
    }
    let mut other = build.dataset_with_schema("other", &json!({"TypeDef:Int8": true})).unwrap();
    let e = other.copy(&records.record(0).unwrap()).unwrap_err();
    assert_eq!((e.code(), e.tensor()), ("records/other-kind", Some("other")));
    other.discard();
    build.add(odd).unwrap();
    build.copy(&file.tensor("weights.a").unwrap()).unwrap();
    build.copy(&file.tensor("splits[1].texts").unwrap()).unwrap();
    build.finish().unwrap();
    let file = open(&some);
    assert_eq!(file.tensor("splits[1].texts").unwrap().blob().unwrap().str(3).unwrap(), "text 3");
    let records = file.tensor("odd").unwrap().records().unwrap();
    assert_eq!(records.len(), 50);
    assert_eq!(records.record(7).unwrap().to_value().unwrap(), value(15));
}

/// Returns the kind as [`schema`] gives it: with its `$defs`.
fn sample_of_schema() -> serde_json::Value {
    json!({"$ref": "#/$defs/sample", "$defs": {"sample": sample()}})
}

#[test]
fn blobs_accept_only_their_content_type() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blobs.zt");
    let mut build = build(&path);
    let mut utf8 = build.blob_with_content("utf8", Content::Utf8)?;
    assert_eq!(utf8.bytes(b"\xff").unwrap_err().code(), "record/utf8");
    assert_eq!(utf8.value(&json!(1)).unwrap_err().code(), "records/content");
    assert_eq!((utf8.text("")?, utf8.text("x")?, utf8.len()), (0, 1, 2));
    let mut json = build.blob_with_content("json", Content::Json)?;
    assert_eq!(json.text("{").unwrap_err().code(), "record/json");
    assert_eq!(json.value(&json!([1]))?, 0);
    let mut floats =
        build.blob_with_content("floats", Content::Elements(holdall::schema::TensorDType::F64))?;
    assert_eq!(floats.elements(&[1f32]).unwrap_err().code(), "records/content");
    assert_eq!(floats.bytes(&[0; 9]).unwrap_err().code(), "record/entry-length");
    assert_eq!(floats.elements(&[1.5f64, 2.5])?, 0);
    assert_eq!(floats.elements::<f64>(&[])?, 1);
    for part in [utf8, json, floats] {
        build.add(part)?;
    }
    build.finish()?;
    let file = open(&path);
    assert_eq!(file.tensor("utf8")?.blob()?.str(1)?, "x");
    assert_eq!(file.tensor("json")?.blob()?.json(0)?, json!([1]));
    assert_eq!(file.tensor("floats")?.blob()?.elements::<f64>(0)?, [1.5, 2.5]);
    assert_eq!(file.tensor("floats")?.blob()?.elements::<f64>(1)?, [0f64; 0]);
    Ok(())
}

#[test]
fn heaps_that_do_not_fit_memory_wait_on_the_disk() {
    // Larger than a spool's memory, with a record that is refused after the spool's file was created.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.zt");
    let kind = json!({"TypeDef:Struct": ["text", "n"], "required": ["text", "n"],
        "properties": {"text": {"TypeDef:String": true}, "n": {"TypeDef:Uint8": true}}});
    let long = |i: u64| "x".repeat(700_000 + i as usize);
    let mut build = build(&path);
    let mut set = build.dataset_with_schema("set", &kind).unwrap();
    for i in 0..8 {
        set.value(&json!({"text": long(i), "n": i})).unwrap();
        let e = set.value(&json!({"text": long(1 << 20), "n": 256})).unwrap_err();
        assert_eq!(e.code(), "record/range");
    }
    build.add(set).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    build.finish().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    for io in [Io::Map, Io::Read] {
        let file = OpenOptions::new().with_io(io).open(&path).unwrap();
        let tensor = file.tensor("set").unwrap();
        let heap = tensor.component(&Role::from_name("blob_data")).unwrap().decoded_len;
        assert_eq!(heap, Some((0..8).map(|i| long(i).len() as u64).sum()));
        let records = tensor.records().unwrap();
        let text = records.accessor("text").unwrap();
        for i in 0..8 {
            assert!(records.record(i).unwrap().string(&text).unwrap().unwrap() == long(i));
        }
    }
    assert_eq!(Entry::LEN, 16);
}

#[test]
fn unsupported_items_are_refused_early() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("a.safetensors");
    let build = Build::create(&plain, &WriteOptions::new()).unwrap();
    let e = build.dataset_with_schema("set", &sample()).map(drop).unwrap_err();
    assert_eq!(e.code(), "safetensors/layout", "{e}");
    let e = build.blob_with_content("set", Content::Utf8).map(drop).unwrap_err();
    assert_eq!(e.code(), "safetensors/layout", "{e}");
    drop(build);
    let build = self::build(&folder.path().join("b.zt"));
    assert_eq!(build.dataset("set").map(drop).unwrap_err().code(), "records/node");
    for kind in [json!({}), json!({"TypeDef:Nothing": true})] {
        assert_eq!(
            build.dataset_with_schema("set", &kind).map(drop).unwrap_err().code(),
            "schema/kind"
        );
    }
    drop(build);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let e =
        Build::create(folder.path().join("no/a.zt"), &WriteOptions::new()).map(drop).unwrap_err();
    assert_eq!(e.code(), "io/failed");
}
