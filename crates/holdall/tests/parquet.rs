//! Parquet and Arrow files: records into them and back, bit for bit; for any bytes, panics are caught, and no
//! memory is allocated because of a declared number alone.
#![cfg(feature = "parquet")]

mod records_files;

use holdall::records::arrow::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use holdall::records::{
    Build, DatasetWriter, FillOptions, FindingLocation, RecordForm, Rows, RowsOptions, TableWriter,
    check_rows, infer,
};
use holdall::schema::{Document, InferOptions, Reading, SchemaLimits, Unknown};
use holdall::{ErrorKind, Limits, Records, Result, TensorRecords as _, WriteOptions};
use records_files::{dataset, open, sample, write};
use serde_json::{Value, json};
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

const FORMS: [RecordForm; 2] = [RecordForm::Parquet, RecordForm::Arrow];
const ALL: &[&str] = &[];

fn table() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let names: ArrayRef =
        Arc::new(StringArray::from_iter((0..100).map(|i| (i % 3 > 0).then(|| format!("n{i}")))));
    RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("name", names, true)]).unwrap()
}

/// Returns the bytes of a file of a batch.
fn bytes(form: RecordForm, batch: &RecordBatch) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut writer =
        TableWriter::create(&path, form, &batch.schema(), &WriteOptions::new()).unwrap();
    writer.batch(batch).unwrap();
    let report = writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((report.rows, report.target_len), (batch.num_rows() as u64, bytes.len() as u64));
    bytes
}

fn rows(bytes: Vec<u8>, form: RecordForm) -> Result<Rows> {
    RowsOptions::new().with_form(form).read(Cursor::new(bytes), "rows")
}

/// Returns a dataset of that kind, filled by `fill`.
fn filled(kind: &Value, fill: impl FnOnce(&mut DatasetWriter) -> Result<()>) -> Result<Records> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.zt");
    let mut build = Build::create(&path, &WriteOptions::new())?;
    let mut set = build.dataset_with_schema("set", kind)?;
    fill(&mut set)?;
    build.add(set)?;
    build.finish()?;
    holdall::open(&path)?.tensor("set")?.records()
}

fn values(records: &Records) -> Vec<Value> {
    records.iter(0..records.len()).unwrap().map(|r| r.unwrap().to_value().unwrap()).collect()
}

/// Returns every row of a file as a record of its own kind.
fn read(bytes: Vec<u8>, form: RecordForm, limits: &Limits) -> Result<Records> {
    let options = RowsOptions::new().with_form(form).with_limits(limits.clone());
    let rows = options.read(Cursor::new(bytes), "rows")?;
    let kind = rows.row_schema()?.unwrap();
    filled(&kind, |set| set.fill(rows, &FillOptions::new()).map(drop))
}

#[test]
fn records_of_every_kind_come_back() {
    let file = write(&dataset(64), &WriteOptions::new());
    let records = open(&file, holdall::Io::Map).tensor("set").unwrap().records().unwrap();
    let columns = records.arrow(ALL).unwrap();
    for form in FORMS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("rows.{}", form.as_str()));
        let mut writer =
            TableWriter::create(&path, form, &columns.schema(), &WriteOptions::new()).unwrap();
        let all = records.iter(0..records.len()).unwrap();
        assert_eq!(writer.records(&columns, all).unwrap(), records.len());
        writer.finish().unwrap();
        // Under the original kind, the records are equal.
        let kind = sample();
        let rows = Rows::open(&path).unwrap();
        let again = filled(&kind, |set| set.fill(rows, &FillOptions::new()).map(drop)).unwrap();
        assert_eq!(values(&again), values(&records), "{form:?}");
        // The file contains a kind, which is equal to the inferred one.
        let kind = Rows::open(&path).unwrap().row_schema().unwrap().unwrap();
        let rows = Rows::open(&path).unwrap();
        let found = infer(rows, Some(1), &InferOptions::new(), &SchemaLimits::default()).unwrap();
        assert_eq!(found, kind);
        // Recognised not by its name, but by its first bytes.
        let other = folder.path().join("rows.json");
        std::fs::rename(&path, &other).unwrap();
        assert_eq!(RecordForm::of_file(&other), Some(form));
        assert_eq!(Rows::open(&other).unwrap().row_schema().unwrap(), Some(kind));
    }
}

