//! A store of files by their SHA-256, in a folder that processes share.
//!
//! ```text
//! <root>/sha256/ab/abcd…            a whole file, named by its 64 hex digits, read-only
//! <root>/sha256/ab/.abcd….part      the bytes received so far; locked by the process that fetches them
//! <root>/sha256/ab/.abcd….from      the address of these bytes, so that a later process can resume
//! ```
//!
//! A file gets its name by one rename, after its hash was verified and its bytes are on disk. A process that
//! needs a file which another is fetching waits for the other's lock; the lock of a killed process is
//! released by the system. Any file in the store may be deleted at any time.

use super::hex;
use super::rules::CACHE_FOLDER;
use holdall_core::Result;
use holdall_core::model::{Algorithm, Digest, Hasher};
use holdall_io::cache::standard_root;
use holdall_io::error::io;
use holdall_io::lock::Stamp;
use holdall_io::platform;
use holdall_io::sink::sync_folder;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use holdall_io::cache::CACHE;

/// A store of files by their SHA-256. Cheap to clone; shared by threads, and by processes that use the same
/// folder.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    /// Stamps of files that were verified.
    sound: Arc<Mutex<HashMap<[u8; 32], Stamp>>>,
}

/// The state of a file in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileState {
    /// The file is in the store, with the right hash.
    Sound,
    /// The file is in the store, but has another hash.
    Damaged,
    /// The file is not in the store.
    Nothing,
}

/// A file that is being written into the store. It is locked against other writers.
pub(super) struct PendingObject {
    pub(super) file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Store {
    /// Creates a store in this folder, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Store {
        Store { root: root.into(), sound: Arc::default() }
    }

    /// Returns the store in the folder given by [`CACHE`], otherwise in the system's cache folder: `holdall`
    /// in `$XDG_CACHE_HOME` or `~/.cache`, in `~/Library/Caches` on macOS, `%LOCALAPPDATA%\holdall\cache` on
    /// Windows.
    ///
    /// # Errors
    /// Returns a `Misuse` error if there is no such folder.
    pub fn standard() -> Result<Store> {
        let root = standard_root(&|name| std::env::var_os(name));
        root.map(Store::new).ok_or_else(|| {
            CACHE_FOLDER
                .broken("neither the environment nor the system names a folder for cached files")
        })
    }

    /// Returns the store's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path that a file with this hash has, or would have.
    pub fn path(&self, sha256: &[u8; 32]) -> PathBuf {
        let name = hex(sha256);
        self.root.join("sha256").join(&name[..2]).join(name)
    }

    /// Returns the path of the file with this hash, if it is in the store and sound: it is read and hashed,
    /// unless that was done through this `Store` and the file has not changed since.
    ///
    /// # Errors
    /// Returns an `Io` error.
    pub fn find(&self, sha256: &[u8; 32]) -> Result<Option<PathBuf>> {
        let path = self.path(sha256);
        Ok((self.state_of(sha256)? == FileState::Sound).then_some(path))
    }

