//! Recognises HDF5 files, and zips written by Keras.

use super::superblock::{SIGNATURE, USER_BLOCK, WEIGHTS, ZIP, find};
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::tar;
use holdall_core::wire::zip::Directory;

/// Returns `true` for an HDF5 file.
pub(super) fn detect(window: &Window) -> Result<bool, Stop> {
    let head = window.head(SIGNATURE.len() as u64)?;
    if head.starts_with(SIGNATURE) {
        return Ok(true);
    }
    if head.starts_with(ZIP) || find(window, 0..window.len())?.is_none() {
        return Ok(false);
    }
    // The header of a tar archive has the length of a user block, so an HDF5 file in a tar would be found here.
    Ok(!tar::is_tar(&window.head(USER_BLOCK)?))
}

/// Returns `true` for a zip written by Keras.
pub(super) fn is_keras(window: &Window) -> Result<bool, Stop> {
    if !window.head(ZIP.len() as u64)?.starts_with(ZIP) {
        return Ok(false);
    }
    match Directory::read(window, &Limits::default()) {
        Ok(directory) => Ok(directory.get(WEIGHTS).is_some()),
        // Errors of zips are reported by another format.
        Err(Stop::Fail(_)) => Ok(false),
        Err(need) => Err(need),
    }
}
