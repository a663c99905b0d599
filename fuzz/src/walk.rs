//! Everything that an index says, and what must hold for each that was decoded.

use holdall::{Attributes, Error, ErrorKind, Index, TensorSpec, element_count};

/// Everything that it says, in words.
pub(crate) fn describe(index: &Index) -> String {
    let mut out = format!(
        "{} {} {:?} {:?}\n",
        index.format(),
        index.version(),
        index.attributes().to_json(),
        index.warnings()
    );
    for t in index.tensors() {
        out.push_str(&format!("{t:?} {}\n", t.attributes().to_json()));
    }
    out
}

/// Goes through an index; panics where it contradicts itself or points outside its file.
pub(crate) fn walk(index: &Index, len: u64) {
    assert_eq!(index.source_len(), len);
    let room = index.data_range();
    assert!(room.end <= len);
    assert_eq!(index.names().len(), index.len());
    for (at, t) in index.tensors().enumerate() {
        assert_eq!(index.position(t.name()), Some(at), "{:?} is found by its name", t.name());
        assert_eq!(element_count(t.shape()), Some(t.count()));
        for c in t.components() {
            let stated = index.stated().len() as u64;
            let array = c.stored.chunked().map(|at| index.chunked()[at].len());
            let (len, room) = match c.stored.is_stated() {
                true => (stated, 0..stated),
                false => array.map_or((len, room.clone()), |len| (len, 0..len)),
            };
            assert!(c.stored.start <= c.stored.end && c.stored.end <= len, "{c:?}");
            let inside = room.start <= c.stored.start && c.stored.end <= room.end;
            assert!(inside || c.stored.is_empty(), "{c:?} is not inside {room:?}");
            assert_eq!(t.component(&c.role).as_ref(), Some(&c), "the role is its own");
        }
        if let Some(e) = t.fault() {
            assert!(e.tensor() == Some(t.name()) && t.components().len() == 0, "{e}");
        }
        let _ = TensorSpec::from_info(&t);
        check_json(t.attributes());
    }
    assert_eq!(index.faults().len() > 0, index.clone().sound().is_err());
    assert!(index.claimed().iter().all(|extent| extent.is_stated() || extent.end <= len));
    check_json(index.attributes());
    for warning in index.warnings() {
        assert!(warning.count > 0 && !warning.to_string().is_empty());
    }
}

/// The JSON of attributes is without loss.
fn check_json(attributes: &Attributes) {
    let json = attributes.to_json();
    let back = Attributes::from_json(&json, 512).expect("it was written here");
    assert_eq!(back.to_json(), json);
}

/// An error that a file's bytes led to is never called the caller's fault, or the system's.
pub(crate) fn is_of_the_file(e: &Error) {
    let of_file = matches!(
        e.kind(),
        // Texts of packages are checked against their hashes when they are read.
        ErrorKind::Malformed | ErrorKind::Integrity | ErrorKind::Unsupported | ErrorKind::Limit
    );
    assert!(of_file, "{:?}: {e}", e.kind());
    assert!(!e.to_string().is_empty());
}
