//! JSON that is read is also accepted by serde_json, and the other way round; JSON that is written is read back
//! unchanged.

use crate::limits;
use holdall::Value;
use holdall::json::Reader;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let depth = limits::tight().depth;
    let all = |take: fn(&mut Reader<'_>) -> holdall::Result<Option<Value>>| {
        let mut reader = Reader::new(data, 0, depth)?;
        let value = take(&mut reader)?;
        reader.end().map(|()| value)
    };
    let read = all(|r| Value::read_json(r).map(Some));
    let skipped = all(|r| r.skip().map(|()| None));
    let others = serde_json::from_slice::<serde_json::Value>(data);
    match (&read, &skipped) {
        (Ok(_), Err(e)) => panic!("it can be read, but not skipped: {e}"),
        (Err(e), Ok(_)) => {
            // Errors that skipping does not detect.
            let unseen = ["json/duplicate-key", "json/lossless", "json/number"];
            let inside = ["json/string", "json/surrogate", "json/type", "json/integer"];
            assert!(unseen.contains(&e.code()) || inside.contains(&e.code()), "{e}");
        }
        _ => {}
    }
    match (read, others) {
        (Ok(Some(value)), Ok(_)) => {
            let json = value.to_json();
            let back = Value::from_json(&json, 512).expect("what was written can be read");
            assert_eq!(back.to_json(), json);
            serde_json::from_str::<serde_json::Value>(&json).expect("others read it too");
        }
        (Ok(_), Err(e)) => panic!("others cannot read it: {e}"),
        (Err(e), Ok(_)) => {
            let ours = [
                "json/depth",
                "json/duplicate-key",
                "json/lossless",
                "json/number",
                "json/type",
                "json/integer",
            ];
            assert!(ours.contains(&e.code()), "others can read it: {e}");
        }
        (Err(_), Err(_)) | (Ok(None), _) => {}
    }
}

/// Returns a header of safetensors, or a description of up to 4 KiB.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    if crate::is_description(file) {
        return if file.len() <= 4 << 10 { vec![file.to_vec()] } else { Vec::new() };
    }
    let len = file.first_chunk().map_or(0, |&word| u64::from_le_bytes(word));
    let end = usize::try_from(len).ok().and_then(|len| len.checked_add(8));
    let header = end.and_then(|end| file.get(8..end));
    header.map(<[u8]>::to_vec).into_iter().collect()
}
