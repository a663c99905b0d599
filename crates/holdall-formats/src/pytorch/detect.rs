//! Whether a file is of PyTorch: a zip with a pickle in its top folder, or one of before 1.6.

use super::decode::{FRAME, MAGIC, OLD_MAGIC, top};
use super::pt2;
use crate::foreign;
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::pickle;
use holdall_core::wire::zip::Directory;

/// Bytes that are looked at first for the pickles of those.
pub(super) const FIRST: u64 = 4 << 10;

/// Whether this is a file of before 1.6, or a zip with a pickle in its top folder.
pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    let head = window.head(4)?;
    // A protocol, or how values begin before there were any: containers, what is imported, a number.
    if matches!(head.first(), Some(0x80 | b'(' | b']' | b'}' | b'c' | b'L')) {
        let head = window.head(FIRST)?;
        return Ok(is_legacy(&head) || is_arrays(&head));
    }
    if !head.starts_with(b"PK\x03\x04") {
        return Ok(false);
    }
    match Directory::read(window, &Limits::default()) {
        Ok(directory) if top(&directory).is_some() => Ok(true),
        Ok(directory) => match pt2::top(&directory, window) {
            Ok(top) => Ok(top.is_some()),
            Err(Stop::Fail(_)) => Ok(false),
            Err(need) => Err(need),
        },
        // Whoever can say what is wrong with a zip will.
        Err(Stop::Fail(_)) => Ok(false),
        Err(need) => Err(need),
    }
}

/// Whether what begins so is a file of before 1.6, its pickles of any protocol that torch writes.
pub(crate) fn is_legacy(head: &[u8]) -> bool {
    match head {
        [0x80, 2..=5, rest @ ..] => rest.strip_prefix(FRAME).unwrap_or(rest).starts_with(MAGIC),
        _ => head.starts_with(OLD_MAGIC),
    }
}

/// Whether what begins so is a pickle that soon names something of NumPy.
fn is_arrays(head: &[u8]) -> bool {
    memchr::memmem::find(head, b"numpy").is_some()
        && !foreign::is_joblib(head)
        && (matches!(head, [0x80, 2..=5, ..]) || pickle::imports(head, b"numpy"))
}
