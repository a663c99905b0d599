//! CBOR that can be read can be written, and is read back unchanged; skipping it reads the same bytes.

use crate::limits;
use holdall::Value;
use holdall_core::wire::cbor::{Reader, Writer};

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let limits = limits::tight();
    let mut reader = Reader::new(data, 0, &limits);
    let mut skipper = reader.clone();
    let skipped = skipper.skip();
    let value = match reader.value() {
        Ok(value) => value,
        Err(e) => {
            // Errors that skipping does not detect: inside text, keys, and the number of values.
            let unseen = ["cbor/utf8", "cbor/duplicate-key", "cbor/too-many-values"];
            assert!(skipped.is_err() || unseen.contains(&e.code()), "{e}");
            return;
        }
    };
    skipped.expect("what can be read can be skipped");
    assert_eq!(skipper.offset(), reader.offset(), "skipping takes as much as reading");
    let written = write(&value);
    assert!(written.len() as u64 <= reader.offset(), "its spelling is the shortest");
    let mut again = Reader::new(&written, 0, &limits);
    let back = again.value().expect("what was written can be read");
    again.end().expect("there is nothing else");
    assert_eq!(back.to_json(), value.to_json());
    assert_eq!(write(&back), written);
    // JSON nests more deeply: some values become objects with arrays.
    let json = Value::from_json(&value.to_json(), 512).expect("what was written can be read");
    assert_eq!(write(&json), written, "JSON is without loss");
}

fn write(value: &Value) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.value(value).expect("what can be read can be written");
    writer.into_bytes()
}

/// Returns the manifest.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let is_new = file.ends_with(b"ZTEN1000");
    let footer = if is_new { 16 } else { 8 };
    let manifest = file.len().checked_sub(footer).and_then(|end| {
        let len = u64::from_le_bytes(*file.get(end..)?.first_chunk()?);
        file.get(end.checked_sub(usize::try_from(len).ok()?)?..end)
    });
    manifest.filter(|m| !m.is_empty()).map(<[u8]>::to_vec).into_iter().collect()
}
