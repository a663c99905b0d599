//! Where stored bytes are.

use std::fmt;
use std::ops::Range;

/// A run of stored bytes: the source that has them, and where in it. Half-open, in bytes from the start
/// of the source.
///
/// A model in one file has one source, number 0. A model in several files (shards, external data, linked
/// files) has one for each, in the order that its [`Index`](crate::Index) says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Extent {
    /// The number of the source.
    pub source: u32,
    /// Its first byte.
    pub start: u64,
    /// The byte after its last one.
    pub end: u64,
}

impl Extent {
    /// The source of bytes that are stored in no file but stand in the manifest as numbers: the index has
    /// them, see [`Index::stated`](crate::Index::stated).
    pub const STATED: u32 = u32::MAX;

    /// The first of the sources that no file is: arrays put together of chunks, see
    /// [`Index::chunked`](crate::Index::chunked).
    pub const CHUNKED: u32 = 1 << 31;

    /// The number of the array that it is in, among those put together of chunks.
    pub fn chunked(&self) -> Option<usize> {
        (!self.is_stated()).then(|| self.source.checked_sub(Extent::CHUNKED))?.map(|n| n as usize)
    }

    /// Whether the index has the bytes, rather than a file.
    pub fn is_stated(&self) -> bool {
        self.source == Extent::STATED
    }

    /// The bytes `range` of source number `source`.
    pub fn new(source: u32, range: Range<u64>) -> Extent {
        Extent { source, start: range.start, end: range.end }
    }

    /// Bytes in it.
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Where it is in its source.
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    /// The bytes `part` of it, counted from its start, cut off at its end.
    pub fn part(&self, part: Range<u64>) -> Extent {
        let at = |n: u64| self.start.saturating_add(n).min(self.end);
        Extent { source: self.source, start: at(part.start), end: at(part.end) }
    }
}

/// Bytes of the only source.
impl From<Range<u64>> for Extent {
    fn from(range: Range<u64>) -> Extent {
        Extent::new(0, range)
    }
}

/// `64..128`, or `2:64..128` in another source than the first.
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
