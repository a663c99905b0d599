//! A file with any header and data: reading it by ranges gives the same result, its records and blobs are valid JSON if
//! verification finds nothing, and a converted file contains the same.
//!
//! The input is the text of a header, a NUL byte, and the data. The length of the header and its padding are added
//! here, so that most mutations affect more than those.

use crate::limits;
use crate::walk::describe;
use holdall::records::DatasetWriter;
use holdall::schema::TENSOR_SCHEMA_ATTRIBUTE;
use holdall::{
    Bytes, Check, Convert, DiffOptions, ErrorKind, File, OpenOptions, Records, TensorRecords as _,
    VerifyOptions, Work, WriteOptions, convert_to, diff, formats, verify,
};

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let bytes = file(data);
    super::windowed::run(&bytes);
    let file = match open(bytes) {
        Ok(file) => file,
        Err(e) => return crate::walk::is_of_the_file(&e),
    };
    let report = verify(&file, &VerifyOptions::new().with_work(Work::new().with_threads(1)))
        .expect("it is in memory");
    let is_sound = report.is_sound();
    values(&file, is_sound);
    let Some(written) = converted(&file, "metatensor") else { return };
    is_same(&file, &written);
    let twice = converted(&written, "metatensor").expect("it was written once");
    assert_eq!(describe(written.index()), describe(twice.index()), "it is written in another way");
    if let Some(other) = converted(&file, "ztensor") {
        is_same(&file, &other);
        match converted(&other, "metatensor") {
            Some(back) => is_same(&file, &back),
            None => panic!("it does not come back from zTensor"),
        }
    }
}

fn file(data: &[u8]) -> Vec<u8> {
    let at = data.iter().position(|b| *b == 0);
    let (header, data) = data.split_at(at.unwrap_or(data.len()));
    let end = (8 + header.len()).next_multiple_of(256);
    let mut out = (end as u64 - 8).to_le_bytes().to_vec();
    out.extend_from_slice(header);
    out.resize(end, b' ');
    out.extend_from_slice(data.get(1..).unwrap_or_default());
    out
}

fn open(bytes: Vec<u8>) -> holdall::Result<File> {
    let options = OpenOptions::new().with_limits(limits::tight()).with_check(Check::All);
    options.open_bytes(Bytes::from(bytes), "input")
}

/// Checks records as an Arrow batch, and its rows as records.
fn columns(records: &Records, is_sound: bool) {
    let Ok(arrow) = records.arrow(&[] as &[&str]) else { return };
    let some = 0..records.len().min(64);
    let batch = match arrow.batch(records.iter(some.clone()).expect("they are there")) {
        Ok(batch) => batch,
        Err(e) => {
            assert!(!is_sound || e.kind() == ErrorKind::Limit, "{e}");
            return crate::walk::is_of_the_file(&e);
        }
    };
    assert_eq!(batch.num_rows() as u64, some.end);
    if is_sound {
        let kind = records
            .tensor()
            .attributes()
            .get(TENSOR_SCHEMA_ATTRIBUTE)
            .and_then(|kind| kind.as_text());
        let kind = serde_json::from_str(kind.expect("it has one")).expect("it is JSON");
        let (folder, limits) = (std::env::temp_dir(), limits::tight().schema_limits());
        let set = DatasetWriter::new("set", &kind, &folder, &limits, &Work::default());
        let mut set = set.expect("the schema is sound");
        assert_eq!(set.batch(&batch).expect("they are records"), some.end);
    }
}

/// Checks records and entries one by one.
fn values(file: &File, is_sound: bool) {
    for t in file.tensors() {
        match t.layout().as_str() {
            "records" => {
                let Ok(records) = t.records() else {
                    assert!(!is_sound, "{} has no records", t.name());
                    continue;
                };
                columns(&records, is_sound);
                for at in 0..records.len().min(64) {
                    let record = records.record(at).expect("the tensor exists");
                    let (text, checked) = (record.to_json(), record.check());
                    assert_eq!(text.is_ok(), checked.is_ok());
                    match text {
                        Ok(text) => drop(serde_json::from_str::<serde_json::Value>(&text).unwrap()),
                        Err(e) => assert!(!is_sound, "{e}"),
                    }
                }
            }
            "blob" => {
                let Ok(blob) = t.blob() else {
                    assert!(!is_sound, "{} is not a blob", t.name());
                    continue;
                };
                for at in 0..blob.len().min(64) {
                    match blob.get(at) {
                        Ok(bytes) => assert!(bytes.len() <= limits::DECODED_LEN as usize),
                        Err(e) => assert!(!is_sound, "{e}"),
                    }
                    let _ = (blob.str(at), blob.json(at));
                }
            }
            _ => {}
        }
    }
}

/// Returns the same tensors in a file of this format, if it can represent them.
fn converted(file: &File, format: &str) -> Option<File> {
    let options = WriteOptions::new()
        .with_work(Work::new().with_threads(1))
        .with_format(formats::by_name(format)?);
    match convert_to(file, Vec::new(), &Convert::new(options)) {
        Ok((_, bytes)) => Some(open(bytes).expect("what was written can be read")),
        Err(e) => {
            assert!(matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Limit), "{format}: {e}");
            None
        }
    }
}

fn is_same(a: &File, b: &File) {
    // An error of the given bytes.
    let Ok(found) = diff(a, b, &DiffOptions::new().with_work(Work::new().with_threads(1))) else {
        return;
    };
    assert!(found.removed.is_empty() && found.added.is_empty(), "{:?}", found.removed);
    assert!(found.attributes.is_empty(), "{:?}", found.attributes);
    for t in &found.changed {
        assert!(t.incomparable.is_some() && t.types.is_none(), "one is another: {t:?}");
    }
}

/// Returns the header of a file, and its data.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let len = file.first_chunk().map_or(0, |&word| u64::from_le_bytes(word));
    let end = usize::try_from(len).ok().and_then(|len| len.checked_add(8));
    let Some((header, data)) = end.and_then(|end| file.split_at_checked(end)) else {
        return Vec::new();
    };
    if crate::is_description(file) {
        return Vec::new();
    }
    vec![[header[8..].trim_ascii_end(), &[0], data].concat()]
}
