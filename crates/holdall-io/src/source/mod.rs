//! Where bytes come from.

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
/// What a source says of a range that it does not have.
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
use holdall_core::{Digest, Result, Stop, Warning, Window};
use std::ops::Range;
use std::sync::Arc;

/// Bytes that can be read by position: a file, a map, memory, a web server, whatever you have.
///
/// # What an implementation keeps
///
/// - **Length.** [`ByteSource::len`] never changes. What lies under the source may: then a read fails.
/// - **Reads.** [`ByteSource::read`] gives exactly the bytes of each range, in the order of `ranges`. Ranges may be
///   empty, may overlap, may be out of order; one that ends beyond the source, or ends before it starts, is an error
///   (`window/outside`), never a panic and never fewer bytes.
/// - **One version.** All bytes that a source ever gives are of one version of what lies under it. Who cannot tell
///   versions apart says so in its documentation.
/// - **Threads.** Any number of threads read at the same time.
/// - **Batches.** All ranges of one call are wanted at once: a source that waits for an answer asks for as many as
///   [`Terms::at_once`] says before it waits for the first, and may join neighbours. What is not in the ranges may be
///   fetched, but is not handed out.
/// - **Errors** are of kind Io where trying again may help, and name the source.
///
/// `crates/holdall/tests/sources.rs` holds every source of this crate to this; it takes any implementation.
pub trait ByteSource: Send + Sync {
    /// Bytes in all.
    fn len(&self) -> u64;

    /// The bytes of each range.
    ///
    /// # Errors
    /// Io, when any of them cannot be had in full; Malformed, for a range that is not in the source.
    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of one range.
    ///
    /// # Errors
    /// As [`ByteSource::read`].
    fn read_range(&self, range: Range<u64>) -> Result<Bytes> {
        let mut all = self.read(std::slice::from_ref(&range))?;
        Ok(all.pop().unwrap_or_default())
    }

    /// Fills `out` with the bytes from `offset` on. Worth implementing where it saves a copy.
    ///
    /// # Errors
    /// As [`ByteSource::read`].
    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        out.copy_from_slice(&self.read_range(offset..end)?);
        Ok(())
    }

    /// What a read costs, and how large a read is good. Of a source that does not say, nothing is known, and it is
    /// read as if it were far away.
    fn terms(&self) -> ReadHints {
        ReadHints::REMOTE
    }

    /// What is odd about the place that the bytes come from: it is told with what is odd about the file.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }

    /// Bytes that came unasked when the source was opened, where a decoder finds the index: where they are, and they.
    fn prefetched(&self) -> Vec<(u64, Bytes)> {
        Vec::new()
    }

    /// The same bytes, whose reads are answered before those with lower numbers and after those with higher ones; those of
    /// this source are at 0. Nothing, where no order can be asked for.
    fn with_priority(&self, priority: i32) -> Option<Arc<dyn ByteSource>> {
        let _ = priority;
        None
    }

    /// Gives another number to what is under way and to what comes: see [`ByteSource::with_priority`].
    fn set_priority(&self, priority: i32) {
        let _ = priority;
    }

    /// The digest that all of its bytes should have, if whatever it was found in says one: an archive, a package.
    fn digest(&self) -> Option<Digest> {
        None
    }

    /// The local file under the source, where there is one: it can do more.
    fn local(&self) -> Option<LocalFile<'_>> {
        None
    }
}

/// The bytes of each range as they are now, copied where others may change what is borrowed. What is parsed is read
/// by this, because a number or a text that changes after it was checked would be worse than a wrong one.
pub fn read_now(source: &dyn ByteSource, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    match source.local() {
        Some(local) => ranges.iter().map(|range| local.read(range.clone())).collect(),
        None => source.read(ranges),
    }
}

/// The bytes of a range that is a small part of the source: a map whose pages are not in memory is read instead of
/// touched, because the system would fetch megabytes around each touch.
pub fn read_part(source: &dyn ByteSource, range: Range<u64>) -> Result<Bytes> {
    match source.local() {
        Some(local) if local.is_mapped() && local.is_cold(range.clone()) => local.read(range),
        _ => source.read_range(range),
    }
}

/// What `read` makes of what `source` holds. What it asks for is fetched, all of it at once, and it is asked again.
///
/// # Errors
/// What `read` and the source fail with.
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

/// Checks that a source of `len` bytes has a range.
///
/// # Errors
/// [`OUTSIDE`].
pub fn check_range(range: &Range<u64>, len: u64) -> Result<()> {
    if range.start > range.end || range.end > len {
        return Err(outside(range, len));
    }
    Ok(())
}

/// The error for a range that the source does not have.
#[cold]
pub(crate) fn outside(range: &Range<u64>, len: u64) -> holdall_core::Error {
    let rule = &OUTSIDE;
    rule.broken(format!("the source has {len} bytes")).at(range.clone())
}
