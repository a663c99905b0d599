//! Recognises the magic number of zTensor 2.

use super::MAGIC;
use holdall_core::window::{Stop, Window};

/// Returns `true` if the file is of this generation, damaged or not.
pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    Ok(window.head(MAGIC.len() as u64)?.as_ref() == MAGIC)
}