#[test]
fn rows_are_held_against_the_schema() {
    let kind = json!({
        "TypeDef:Struct": ["id"], "required": ["id"],
        "properties": {"id": {"type": "integer", "maximum": 97, "TypeDef:Int32": true}},
    });
    for form in FORMS {
        let file = bytes(form, &table());
        let fill = |options: &FillOptions| {
            let rows = rows(file.clone(), form).unwrap();
            filled(&kind, |set| set.fill(rows, options).map(drop))
        };
        let lenient = FillOptions::new().with_unknown(Unknown::Ignore);
        assert_eq!(fill(&FillOptions::new()).unwrap_err().code(), "record/unknown-member");
        assert_eq!(fill(&lenient.clone().without_checks()).unwrap().len(), 100);
        let e = fill(&lenient).unwrap_err();
        assert_eq!((e.code(), e.contexts().next()), ("record/keyword", Some("row 98")));
        let e = fill(&lenient.clone().with_files(".", ["id".to_owned()])).unwrap_err();
        assert_eq!((e.code(), e.source_name()), ("records/arrow", Some("rows")));
        let schema =
            Document::new(kind.clone(), "kind", Reading::Record, &SchemaLimits::default()).unwrap();
        let rows = rows(file.clone(), form).unwrap();
        let report = check_rows(rows, &schema, &lenient, &SchemaLimits::default()).unwrap();
        let found: Vec<_> = report.findings.iter().map(|f| f.location).collect();
        assert_eq!(
            (report.records, found),
            (100, vec![FindingLocation::Record(98), FindingLocation::Record(99)])
        );
    }
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let begin =
        || TableWriter::create(&path, RecordForm::Parquet, &table().schema(), &WriteOptions::new());
    let mut writer = begin().unwrap();
    writer.batch(&table()).unwrap();
    drop(writer);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    let mut writer = begin().unwrap();
    let other = RecordBatch::try_from_iter([("x", table().column(0).clone())]).unwrap();
    assert_eq!(writer.batch(&other).unwrap_err().code(), "records/arrow");
    begin().unwrap().finish().unwrap();
    assert_eq!(begin().unwrap_err().code(), "write/exists");
    let e = TableWriter::create(
        Path::new("x.csv"),
        RecordForm::Csv,
        &table().schema(),
        &WriteOptions::new(),
    );
    assert_eq!(e.unwrap_err().code(), "records/arrow");
    // A file without rows is an empty dataset.
    let empty = std::fs::read(&path).unwrap();
    assert!(read(empty, RecordForm::Parquet, &Limits::default()).unwrap().is_empty());
}

#[test]
fn damage_is_reported() {
    for form in FORMS {
        let sound = bytes(form, &table());
        let whole = values(&read(sound.clone(), form, &Limits::default()).unwrap());
        assert_eq!(whole[1], json!({"id": 1, "name": "n1"}));
        // Nothing is written: the build is abandoned.
        let folder = tempfile::tempdir().unwrap();
        let build = Build::create(folder.path().join("set.zt"), &WriteOptions::new()).unwrap();
        let tried = |bytes: Vec<u8>| -> Result<u64> {
            let rows = rows(bytes, form)?;
            let mut set = build.dataset_with_schema("set", &rows.row_schema()?.unwrap())?;
            let filled = set.fill(rows, &FillOptions::new());
            set.discard();
            filled
        };
        for len in 0..sound.len() {
            let e = tried(sound[..len].to_vec()).unwrap_err();
            assert_eq!((e.code(), e.kind()), ("input/columns", ErrorKind::Malformed), "{len}");
            assert_eq!(e.source_name(), Some("rows"));
        }
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= [0xff, 0x80, 0x01][at % 3];
            // Values and names have no checksum: damaged ones are read as they are.
            let Err(e) = tried(bytes) else { continue };
            assert!(!e.message().is_empty(), "{at}");
            assert_ne!(e.kind(), ErrorKind::Io, "{at}: {e}");
        }
    }
}

#[test]
fn numbers_of_a_file_take_no_memory() {
    let limits = |decoded_len: u64| {
        let mut limits = Limits::default();
        (limits.decoded_len, limits.expansion) = (decoded_len, 1);
        limits
    };
    // Equal texts take a few bytes in the file.
    let same = StringArray::from_iter_values(std::iter::repeat_n("x".repeat(100), 4000));
    let batch = RecordBatch::try_from_iter([("text", Arc::new(same) as ArrayRef)]).unwrap();
    let parquet = bytes(RecordForm::Parquet, &batch);
    assert!(parquet.len() < 4000, "{}", parquet.len());
    assert_eq!(read(parquet.clone(), RecordForm::Parquet, &limits(1 << 20)).unwrap().len(), 4000);
    let e = read(parquet, RecordForm::Parquet, &limits(100)).unwrap_err();
    assert_eq!((e.code(), e.kind()), ("input/columns-limit", ErrorKind::Limit));
    // A footer that is nested, or long.
    let mut few = Limits::default();
    few.depth = 1;
    let e = read(bytes(RecordForm::Parquet, &table()), RecordForm::Parquet, &few).unwrap_err();
    assert_eq!(e.code(), "input/columns-limit");
    for form in FORMS {
        let mut short = Limits::default();
        short.header_len = 10;
        let e = read(bytes(form, &table()), form, &short).unwrap_err();
        assert_eq!(e.code(), "input/columns-limit");
    }
    // Unsupported files.
    let mut encrypted = bytes(RecordForm::Parquet, &table());
    let end = encrypted.len() - 4;
    encrypted[end..].copy_from_slice(b"PARE");
    let mut feather = bytes(RecordForm::Arrow, &table());
    feather[..4].copy_from_slice(b"FEA1");
    for (file, form) in [(encrypted, RecordForm::Parquet), (feather, RecordForm::Arrow)] {
        let e = read(file, form, &Limits::default()).unwrap_err();
        assert_eq!((e.code(), e.kind()), ("input/columns-unsupported", ErrorKind::Unsupported));
    }
}
