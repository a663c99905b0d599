//! What only a file of a local disk can do.

use super::{FileSource, MapSource};
use bytes::Bytes;
use holdall_core::Result;
use std::ops::Range;

/// The local file under a source: what the operating system can be told, and asked, about it.
#[derive(Debug, Clone, Copy)]
pub struct LocalFile<'a> {
    file: &'a FileSource,
    map: Option<&'a MapSource>,
    /// Where the source starts in the file.
    start: u64,
    /// Bytes of the source.
    len: u64,
}

impl<'a> LocalFile<'a> {
    pub(super) fn new(file: &'a FileSource, map: Option<&'a MapSource>, len: u64) -> LocalFile<'a> {
        LocalFile { file, map, start: 0, len }
    }

    /// The bytes `range` of it as a source of their own.
    pub(super) fn slice(self, range: &Range<u64>) -> LocalFile<'a> {
        let start = self.start + range.start;
        LocalFile { start, len: range.end - range.start, ..self }
    }

    /// Whether the source is a map.
    pub fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    fn shifted(&self, range: &Range<u64>) -> Range<u64> {
        self.start.saturating_add(range.start)..self.start.saturating_add(range.end)
    }

    fn has(&self, range: &Range<u64>) -> bool {
        range.start <= range.end && range.end <= self.len
    }

    /// A copy of the bytes of a range, read, not mapped.
    ///
    /// # Errors
    /// As [`ByteSource::read`](super::ByteSource::read).
    pub fn read(&self, range: Range<u64>) -> Result<Bytes> {
        use super::ByteSource as _;
        if !self.has(&range) {
            return Err(super::outside(&range, self.len));
        }
        self.file.read_range(self.shifted(&range))
    }

    /// The same, unless the disk would have to be waited for: then nothing.
    pub fn read_at_hand(&self, range: Range<u64>) -> Option<Result<Bytes>> {
        if !self.has(&range) {
            return Some(Err(super::outside(&range, self.len)));
        }
        self.file.read_at_hand(self.shifted(&range))
    }

    /// Whether most of these bytes would have to come from the disk now. A guess.
    pub fn is_cold(&self, range: Range<u64>) -> bool {
        self.file.is_cold(self.shifted(&range))
    }

    /// Told that these bytes will be read soon, a part at a time: the system begins to get them.
    pub fn fetch_ahead(&self, range: Range<u64>) {
        self.file.fetch_ahead(self.shifted(&range));
    }

    /// Told that all of these bytes are about to be touched: a map gets their pages ready in one step instead of at
    /// every touch. Keep it to a few megabytes at a time.
    pub fn populate(&self, range: Range<u64>) {
        if let Some(map) = self.map
            && self.has(&range)
        {
            map.populate(self.shifted(&range));
        }
    }

    /// Fills `out` past the operating system's cache, where that is possible; `None` where it is not. Offset, length
    /// and address of `out` are multiples of 4096, except that the range may reach past the end of the source: what
    /// lies there is left alone.
    pub fn read_direct(&self, offset: u64, out: &mut [u8]) -> Option<Result<()>> {
        // Only whole files lie where the disk wants them.
        (self.start == 0).then(|| self.file.read_direct(offset, out)).flatten()
    }
}
