//! Files of a package as streams whose hashes are checked.

use crate::error::io;
use holdall_core::error::Escape as _;
use holdall_core::model::Hasher;
use holdall_core::{Algorithm, Digest, Error};
use holdall_package::{rules::HASH, wrong_hash};
use std::fmt;
use std::io::{self, Read};

/// The decoded bytes of a file. If its SHA-256 differs from that in `MANIFEST`, the read that would return the last
/// bytes fails.
pub struct FileReader {
    from: Box<dyn Read + Send>,
    path: String,
    /// The number of bytes that were not returned yet.
    left: u64,
    /// `None` once the hash was checked, or if the file has no hash.
    hasher: Option<(Hasher, [u8; 32])>,
    /// Whether the check has failed; then all further reads fail.
    failed: bool,
}

impl FileReader {
    /// Creates a stream that reads `len` bytes of the file at `path` from `from`, and checks their hash.
    pub fn new(
        from: Box<dyn Read + Send>,
        path: &str,
        len: u64,
        sha256: Option<[u8; 32]>,
    ) -> FileReader {
        let hasher = sha256.map(|wanted| (Hasher::new(Algorithm::Sha256), wanted));
        FileReader { from, path: path.to_owned(), left: len, hasher, failed: false }
    }

    /// Returns the number of remaining bytes.
    pub fn remaining(&self) -> u64 {
        self.left
    }

    fn check(&mut self) -> io::Result<()> {
        // One more read, to detect bytes or an error after the end.
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
        io::Error::other(HASH.broken(format!("`{}`: {what}", self.path.escaped())))
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

/// Reads until the buffer is full or the reader has ended. Returns the number of bytes.
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

/// Converts an error of reading. If it contains one of our own errors, returns that.
#[cold]
pub fn reading(e: std::io::Error, path: &str) -> Error {
    match e.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(own) => own.clone(),
        None => io(e, format_args!("reading `{}`", path.escaped())),
    }
}
