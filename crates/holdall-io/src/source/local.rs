//! Operations that only files on a local disk have.

use super::{FileSource, MapSource};
use crate::buffer::Buffer;
use bytes::Bytes;
use holdall_core::Result;
use std::ops::Range;

/// The number of bytes that the system is asked to read ahead at a time: it may ignore the rest of a longer range.
const ADVICE: usize = 128 << 10;

/// The local file that underlies a source, with hints to and queries of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct LocalFile<'a> {
    file: &'a FileSource,
    map: Option<&'a MapSource>,
    /// The offset of the source in the file.
    start: u64,
    /// The length of the source in bytes.
    len: u64,
}

impl<'a> LocalFile<'a> {
    pub(super) fn new(file: &'a FileSource, map: Option<&'a MapSource>, len: u64) -> LocalFile<'a> {
        LocalFile { file, map, start: 0, len }
    }

    /// Returns the part `range` of the file.
    pub(super) fn slice(self, range: &Range<u64>) -> LocalFile<'a> {
        let start = self.start + range.start;
        LocalFile { start, len: range.end - range.start, ..self }
    }

    /// Returns `true` if the source is memory-mapped.
    pub fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    fn shifted(&self, range: &Range<u64>) -> Range<u64> {
        self.start.saturating_add(range.start)..self.start.saturating_add(range.end)
    }

    fn has(&self, range: &Range<u64>) -> bool {
        range.start <= range.end && range.end <= self.len
    }

    /// Reads a copy of a range, even if the file is mapped.
    ///
    /// # Errors
    /// Returns the same errors as [`ByteSource::read`](super::ByteSource::read).
    pub fn read(&self, range: Range<u64>) -> Result<Bytes> {
        use super::ByteSource as _;
        if !self.has(&range) {
            return Err(super::outside(&range, self.len));
        }
        self.file.read_range(self.shifted(&range))
    }

    /// Reads a range if that does not have to wait for the disk; otherwise returns `None`.
    pub fn read_without_waiting(&self, range: Range<u64>) -> Option<Result<Bytes>> {
        if !self.has(&range) {
            return Some(Err(super::outside(&range, self.len)));
        }
        self.file.read_without_waiting(self.shifted(&range))
    }

    /// Returns `true` if most bytes of the range would have to be read from the disk. An estimate.
    pub fn is_mostly_uncached(&self, range: Range<u64>) -> bool {
        self.file.is_mostly_uncached(self.shifted(&range))
    }

    /// Advises the system that a range will be read soon, so that it starts to read ahead.
    pub fn fetch_ahead(&self, range: Range<u64>) {
        self.file.fetch_ahead(self.shifted(&range));
    }

    /// Reads a range into the system's cache, unless it is cached already or takes more than half of the memory that is free for it:
    /// see [`ByteSource::fill_cache`](super::ByteSource::fill_cache).
    pub fn fill_cache(&self, range: Range<u64>, first: u64, is_wanted: &dyn Fn() -> bool) {
        let len = range.end.saturating_sub(range.start);
        let fits = || available_memory().is_some_and(|free| len <= free / 2);
        if !self.has(&range) || !self.is_mostly_uncached(range.clone()) || !fits() {
            return;
        }
        let first = first.clamp(range.start, range.end);
        for half in [first..range.end, range.start..first] {
            for start in half.clone().step_by(ADVICE) {
                if !is_wanted() {
                    return;
                }
                self.fetch_ahead(start..half.end.min(start + ADVICE as u64));
            }
        }
    }

    /// Maps the pages of a range that is about to be touched in one step, instead of at every touch. For a few
    /// megabytes at a time. Does nothing for a source that is not mapped.
    pub fn populate(&self, range: Range<u64>) {
        if let Some(map) = self.map
            && self.has(&range)
        {
            map.populate(self.shifted(&range));
        }
    }

    /// Maps the source privately: memory that its owner may write to, whose pages are those of the file until they are
    /// written to. Nothing is read until it is touched, and writes do not reach the file.
    ///
    /// As with [`MapSource`], touching bytes that another process has cut off ends this process with SIGBUS. Bytes that
    /// another process writes into the file appear in pages that were not yet written to.
    ///
    /// Returns `None` if the source is empty or is not mapped, or if the address space has no room for the mapping.
    ///
    /// # Errors
    /// Returns an `Io` error if the operating system cannot map it for another reason.
    pub fn map_private(&self) -> Result<Option<Buffer>> {
        let Ok(len) = usize::try_from(self.len) else { return Ok(None) };
        if self.map.is_none() || len == 0 {
            return Ok(None);
        }
        super::map::map_private(self.file, self.start, len)
    }

    /// Fills `out` by a read that bypasses the system's page cache. Returns `None` if that is not possible. `offset`,
    /// and the length and the address of `out`, must be multiples of 4096. The range may reach past the end of the
    /// source: that part of `out` is not written.
    pub fn read_direct(&self, offset: u64, out: &mut [u8]) -> Option<Result<()>> {
        // A slice of a file is usually not aligned.
        (self.start == 0).then(|| self.file.read_direct(offset, out)).flatten()
    }
}

/// Returns the number of bytes of memory that programs and caches can still use, or `None` if the system does not say.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}
