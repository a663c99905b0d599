//! Temporary folders that are removed however the program ends.

use crate::platform;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// The temporary folders of this process that exist now.
static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Locks the list of temporary folders. [`remove_all`] removes none of them while the lock is held.
pub(crate) fn all() -> MutexGuard<'static, Vec<PathBuf>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary folder that is removed on drop, or by [`remove_all`].
#[derive(Debug)]
pub struct Temporary(TempDir);

impl Temporary {
    /// Registers the folder for [`remove_all`].
    pub fn new(dir: TempDir) -> Temporary {
        all().push(dir.path().to_owned());
        Temporary(dir)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        all().retain(|path| path != self.0.path());
    }
}

/// Removes all temporary folders of this process, such as targets that are being filled and models that are loaded. For
/// programs to call right before they end because of a signal. Another thread that creates,
/// publishes or drops such a folder blocks from then on.
pub fn remove_all() {
    let all = all();
    all.iter().for_each(|path| remove(path));
    // The lock is never released, so that no thread publishes a partly removed folder.
    std::mem::forget(all);
}

/// Removes a folder with everything in it.
pub fn remove(path: &Path) {
    // Another thread may still be writing files into it.
    for _ in 0..10 {
        // Read-only files and folders cannot be removed.
        let _ = set_read_only(path, false);
        if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
            break;
        }
    }
}

/// Makes all files and folders below `path` read-only or writable. Links are ignored.
///
/// # Errors
/// Returns the errors of the system.
pub fn set_read_only(path: &Path, read_only: bool) -> std::io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    if found.is_symlink() {
        return Ok(());
    }
    let set = |path: &Path| platform::set_read_only(path, &found, read_only);
    if !read_only {
        set(path)?;
    }
    if found.is_dir() {
        for entry in std::fs::read_dir(path)? {
            set_read_only(&entry?.path(), read_only)?;
        }
    }
    match read_only {
        true => set(path),
        false => Ok(()),
    }
}
