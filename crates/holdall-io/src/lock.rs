//! Locking a file for an edit, and checking that it has not changed since it was read.

use crate::error::{CHANGED_SINCE, LOCKED, io};
use crate::platform::{self, FileId};
use holdall_core::Result;
use std::fs::{File, Metadata};
use std::path::Path;

/// Metadata that distinguishes a file from another one, and from itself before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    len: u64,
    modified: Option<std::time::SystemTime>,
    file_id: Option<FileId>,
}

impl Stamp {
    /// Returns the stamp of the file at `path`. To be taken before the file is read.
    pub fn from_path(path: &Path) -> Result<Stamp> {
        let meta = path.metadata().map_err(|e| io(e, "opening").in_source(path.display()))?;
        Ok(Stamp::from(&meta))
    }

    /// Returns the stamp for a file's metadata.
    pub fn from(meta: &Metadata) -> Stamp {
        Stamp { len: meta.len(), modified: meta.modified().ok(), file_id: platform::file_id(meta) }
    }
}

/// Opens the file at `path` for writing and locks it until it is closed.
///
/// # Errors
/// Returns an `Io` error if the file cannot be written; [`LOCKED`] if another process has locked it; [`CHANGED_SINCE`] if it has changed
/// since `stamp` was taken.
pub fn open(path: &Path, stamp: &Stamp) -> Result<File> {
    let failed = |e| io(e, "opening for writing").in_source(path.display());
    let Some(file) = platform::open_alone(path).map_err(failed)? else {
        return Err(LOCKED.broken("the file is locked").in_source(path.display()));
    };
    let now = file.metadata().map_err(failed)?;
    if Stamp::from(&now) != *stamp {
        return Err(CHANGED_SINCE
            .broken("the file is not the one that was read")
            .in_source(path.display()));
    }
    Ok(file)
}
