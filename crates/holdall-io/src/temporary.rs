//! Temporary folders, which go however the program ends.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// Those of this process that are there now.
static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The list of them. Nothing in it is removed by [`remove_all`] as long as somebody has this.
pub(crate) fn all() -> MutexGuard<'static, Vec<PathBuf>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder that is removed when this is dropped, or by [`remove_all`].
#[derive(Debug)]
pub struct Temporary(TempDir);

impl Temporary {
    /// That folder, which `remove_all` knows of from now on.
    pub fn new(dir: TempDir) -> Temporary {
        all().push(dir.path().to_owned());
        Temporary(dir)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        all().retain(|path| path != self.0.path());
    }
}

/// Removes all temporary folders of this process, of targets that are being filled and of models that are loaded: for programs that
/// end by a signal, right before they do. Who uses such a folder, or gives it its name meanwhile, does not get to the end.
pub fn remove_all() {
    let all = all();
    all.iter().for_each(|path| remove(path));
    // Nobody finishes what is half gone.
    std::mem::forget(all);
}

/// Removes a folder with all that is in it.
pub fn remove(path: &Path) {
    // Files may still be written into it by another thread.
    for _ in 0..10 {
        // What is protected cannot be deleted.
        let _ = set_read_only(path, false);
        if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
            break;
        }
    }
}

/// Files and folders below `path`, for reading only or not. Links are left alone.
///
/// # Errors
/// Those of the system.
pub fn set_read_only(path: &Path, read_only: bool) -> std::io::Result<()> {
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
