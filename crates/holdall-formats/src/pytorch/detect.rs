//! Recognises a PyTorch file: a zip with a pickle in its top folder, or a file from before torch 1.6.

use super::decode::{FRAME, MAGIC, OLD_MAGIC, top};
use super::pt2;
use crate::foreign;
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::pickle;
use holdall_core::wire::zip::Directory;

/// The number of bytes that are read first of files from before torch 1.6.
pub(super) const FIRST: u64 = 4 << 10;

/// Returns `true` for a file from before torch 1.6, and for a zip with a pickle in its top folder.
pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    let head = window.head(4)?;
    // The opcode of a protocol, or the first opcode of a value in older protocols: a container, an import, a number.
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
        // Errors of zips are reported by another format.
        Err(Stop::Fail(_)) => Ok(false),
        Err(need) => Err(need),
    }
}

/// Returns `true` if these are the first bytes of a file from before torch 1.6, in any protocol that torch writes.
pub(crate) fn is_legacy(head: &[u8]) -> bool {
    match head {
        [0x80, 2..=5, rest @ ..] => rest.strip_prefix(FRAME).unwrap_or(rest).starts_with(MAGIC),
        _ => head.starts_with(OLD_MAGIC),
    }
}

/// Returns `true` if these are the first bytes of a pickle that soon refers to NumPy.
fn is_arrays(head: &[u8]) -> bool {
    memchr::memmem::find(head, b"numpy").is_some()
        && !foreign::is_joblib(head)
        && (matches!(head, [0x80, 2..=5, ..]) || pickle::imports(head, b"numpy"))
}
