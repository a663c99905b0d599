//! Sinks: where a file's bytes are written to.

mod digest_sink;
mod file;
mod folder;
mod stream;
mod unpublished;

pub use digest_sink::DigestSink;
pub use file::{Durability, FileSink};
pub use folder::FolderSink;
pub use stream::StreamSink;
pub use unpublished::{folder, sweep, sync_folder};

use crate::error::TO_ADDRESS;
use crate::source::ByteSource;
use holdall_core::Result;
use std::path::Path;
use std::sync::Arc;

/// Returns an error if `path` is an address, because files can only be written to local paths.
///
/// # Errors
/// Returns an `Unsupported` error: `write/address`.
pub fn check_local(path: &Path) -> Result<()> {
    let location = crate::Location::new(path);
    match location.as_address() {
        Some(_) => {
            let e = TO_ADDRESS.broken("this is an address, not a path");
            Err(e.in_source(location))
        }
        None => Ok(()),
    }
}

/// Checks that the file system of `path`, which need not exist yet, has `bytes` bytes free, if it says how many it has.
///
/// # Errors
/// Returns an `Io` error if it has less.
pub fn check_space(path: &Path, bytes: u64) -> Result<()> {
    #[cfg(target_os = "linux")]
    if let Ok(found) = rustix::fs::statvfs(folder(path)) {
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if free < bytes {
            let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
            let action = format!("writing {bytes} bytes to a disk with {free} bytes free");
            return Err(crate::error::io(full, action).in_source(path.display()));
        }
    }
    let _ = (path, bytes);
    Ok(())
}

/// The greatest number of bytes that [`Sink::fill`] reads at a time: few enough to still be in the processor's cache
/// when they are digested.
pub const FILL_LEN: usize = 1 << 20;

/// An append-only destination that publishes either everything or nothing, if it can.
pub trait Sink {
    /// The result of [`Sink::finish`].
    type Done;

    /// Returns the number of bytes appended so far.
    fn len(&self) -> u64;

    /// Returns `true` if nothing was appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Announces, before the first byte, about how many bytes will be appended.
    fn expect(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Announces, before the first byte, at least how many bytes will be appended, and reserves space for them.
    ///
    /// # Errors
    /// Returns an `Io` error if there is not enough space.
    fn reserve(&mut self, bytes: u64) -> Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Returns an `Io` error. The sink cannot be used any more then; dropping it removes all traces of the file.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Appends `len` bytes that `read` returns, in chunks of at most [`FILL_LEN`]. `read` must fill the whole buffer
    /// that it is called with. A sink that passes its own memory to `read` saves a copy.
    ///
    /// # Errors
    /// Returns the same errors as [`Sink::append`]; errors of `read`.
    fn fill(&mut self, len: u64, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let mut memory = vec![0; len.min(FILL_LEN as u64) as usize];
        let mut left = len;
        while left > 0 {
            let now = left.min(FILL_LEN as u64) as usize;
            read(&mut memory[..now])?;
            self.append(&memory[..now])?;
            left -= now as u64;
        }
        Ok(())
    }

    /// Returns the appended bytes as a source, to check them before they are published. Returns `None` if they cannot
    /// be read back, for example from a pipe. Nothing may be appended afterwards.
    ///
    /// # Errors
    /// Returns an `Io` error. The sink cannot be used any more then.
    fn read_back(&mut self) -> Result<Option<Arc<dyn ByteSource>>> {
        Ok(None)
    }

    /// Publishes the appended bytes.
    ///
    /// # Errors
    /// Returns an `Io` error; nothing is published then.
    fn finish(self) -> Result<Self::Done>;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::check_space;

    #[test]
    fn space_is_checked_before_there_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new.zt");
        check_space(&path, 0).unwrap();
        check_space(&path, 4096).unwrap();
        let e = check_space(&path, u64::MAX).unwrap_err();
        assert_eq!(e.code(), "io/failed");
        assert!(e.to_string().contains("bytes free"), "{e}");
        // A folder that does not exist says nothing: creating the file does.
        check_space(&folder.path().join("none/new.zt"), u64::MAX).unwrap();
    }
}
