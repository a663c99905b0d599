//! Rows from sources that encode them, and rows that are added to a dataset.

use holdall::json::Reader;
use holdall::records::{Append, Build, FillOptions, RowSink, RowSource, Rows, infer};
use holdall::schema::{InferOptions, RecordInput};
use holdall::{Encoding, Limits, Result, Role, TensorRecords as _, TensorSpec, WriteOptions};
use serde_json::{Value, json};
use std::path::Path;

/// JSON texts, each of which is a row.
struct Texts(std::vec::IntoIter<String>);

impl RowSource for Texts {
    fn read(&mut self, to: &mut RowSink<'_, '_>) -> Result<bool> {
        while !to.is_full() {
            let Some(text) = self.0.next() else { return Ok(false) };
            to.add(&mut Reader::new(text.as_bytes(), 0, 64)?)?;
        }
        Ok(true)
    }
}

fn rows(all: &[Value]) -> Rows {
    let texts: Vec<String> = all.iter().map(Value::to_string).collect();
    Rows::from_source(Texts(texts.into_iter()), "<texts>")
}

fn kind() -> Value {
    json!({
        "TypeDef:Struct": ["id", "name"],
        "required": ["id"],
        "properties": {"id": {"TypeDef:Int16": true}, "name": {"TypeDef:String": true}},
    })
}

fn read(path: &Path, name: &str) -> Vec<Value> {
    let records = holdall::open(path).unwrap().tensor(name).unwrap().records().unwrap();
    let all = records.iter(0..records.len()).unwrap();
    all.map(|record| record.unwrap().to_value().unwrap()).collect()
}

fn build(path: &Path, all: &[Value], options: &FillOptions) -> Result<u64> {
    let mut build = Build::create(path, &WriteOptions::new())?;
    let mut set = build.dataset_with_schema("set", &kind())?;
    let count = set.fill(rows(all), options);
    build.add(set)?;
    let other = TensorSpec::dense("w", holdall::DType::U8, [3]);
    build.tensor(other, &[&[1, 2, 3]])?;
    build.finish()?;
    count
}

#[test]
fn rows_of_a_source_become_records_and_a_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zt");
    let all: Vec<Value> = (0..5000).map(|n| json!({"id": n, "name": "x".repeat(300)})).collect();
    assert_eq!(build(&path, &all, &FillOptions::new()).unwrap(), 5000);
    assert_eq!(read(&path, "set"), all);

    let limits = Limits::default().schema_limits();
    let found = infer(rows(&all), Some(2), &InferOptions::new(), &limits).unwrap();
    assert_eq!(found["required"], json!(["id", "name"]));
    let odd = [json!({"id": 1}), json!({"id": "x"})];
    let e = infer(rows(&odd), None, &InferOptions::new(), &limits).unwrap_err();
    assert_eq!(e.code(), "infer/mixed");
    assert!(infer(rows(&odd), Some(1), &InferOptions::new(), &limits).is_ok());
    let e = infer(rows(&[]), None, &InferOptions::new(), &limits).unwrap_err();
    assert_eq!(e.code(), "infer/no-records");
}

#[test]
fn the_rows_before_a_wrong_one_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let all = [json!({"id": 1}), json!({"id": 2, "name": "b"}), json!({"id": 70000})];
    let path = folder.path().join("a.zt");
    let e = build(&path, &all, &FillOptions::new()).unwrap_err();
    assert_eq!(e.code(), "record/range");
    assert!(e.to_string().contains("row 2"), "{e}");
    assert_eq!(read(&path, "set"), all[..2]);
}

#[test]
fn rows_are_added_to_a_dataset_in_a_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("a.zt"), folder.path().join("b.zt"));
    let all: Vec<Value> = (0..300).map(|n| json!({"id": n, "name": format!("n{n}")})).collect();
    build(&old, &all, &FillOptions::new()).unwrap();
    let file = holdall::open(&old).unwrap();
    let more = [json!({"id": -1}), json!({"id": -2, "name": "z"})];
    let report =
        Append::new().with_dataset("set").run(&file, rows(&more), &new, &WriteOptions::new());
    let report = report.unwrap();
    assert_eq!((report.dataset.as_str(), report.records, report.added), ("set", 302, 2));
    assert_eq!((report.left_behind.len(), report.target_len), (0, new.metadata().unwrap().len()));
    assert_eq!(read(&new, "set"), [&all[..], &more[..]].concat());
    let file = holdall::open(&new).unwrap();
    assert_eq!(&file.tensor("w").unwrap().bytes(&Role::Data).unwrap()[..], [1, 2, 3]);
    assert_eq!(read(&old, "set"), all);

    let e = Append::new().with_dataset("none").run(&file, rows(&more), &old, &WriteOptions::new());
    assert_eq!(e.unwrap_err().code(), "file/no-tensor");
    let wrong = rows(&[json!({"id": "x"})]);
    let again = folder.path().join("c.zt");
    let e = Append::new().run(&file, wrong, &again, &WriteOptions::new()).unwrap_err();
    assert_eq!((e.code(), again.exists()), ("record/type", false));
}

/// Compressed records and tensors stay compressed, in a file of the same format and in one that cannot compress.
#[test]
fn appended_files_keep_encodings() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("a.zt");
    let all: Vec<Value> = (0..3000).map(|n| json!({"id": n, "name": "x".repeat(50)})).collect();
    let mut build = Build::create(&old, &WriteOptions::new().with_zstd(3)).unwrap();
    let mut set = build.dataset_with_schema("set", &kind()).unwrap();
    set.fill(rows(&all), &FillOptions::new()).unwrap();
    build.add(set).unwrap();
    build.tensor(TensorSpec::dense("w", holdall::DType::U8, [3]), &[&[1, 2, 3]]).unwrap();
    build.finish().unwrap();
    let file = holdall::open(&old).unwrap();
    let encodings = |path: &Path| -> Vec<Encoding> {
        let file = holdall::open(path).unwrap();
        file.tensors()
            .flat_map(|t| t.components().map(|c| c.encoding).collect::<Vec<_>>())
            .collect()
    };
    let more = [json!({"id": -1})];
    let wanted = [&all[..], &more[..]].concat();
    for (name, append, encoding) in [
        ("b.zt", Append::new(), Encoding::ZSTD),
        ("c.zt", Append::new().reencode(), Encoding::Raw),
        ("d.mt", Append::new(), Encoding::Raw),
    ] {
        let new = folder.path().join(name);
        append.run(&file, rows(&more), &new, &WriteOptions::new()).unwrap();
        assert_eq!(encodings(&new), [encoding; 3], "{name}");
        assert_eq!(read(&new, "set"), wanted, "{name}");
        let file = holdall::open(&new).unwrap();
        let pieces = file.tensor("w").unwrap().pieces(&Role::Data).unwrap();
        let bytes: Vec<u8> = pieces.flat_map(|piece| piece.unwrap().to_vec()).collect();
        assert_eq!(bytes, [1, 2, 3], "{name}");
    }
    assert_eq!(encodings(&old), [Encoding::ZSTD; 3]);
}

#[test]
fn an_input_without_further_values_has_only_those_of_json() {
    let mut reader = Reader::new(b"[1]", 0, 8).unwrap();
    assert!(!RecordInput::bytes(&mut reader, &mut Vec::new()).unwrap());
    assert_eq!(RecordInput::time(&mut reader).unwrap(), None);
}
