//! The files that an edit of several files is about to add and remove, recorded on disk while the edit is
//! running.
//!
//! A killed edit leaves its journal, and files that the model does not list: new shards, if it was killed
//! before the index was renamed, or old ones after that. The next edit removes the files that are in the
//! journal and that no catalog lists.

use super::catalog::Catalog;
use holdall_core::Result;
use holdall_io::OpenOptions;
use holdall_io::error::{LOCKED, io};
use holdall_io::journal as on_disk;
use holdall_io::sink::{Durability, folder, sync_folder};
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The journal of a running edit. It is locked until this is dropped.
pub(super) struct Journal {
    path: PathBuf,
    /// The paths of all shards that are added or removed.
    files: Vec<PathBuf>,
    _file: File,
}

/// Removes the files of a killed edit of the model. The catalog must be locked.
///
/// # Errors
/// Returns [`LOCKED`] if that edit is still running; an `Io` error.
pub(super) fn sweep(catalog: &Catalog) -> Result<()> {
    let Some((model, _)) = catalog.file() else { return Ok(()) };
    let path = on_disk::path_for(model);
    let Ok(file) = File::options().read(true).write(true).open(&path) else { return Ok(()) };
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return Err(LOCKED
            .broken("another process is editing the file")
            .in_source(model.display()));
    }
    let files = on_disk::files_for(model);
    Journal { path, files, _file: file }.remove_unnamed(catalog)
}

impl Journal {
    /// Writes the journal of an edit that adds and removes the shards with these names.
    ///
    /// # Errors
    /// Returns [`LOCKED`] if another edit is running; an `Io` error.
    pub(super) fn begin(
        catalog: &Catalog,
        names: &[String],
        durability: Durability,
    ) -> Result<Option<Journal>> {
        let Some((model, _)) = catalog.file() else { return Ok(None) };
        let path = on_disk::path_for(model);
        let failed = |e| io(e, "writing").in_source(path.display());
        let files: Vec<PathBuf> = names.iter().map(|name| catalog.shard(name)).collect();
        let beside = |path: &PathBuf| {
            let own = path.strip_prefix(folder(model)).unwrap_or(path);
            own.to_str().unwrap_or_default().to_owned()
        };
        let text: Vec<String> = files.iter().map(beside).collect();
        let text = serde_json::to_string(&text).unwrap_or_default();
        let mut file = match File::options().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(LOCKED
                    .broken("another process is editing the file")
                    .in_source(model.display()));
            }
            Err(e) => return Err(failed(e)),
        };
        // On file systems without locks, edits run without them.
        let _ = file.try_lock();
        file.write_all(text.as_bytes()).map_err(failed)?;
        if durability == Durability::Disk {
            file.sync_all().map_err(failed)?;
            sync_folder(&path).map_err(failed)?;
        }
        Ok(Some(Journal { path, files, _file: file }))
    }

    /// Removes the listed files that no catalog lists, and the journal itself.
    ///
    /// # Errors
    /// Returns an `Io` error.
    pub(super) fn remove_unnamed(self, catalog: &Catalog) -> Result<()> {
        let named = catalog.named_now(&OpenOptions::new())?;
        let failed = |path: &Path, e| io(e, "removing").in_source(path.display());
        for path in self.files.iter().filter(|path| !named.contains(*path)) {
            match std::fs::remove_file(path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(path, e)),
                _ => {}
            }
        }
        std::fs::remove_file(&self.path).map_err(|e| failed(&self.path, e))
    }
}
