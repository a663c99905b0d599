//! The location of bytes that are scanned.

use bytes::Bytes;
use std::ops::Range;

/// A range of the file, or decompressed bytes.
#[derive(Debug, Clone)]
pub(super) enum Region {
    File(Range<u64>),
    Memory(Bytes),
}

impl Region {
    /// Returns a range of the region, clipped to the region.
    pub(super) fn range(&self, range: Range<u64>) -> Region {
        match self {
            Region::File(all) => {
                let at = |at: u64| all.start.saturating_add(at).min(all.end);
                Region::File(at(range.start)..at(range.end))
            }
            Region::Memory(bytes) => {
                let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let end = at(range.end);
                Region::Memory(bytes.slice(at(range.start).min(end)..end))
            }
        }
    }
}
