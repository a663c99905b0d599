//! Files of a package as streams that are checked against their hashes.

use crate::error::io;
use holdall_core::error::Shown as _;
use holdall_core::model::Hasher;
use holdall_core::{Algorithm, Digest, Error};
use holdall_package::{rules::HASH, wrong_hash};
use std::fmt;
use std::io::{self, Read};

/// The bytes of one file, decoded. Its last bytes are not handed out when its SHA-256 is another than
/// `MANIFEST` says: the read that would do so fails.
pub struct FileReader {
    from: Box<dyn Read + Send>,
    path: String,
    /// Bytes not handed out yet.
    left: u64,
    /// `None` when the hash was compared, or there is none.
    hasher: Option<(Hasher, [u8; 32])>,
    /// The check failed: so does every read from now on.
    failed: bool,
}

impl FileReader {
    /// Checks what `from` gives: `len` bytes of the file at `path` with this hash.
    pub fn new(
        from: Box<dyn Read + Send>,
        path: &str,
        len: u64,
        sha256: Option<[u8; 32]>,
    ) -> FileReader {
        let hasher = sha256.map(|wanted| (Hasher::new(Algorithm::Sha256), wanted));
        FileReader { from, path: path.to_owned(), left: len, hasher, failed: false }
    }

    /// Bytes that are still to come.
    pub fn remaining(&self) -> u64 {
        self.left
    }

    fn check(&mut self) -> io::Result<()> {
        // One more read, so that what comes after the end, or is found out there, is not missed.
        let mut beyond = [0];
        loop {
            match self.from.read(&mut beyond) {
                Ok(0) => break,
                Ok(_) => return Err(self.wrong("it has grown since it was opened".into())),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.failed = true;
                    return Err(e);
                }
            }
        }
        let Some((hasher, wanted)) = self.hasher.take() else { return Ok(()) };
        match hasher.finish() {
            Digest::Sha256(found) if found == wanted => Ok(()),
            Digest::Sha256(found) => {
                self.failed = true;
                Err(io::Error::other(wrong_hash(&self.path, &wanted, &found)))
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn wrong(&mut self, what: String) -> io::Error {
        self.failed = true;
        io::Error::other(HASH.broken(format!("`{}`: {what}", self.path.shown())))
    }
}

impl Read for FileReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.failed {
            return Err(self.wrong("its bytes changed since it was packed".into()));
        }
        if out.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            self.check()?;
            return Ok(0);
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        let count = self.from.read(&mut out[..most])?;
        if count == 0 {
            return Err(self.wrong("it has shrunk since it was opened".into()));
        }
        self.left -= count as u64;
        if let Some((hasher, _)) = &mut self.hasher {
            hasher.update(&out[..count]);
        }
        if self.left == 0 {
            self.check()?;
        }
        Ok(count)
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileReader")
            .field("path", &self.path)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// Reads until the buffer is full or there is no more.
pub fn fill(from: &mut dyn Read, into: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < into.len() {
        match from.read(&mut into[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(count)
}

/// A read that failed: our own error where it carries one.
#[cold]
pub fn reading(e: std::io::Error, path: &str) -> Error {
    match e.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(own) => own.clone(),
        None => io(e, format_args!("reading `{}`", path.shown())),
    }
}
