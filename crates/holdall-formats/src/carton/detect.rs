//! Recognising packages in zips.

use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::zip::Directory;
use holdall_package::is_package;

/// Whether this is a zip of a package. One that cannot be read is claimed, to say why; one that can, and
/// has neither `carton.toml` nor the texts that stand beside it, is left to other formats.
pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    if !looks_like_zip(window)? {
        return Ok(false);
    }
    match Directory::read(window, &Limits::default()) {
        Ok(directory) => Ok(is_package(&directory)),
        Err(Stop::Fail(_)) => Ok(true),
        Err(need) => Err(need),
    }
}

/// Whether the file starts as a zip does, or ends as one without a comment does: other bytes may stand
/// before it.
fn looks_like_zip(window: &Window) -> Result<bool, Stop> {
    let head = window.head(4)?;
    if matches!(&*head, b"PK\x03\x04" | b"PK\x05\x06") {
        return Ok(true);
    }
    let end = window.tail(22)?;
    Ok(end.starts_with(b"PK\x05\x06") && end.ends_with(&[0, 0]))
}
