//! One edit of a file at a time, and only of the file that was looked at.

use crate::error::{CHANGED_SINCE, LOCKED, io};
use holdall_core::Result;
use std::fs::{File, Metadata, TryLockError};
use std::path::Path;

/// What tells a file from another, or from itself before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    len: u64,
    modified: Option<std::time::SystemTime>,
    #[cfg(unix)]
    place: (u64, u64),
}

impl Stamp {
    /// The stamp of the file at `path`; taken before the file is read.
    pub fn from_path(path: &Path) -> Result<Stamp> {
        let meta = path.metadata().map_err(|e| io(e, "opening").in_source(path.display()))?;
        Ok(Stamp::from(&meta))
    }

    /// The stamp of the file that has this.
    pub fn from(meta: &Metadata) -> Stamp {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        Stamp {
            len: meta.len(),
            modified: meta.modified().ok(),
            #[cfg(unix)]
            place: (meta.dev(), meta.ino()),
        }
    }
}

/// Opens the file at `path` for writing and locks it until it is closed.
///
/// # Errors
/// Io when it may not be written, [`LOCKED`], [`CHANGED_SINCE`] when it is not as it was when `stamp`
/// was taken.
pub fn open(path: &Path, stamp: &Stamp) -> Result<File> {
    let failed = |e| io(e, "opening for writing").in_source(path.display());
    let file = File::options().read(true).write(true).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(LOCKED.broken("the file is locked").in_source(path.display()));
        }
        // File systems without locks are edited without.
        Err(TryLockError::Error(_)) => {}
    }
    let now = file.metadata().map_err(failed)?;
    if Stamp::from(&now) != *stamp {
        return Err(CHANGED_SINCE
            .broken("the file is not the one that was read")
            .in_source(path.display()));
    }
    Ok(file)
}
