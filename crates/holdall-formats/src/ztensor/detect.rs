//! Recognises the magic number of zTensor.

use super::footer::{MAGIC_2, WORD};
use holdall_core::window::{Stop, Window};

/// Returns `true` if the file is a zTensor of any generation except 2, past or future. The first four bytes are enough,
/// so that a magic number with damaged digits is reported by this format.
pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    let head = window.head(WORD)?;
    Ok(head.starts_with(b"ZTEN") || (head.starts_with(b"\x89ZT") && &*head != MAGIC_2))
}
