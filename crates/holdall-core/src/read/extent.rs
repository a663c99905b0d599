//! Locations of stored bytes.

use std::fmt;
use std::ops::Range;

/// A half-open range of stored bytes in a source, in bytes from the start of the source.
///
/// A model in one file has one source, number 0. A model in several files (shards, external data, linked files) has one
/// source per file, in the order of its [`Index`](crate::Index).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Extent {
    /// The number of the source.
    pub source: u32,
    /// The offset of the first byte.
    pub start: u64,
    /// The offset after the last byte.
    pub end: u64,
}

impl Extent {
    /// The source of bytes that are in no file because their values are in the manifest. The index has them, see
    /// [`Index::stated`](crate::Index::stated).
    pub const STATED: u32 = u32::MAX;

    /// The first of the sources that are not files but arrays assembled from chunks, see
    /// [`Index::chunked`](crate::Index::chunked).
    pub const CHUNKED: u32 = 1 << 31;

    /// Returns the index of the chunked array that the extent lies in, if it lies in one.
    pub fn chunked(&self) -> Option<usize> {
        (!self.is_stated()).then(|| self.source.checked_sub(Extent::CHUNKED))?.map(|n| n as usize)
    }

    /// Returns `true` if the bytes are in the index instead of a file.
    pub fn is_stated(&self) -> bool {
        self.source == Extent::STATED
    }

    /// Creates the extent of the bytes `range` of a source.
    pub fn new(source: u32, range: Range<u64>) -> Extent {
        Extent { source, start: range.start, end: range.end }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns `true` if the extent has no bytes.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Returns the range in the source.
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Returns the bytes `part` of the extent, counted from its start and cut off at its end.
    pub fn part(&self, part: Range<u64>) -> Extent {
        let at = |n: u64| self.start.saturating_add(n).min(self.end);
        Extent { source: self.source, start: at(part.start), end: at(part.end) }
    }
}

/// Creates an extent in the source 0.
impl From<Range<u64>> for Extent {
    fn from(range: Range<u64>) -> Extent {
        Extent::new(0, range)
    }
}

/// Writes `64..128`, or `2:64..128` for a source other than the first.
impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            0 => {}
            Extent::STATED => f.write_str("stated:")?,
            number => match self.chunked() {
                Some(number) => write!(f, "chunked {number}:")?,
                None => write!(f, "{number}:")?,
            },
        }
        write!(f, "{}..{}", self.start, self.end)
    }
}