    /// Reads and hashes the file with this hash, unless that was done before and the file has not changed since.
    pub(super) fn state_of(&self, sha256: &[u8; 32]) -> Result<FileState> {
        let path = self.path(sha256);
        let failed = |e| io(e, "reading a cached file").in_source(path.display());
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(FileState::Nothing),
            Err(e) => return Err(failed(e)),
        };
        let before = Stamp::from(&file.metadata().map_err(failed)?);
        if self.sound.lock().unwrap_or_else(PoisonError::into_inner).get(sha256) == Some(&before) {
            return Ok(FileState::Sound);
        }
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hash(&mut file, &mut hasher).map_err(failed)?;
        if hasher.finish() != Digest::Sha256(*sha256) {
            return Ok(FileState::Damaged);
        }
        self.remember(sha256, before);
        self.remove_leftovers(sha256);
        Ok(FileState::Sound)
    }

    /// Removes the partial files that killed processes left, once the complete file is in the store.
    fn remove_leftovers(&self, sha256: &[u8; 32]) {
        let path = self.path(sha256);
        let (own, folder) = (format!(".{}.", hex(sha256)), path.parent().unwrap_or(&self.root));
        let Ok(entries) = folder.read_dir() else { return };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        for name in names.filter(|name| name.starts_with(&own) && name.ends_with(".part")) {
            let part = folder.join(name);
            let file = File::options().read(true).write(true).open(&part);
            if let Some(_lock) = file.ok().filter(|file| file.try_lock().is_ok()) {
                let _ = fs::remove_file(from_path(&part));
                let _ = fs::remove_file(&part);
            }
        }
        // The note of a partial file that has been completed.
        let part = folder.join(format!("{own}part"));
        if !part.exists() {
            let _ = fs::remove_file(from_path(&part));
        }
    }

    fn remember(&self, sha256: &[u8; 32], stamp: Stamp) {
        self.sound.lock().unwrap_or_else(PoisonError::into_inner).insert(*sha256, stamp);
    }

    /// Starts to write the file with this hash, or resumes where another process stopped. Waits for a process
    /// that is writing it.
    pub(super) fn begin(&self, sha256: &[u8; 32]) -> Result<PendingObject> {
        let target = self.path(sha256);
        let folder = target.parent().unwrap_or(&self.root);
        let failed = |e| io(e, "writing to the cache").in_source(folder.display());
        fs::create_dir_all(folder).map_err(failed)?;
        let mut path = folder.join(format!(".{}.part", hex(sha256)));
        loop {
            let file = open_part(&path).map_err(failed)?;
            if file.lock().is_err() {
                // The file system has no locks: use a file of our own, which no other process resumes.
                let own = format!(".{}.{}.part", hex(sha256), std::process::id());
                path = folder.join(own);
                let file = open_part(&path).map_err(failed)?;
                file.set_len(0).map_err(failed)?;
                return Ok(PendingObject { file, path, target });
            }
            // The previous owner of the lock may have renamed or removed the file.
            if platform::is_at(&file, &path) {
                return Ok(PendingObject { file, path, target });
            }
        }
    }

    /// Gives a complete file its name. Its hash must have been verified.
    pub(super) fn publish(&self, sha256: &[u8; 32], part: PendingObject) -> Result<PathBuf> {
        let PendingObject { file, path, target } = part;
        let failed = |e| io(e, "writing to the cache").in_source(target.display());
        platform::freeze(&file).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        platform::rename_over(&path, &target).map_err(failed)?;
        sync_folder(&target).map_err(failed)?;
        let _ = fs::remove_file(from_path(&path));
        self.remember(sha256, Stamp::from(&file.metadata().map_err(failed)?));
        Ok(target)
    }
}

impl PendingObject {
    /// Returns the path of the note about the origin of the bytes so far.
    pub(super) fn note_path(&self) -> PathBuf {
        from_path(&self.path)
    }

    /// Ends a failed fetch: the bytes so far are kept, so that a later fetch can resume.
    pub(super) fn keep_for_resume(self) {
        let is_empty = self.file.metadata().is_ok_and(|meta| meta.len() == 0);
        if is_empty || !self.note_path().exists() {
            self.discard();
        }
    }

    /// Removes the partial file, because another process wrote the file meanwhile, or because its bytes are useless.
    pub(super) fn discard(self) {
        let _ = fs::remove_file(from_path(&self.path));
        let _ = fs::remove_file(&self.path);
    }
}

/// Hashes all bytes from the file's current position.
pub(super) fn hash(file: &mut File, hasher: &mut Hasher) -> std::io::Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut len = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(len),
            Ok(n) => {
                hasher.update(&buffer[..n]);
                len += n as u64;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn from_path(part: &Path) -> PathBuf {
    part.with_extension("from")
}

fn open_part(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    // Following a symbolic link here could write to another place.
    platform::do_not_follow(&mut options);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_default_folder_depends_on_the_environment() {
        let root = |vars: &[(&str, &str)]| {
            let vars: HashMap<_, _> = vars.iter().copied().collect();
            let found = standard_root(&|name| vars.get(name).map(OsString::from));
            found.map(|path| path.to_str().unwrap().to_owned())
        };
        let home = ("HOME", "/home/me");
        assert_eq!(root(&[home]).unwrap(), "/home/me/.cache/holdall");
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "/c")]).unwrap(), "/c/holdall");
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "c")]).unwrap(), "/home/me/.cache/holdall");
        assert_eq!(root(&[home, (CACHE, "/mine")]).unwrap(), "/mine");
        assert_eq!(root(&[home, (CACHE, "")]).unwrap(), "/home/me/.cache/holdall");
        assert_eq!(root(&[]), None);
    }
}
