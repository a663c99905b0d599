//! Sources: where a file's bytes are read from.

mod chunked;
mod file;
#[cfg(feature = "http")]
mod held;
#[cfg(feature = "http")]
mod http;
mod joined;
mod local;
#[allow(unsafe_code)] // The memory map: the one place in the workspace that needs it.
mod map;
mod memory;
#[cfg(feature = "quic")]
mod quic;
mod reader;
mod slice;

pub(crate) use chunked::ChunkedSource;
pub use file::FileSource;
pub use holdall_core::read::{Access, ReadHints};
/// The rule that a range outside a source violates.
pub use holdall_core::window::OUTSIDE;
#[cfg(feature = "http")]
pub(crate) use http::Begin;
#[cfg(feature = "http")]
pub use http::HttpSource;
pub use joined::JoinedSource;
pub use local::LocalFile;
pub use map::{MapSource, Mapped, mapped_or_read};
pub use memory::MemorySource;
#[cfg(feature = "quic")]
pub use quic::QuicSource;
pub use reader::SourceReader;
pub use slice::SliceSource;

use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_core::{Digest, Result, Stop, Warning, Window};
use std::ops::Range;
use std::sync::Arc;

/// Bytes that can be read at offsets: a file, a memory map, memory, a file on a web server, or anything else.
///
/// # Requirements for implementations
///
/// - **Length.** [`ByteSource::len`] never changes. If the underlying data changes its length, reads fail.
/// - **Reads.** [`ByteSource::read`] returns exactly the bytes of each range, in the order of `ranges`. Ranges may be
///   empty, overlap, and come in any order. A range that ends after the source, or ends before it starts, is an error
///   (`window/outside`); it never causes a panic or a shorter result.
/// - **One version.** All bytes that a source returns are of the same version of the underlying data. An implementation
///   that cannot detect changes says so in its documentation.
/// - **Threads.** Any number of threads can read at the same time.
/// - **Batches.** All ranges of one call are needed: a remote source sends up to [`ReadHints::at_once`] requests before
///   it waits for the first response, and may merge neighbouring ranges. It may fetch additional bytes, but does not
///   return them.
/// - **Errors** are of kind Io if a retry may help, and name the source.
///
/// `crates/holdall/tests/sources.rs` checks every source of this crate against these requirements, and can check other
/// implementations.
pub trait ByteSource: Send + Sync {
    /// Returns the length in bytes.
    fn len(&self) -> u64;

    /// Reads the bytes of each range.
    ///
    /// # Errors
    /// Returns an `Io` error if a range cannot be read completely; a `Malformed` error if a range is outside the source.
    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// Returns `true` if the source has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the bytes of one range.
    ///
    /// # Errors
    /// Returns the same errors as [`ByteSource::read`].
    fn read_range(&self, range: Range<u64>) -> Result<Bytes> {
        let mut all = self.read(std::slice::from_ref(&range))?;
        Ok(all.pop().debug_unwrap())
    }

    /// Fills `out` with the bytes from `offset` on. Implement it if that saves a copy.
    ///
    /// # Errors
    /// Returns the same errors as [`ByteSource::read`].
    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        out.copy_from_slice(&self.read_range(offset..end)?);
        Ok(())
    }

    /// Returns the cost of a read and the best length of one. By default [`ReadHints::REMOTE`], because nothing is
    /// known about the source.
    fn read_hints(&self) -> ReadHints {
        ReadHints::REMOTE
    }

    /// Returns warnings about the source. They are reported together with the warnings about the file.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }

    /// Returns byte ranges that were received while the source was opened, as `(offset, bytes)`. Decoders look for the
    /// index there before they request anything.
    fn prefetched(&self) -> Vec<(u64, Bytes)> {
        Vec::new()
    }

    /// Returns a source of the same bytes whose reads have this priority: they are served before reads with a lower
    /// priority and after those with a higher one. This source has priority 0. Returns `None` if the source has no
    /// priorities.
    fn with_priority(&self, priority: i32) -> Option<Arc<dyn ByteSource>> {
        let _ = priority;
        None
    }

    /// Changes the priority of pending and later reads: see [`ByteSource::with_priority`].
    fn set_priority(&self, priority: i32) {
        let _ = priority;
    }

    /// Returns the expected digest of all bytes, if the archive or package that contains the file has one.
    fn digest(&self) -> Option<Digest> {
        None
    }

    /// Reads the bytes of a range into a cache that later reads use: that of the system for a local file, a folder for a
    /// remote file that has one. Begins at offset `first`, continues after the end of the range at its start, and stops
    /// early if `is_wanted` returns false. Does nothing if the bytes are cached, if there is no cache, or if they would
    /// take more than half of it. Errors are ignored: reads report them.
    fn fill_cache(&self, range: Range<u64>, first: u64, is_wanted: &dyn Fn() -> bool) {
        if let Some(local) = self.local() {
            local.fill_cache(range, first, is_wanted);
        }
    }

    /// Returns the local file that underlies the source, if there is one, for operations that only local files have.
    fn local(&self) -> Option<LocalFile<'_>> {
        None
    }
}

/// Reads the bytes of each range, and copies them if they would be borrowed from memory that others can change. Use it
/// for everything that is parsed: a number or a text must not change after it was checked.
pub fn read_now(source: &dyn ByteSource, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    match source.local() {
        Some(local) => ranges.iter().map(|range| local.read(range.clone())).collect(),
        None => source.read(ranges),
    }
}

/// Reads a range that is a small part of the source. If the pages of a memory map are not in memory, the range is read
/// instead of touched, because the system would load megabytes around each page.
pub fn read_part(source: &dyn ByteSource, range: Range<u64>) -> Result<Bytes> {
    match source.local() {
        Some(local) if local.is_mapped() && local.is_mostly_uncached(range.clone()) => {
            local.read(range)
        }
        _ => source.read_range(range),
    }
}

/// Calls `read` until it succeeds, each time fetching the ranges that it requests into `window`, all at once.
///
/// # Errors
/// Returns the errors of `read` and of the source.
pub fn fetched<T>(
    source: &dyn ByteSource,
    window: &mut Window,
    mut read: impl FnMut(&Window) -> Result<T, Stop>,
) -> Result<T> {
    loop {
        match read(window) {
            Ok(found) => return Ok(found),
            Err(Stop::Fail(e)) => return Err(e),
            Err(Stop::Need(ranges)) => {
                let bytes = read_now(source, &ranges)?;
                ranges.iter().zip(bytes).for_each(|(range, bytes)| window.add(range.start, bytes));
            }
        }
    }
}

/// Checks that a range lies within a source of `len` bytes.
///
/// # Errors
/// Returns [`OUTSIDE`] if it does not.
pub fn check_range(range: &Range<u64>, len: u64) -> Result<()> {
    if range.start > range.end || range.end > len {
        return Err(outside(range, len));
    }
    Ok(())
}

/// Returns the error for a range outside the source.
#[cold]
pub(crate) fn outside(range: &Range<u64>, len: u64) -> holdall_core::Error {
    let rule = &OUTSIDE;
    rule.broken(format!("the source has {len} bytes")).at(range.clone())
}
