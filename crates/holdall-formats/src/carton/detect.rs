//! Recognises packages in zips.

use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::zip::Directory;
use holdall_package::is_package;

/// Returns `true` if this is a zip with a package. A zip that cannot be read is also claimed, so that the error says
/// why. A zip with neither `carton.toml` nor the texts that belong to it is left to other formats.
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

/// Returns `true` if the file starts as a zip does, or ends as a zip without a comment does. In the second case, other
/// bytes may precede the zip.
fn looks_like_zip(window: &Window) -> Result<bool, Stop> {
    let head = window.head(4)?;
    if matches!(&*head, b"PK\x03\x04" | b"PK\x05\x06") {
        return Ok(true);
    }
    let end = window.tail(22)?;
    Ok(end.starts_with(b"PK\x05\x06") && end.ends_with(&[0, 0]))
}
