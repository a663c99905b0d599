//! Whether a file begins as zTensor does.

use super::footer::{MAGIC_2, WORD};
use holdall_core::window::{Stop, Window};

/// Whether the file is a zTensor of any generation but 2, past or future. Four bytes are enough, so that a
/// magic number with damaged digits is still explained here.
pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    let head = window.head(WORD)?;
    Ok(head.starts_with(b"ZTEN") || (head.starts_with(b"\x89ZT") && &*head != MAGIC_2))
}
