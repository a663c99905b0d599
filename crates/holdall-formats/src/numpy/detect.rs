//! Recognises an array of NumPy, and a zip of arrays.

use super::ATTRIBUTES;
use super::decode::is_of_array;
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::npy;
use holdall_core::wire::zip::Directory;

pub(super) fn is_array(window: &Window) -> Result<bool, Stop> {
    Ok(window.head(6)?.as_ref() == npy::MAGIC_BYTES)
}

/// Returns `true` for a zip that contains an array and is not a package, and for an empty zip, which `np.savez` writes
/// if there are no arrays.
pub(super) fn is_zip_of_arrays(window: &Window) -> Result<bool, Stop> {
    let head = window.head(4)?;
    if head.as_ref() == b"PK\x05\x06" {
        return Ok(true);
    }
    if head.as_ref() != b"PK\x03\x04" {
        return Ok(false);
    }
    match Directory::read(window, &Limits::default()) {
        Ok(directory) => Ok(directory.get("carton.toml").is_none()
            && directory.entries().any(|e| is_of_array(e) || e.name() == ATTRIBUTES)),
        // Errors of zips are reported by another format.
        Err(Stop::Fail(_)) => Ok(false),
        Err(need) => Err(need),
    }
}
