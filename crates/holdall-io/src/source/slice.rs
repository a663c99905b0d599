//! A range of another source.

use super::{ByteSource, LocalFile, ReadHints, check_range};
use bytes::Bytes;
use holdall_core::{Digest, Result, Warning};
use std::ops::Range;
use std::sync::Arc;

/// A range of another source as a separate source, such as a file inside an archive.
pub struct SliceSource {
    whole: Arc<dyn ByteSource>,
    range: Range<u64>,
    digest: Option<Digest>,
}

impl SliceSource {
    /// Creates a source of the bytes `range` of `whole`.
    ///
    /// # Errors
    /// Returns a `Malformed` error if the range is outside `whole`.
    pub fn new(whole: Arc<dyn ByteSource>, range: Range<u64>) -> Result<SliceSource> {
        check_range(&range, whole.len())?;
        Ok(SliceSource { whole, range, digest: None })
    }

    /// Sets the expected digest of the bytes.
    pub fn with_digest(mut self, digest: Option<Digest>) -> SliceSource {
        self.digest = digest;
        self
    }

    /// Converts a range of this source to the range of the whole.
    fn shifted(&self, range: &Range<u64>) -> Result<Range<u64>> {
        check_range(range, self.len())?;
        Ok(self.range.start + range.start..self.range.start + range.end)
    }
}

impl ByteSource for SliceSource {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let ranges = ranges.iter().map(|r| self.shifted(r)).collect::<Result<Vec<_>>>()?;
        self.whole.read(&ranges)
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = self.shifted(&(offset..offset.saturating_add(out.len() as u64)))?;
        self.whole.read_into(range.start, out)
    }

    fn read_hints(&self) -> ReadHints {
        self.whole.read_hints()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.whole.warnings()
    }

    fn digest(&self) -> Option<Digest> {
        self.digest.clone()
    }

    fn fill_cache(&self, range: Range<u64>, first: u64, is_wanted: &dyn Fn() -> bool) {
        if let Ok(range) = self.shifted(&range) {
            self.whole.fill_cache(range, self.range.start.saturating_add(first), is_wanted);
        }
    }

    fn local(&self) -> Option<LocalFile<'_>> {
        self.whole.local().map(|local| local.slice(&self.range))
    }
}
