//! Recognises a file by the magic number of GGUF.

use super::{MAGIC, REVERSED};
use holdall_core::window::{Stop, Window};

pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    let magic = window.head(4)?;
    Ok(magic.as_ref() == MAGIC || magic.as_ref() == REVERSED)
}
