//! Temporary folders, which go however the program ends.

use crate::model::io;
use holdall::Result;
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
    all.iter().for_each(|path| remove(path));
}

/// Removes a folder with all that is in it.
pub(crate) fn remove(path: &Path) {
    // Files may still be written into it by another thread.
    for _ in 0..10 {
        // What is protected cannot be deleted.
        let _ = set_read_only(path, false);
        if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
            break;
        }
    }
}

/// A temporary folder with `model` in it.
pub(crate) struct Folder(Temporary);

impl Folder {
    pub(crate) fn new() -> Result<Folder> {
        let made = tempfile::Builder::new().prefix("holdall-model-").tempdir();
        made.map(|dir| Folder(Temporary::new(dir)))
            .map_err(|e| io(e, "making a folder for the model"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn model(&self) -> PathBuf {
        self.0.path().join("model")
    }

    /// Takes the right to write from everything in it.
    pub(crate) fn protect(&self) -> Result<()> {
        let model = self.model();
        if !model.exists() {
            // A package without a file in `model`.
            std::fs::create_dir(&model).map_err(|e| io(e, "making the folder of the model"))?;
        }
        set_read_only(&model, true).map_err(|e| io(e, "protecting the model's files"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is protected cannot be deleted.
        let _ = set_read_only(&self.model(), false);
    }
}

/// Files and folders below `path`, for reading only or not. Links are left alone.
fn set_read_only(path: &Path, read_only: bool) -> std::io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    if found.is_symlink() {
        return Ok(());
    }
    let set = |path: &Path| {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = found.permissions().mode() & 0o777;
            let mode = if read_only { mode & 0o555 } else { mode | 0o200 };
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        }
        #[cfg(not(unix))]
        {
            let _ = (path, read_only);
            Ok(())
        }
    };
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
