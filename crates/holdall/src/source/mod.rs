//! Where bytes come from.

mod file;
#[cfg(feature = "http")]
mod http;
#[allow(unsafe_code)] // The memory map: the one place in the workspace that needs it.
mod map;
mod memory;
mod slice;

pub use file::FileSource;
#[cfg(feature = "http")]
pub use http::HttpSource;
pub use map::MapSource;
pub use memory::MemorySource;
pub use slice::SliceSource;

use bytes::Bytes;
use holdall_core::Result;
use std::ops::Range;

/// Bytes that can be read by position. Implementations are shared by threads.
pub trait ByteSource: Send + Sync {
    /// Bytes in all. Does not change while the source is open.
    fn len(&self) -> u64;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of each range, all inside the source.
    ///
    /// # Errors
    /// Io, when any of them cannot be had in full.
    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// The bytes of one range.
    ///
    /// # Errors
    /// As [`ByteSource::read`].
    fn read_range(&self, range: Range<u64>) -> Result<Bytes> {
        let mut all = self.read(std::slice::from_ref(&range))?;
        Ok(all.pop().unwrap_or_default())
    }

    /// The bytes of a range that is a small part of the source: as [`ByteSource::read_range`], except
    /// that a map whose pages are not in memory is read instead of touched, because the system would
    /// fetch megabytes around each touch.
    ///
    /// # Errors
    /// As [`ByteSource::read`].
    fn read_part(&self, range: Range<u64>) -> Result<Bytes> {
        self.read_range(range)
    }

    /// The bytes of one range as they are now: a copy where others may change what is borrowed. What is
    /// parsed is read by this, because a number or a text that changes after it was checked would be
    /// worse than a wrong one.
    ///
    /// # Errors
    /// As [`ByteSource::read`].
    fn read_now(&self, range: Range<u64>) -> Result<Bytes> {
        self.read_range(range)
    }

    /// Told that these bytes are about to be gone over, all of them, as [`ByteSource::read`] hands them
    /// out. A map gets them ready in one step instead of at every touch. Keep it to a few megabytes at a
    /// time.
    fn expect(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Told that these bytes will be read soon, a part at a time; a source that can begins to get them.
    fn fetch_ahead(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Fills `out` with the bytes from `offset`.
    ///
    /// # Errors
    /// As [`ByteSource::read`].
    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        out.copy_from_slice(&self.read_range(offset..end)?);
        Ok(())
    }

    /// What [`ByteSource::read`] costs.
    fn access(&self) -> Access {
        Access::Copied
    }

    /// Like [`ByteSource::read_into`], past the operating system's cache, where that is possible;
    /// `None` where it is not. Offset, length and address of `out` are multiples of 4096, except that
    /// the range may reach past the end of the source: what lies there is left alone.
    fn read_direct(&self, offset: u64, out: &mut [u8]) -> Option<Result<()>> {
        let _ = (offset, out);
        None
    }

    /// Whether most of these bytes would have to come from the disk now. A guess.
    fn is_cold(&self, range: Range<u64>) -> bool {
        let _ = range;
        false
    }
}

/// What reading from a [`ByteSource`] costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Ranges are handed out as they lie in memory; nothing is read until they are touched.
    Borrowed,
    /// Every read copies.
    Copied,
}

/// The error for a range that the source does not have.
#[cold]
fn outside(range: &Range<u64>, len: u64) -> holdall_core::Error {
    let rule = &holdall_core::window::OUTSIDE;
    rule.broken(format!("the source has {len} bytes")).at(range.clone())
}
