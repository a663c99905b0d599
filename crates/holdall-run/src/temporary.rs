//! Temporary folders, which go however the program ends.

use crate::model::set_read_only;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Those that are there now.
static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder that is removed when this is dropped, or by [`remove_all`].
pub(crate) struct Temporary(TempDir);

impl Temporary {
    pub(crate) fn new(dir: TempDir) -> Temporary {
        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(dir.path().to_owned());
        Temporary(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|path| path != self.0.path());
    }
}

/// Removes the folders of all models that are loaded or being loaded: for programs that end by a signal, right
/// before they do. None of those models can be used any more.
pub fn remove_all() {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    for path in all.iter() {
        // Files may still be written into it by another thread.
        for _ in 0..10 {
            // What is protected cannot be deleted.
            let _ = set_read_only(path, false);
            if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
                break;
            }
        }
    }
}
