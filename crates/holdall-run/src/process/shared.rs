//! The folder for tensors that are too large for a frame. Each tensor is a file that one side writes, and that the
//! other reads once and removes. Section 3 of `docs/spec/runner.md`.

use crate::platform;
use crate::rules::{SHARED, io};
use holdall::{Bytes, Result};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The side that writes a file, which determines its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The caller.
    In,
    /// The runner.
    Out,
}

impl Side {
    fn name(self, number: u64) -> String {
        match self {
            Side::In => format!("in-{number}"),
            Side::Out => format!("out-{number}"),
        }
    }
}

/// Access to the folder by one side.
#[derive(Debug)]
pub(crate) struct Shared {
    folder: PathBuf,
    ours: Side,
    /// Number of files that this side has written.
    files: u64,
}

impl Shared {
    pub(crate) fn new(folder: &Path, ours: Side) -> Shared {
        Shared { folder: folder.to_owned(), ours, files: 0 }
    }

    /// Returns `true` if the folder has files.
    pub(crate) fn has_files(&self) -> bool {
        std::fs::read_dir(&self.folder).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Writes bytes to a new file, and returns its number.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<u64> {
        let number = self.files;
        self.files += 1;
        let path = self.folder.join(self.ours.name(number));
        std::fs::write(path, bytes).map_err(|e| io(e, "writing a tensor to shared memory"))?;
        Ok(number)
    }

    /// Reads and removes a file of the other side, which must have `len` bytes.
    pub(crate) fn take(&self, number: u64, len: u64) -> Result<Bytes> {
        let theirs = match self.ours {
            Side::In => Side::Out,
            Side::Out => Side::In,
        };
        let path = self.folder.join(theirs.name(number));
        let broken = |what| SHARED.broken(what).within(format!("shared memory {number}"));
        let unread = |e| broken("it cannot be opened".to_owned()).because(e);
        let mut options = std::fs::OpenOptions::new();
        platform::open_only_files(options.read(true));
        let mut file = options.open(&path).map_err(unread)?;
        let found = file.metadata().map_err(unread)?;
        if !found.is_file() || found.len() != len {
            return Err(broken(format!("{} bytes, expected {len}", found.len())));
        }
        let Ok(room) = usize::try_from(len) else { return Err(broken("too long".to_owned())) };
        let mut out = Vec::with_capacity(room);
        let read = std::io::Read::by_ref(&mut file).take(len).read_to_end(&mut out);
        let read = read.map_err(|e| io(e, "reading a tensor from shared memory"))?;
        drop(file);
        let _ = std::fs::remove_file(path);
        if read != room {
            return Err(broken(format!("it ends after {read} bytes, expected {len}")));
        }
        Ok(out.into())
    }
}
