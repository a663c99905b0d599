//! Recognises the magic number of LiteRT.

use holdall_core::window::{Stop, Window};

const MARK: &[u8] = b"TFL3";

pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    Ok(window.head(8)?.get(4..) == Some(MARK))
}
