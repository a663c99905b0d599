//! A source of bytes in memory.

use super::{ByteSource, ReadHints, check_range};
use bytes::Bytes;
use holdall_core::Result;
use std::ops::Range;

/// A source of bytes that are already in memory.
#[derive(Debug, Clone)]
pub struct MemorySource(Bytes);

impl MemorySource {
    /// Creates a source of these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> MemorySource {
        MemorySource(bytes.into())
    }
}

impl ByteSource for MemorySource {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().map(|r| slice(&self.0, r)).collect()
    }

    fn read_hints(&self) -> ReadHints {
        ReadHints::MEMORY
    }
}

/// Returns a slice of `whole` without copying it.
pub(super) fn slice(whole: &Bytes, range: &Range<u64>) -> Result<Bytes> {
    check_range(range, whole.len() as u64)?;
    Ok(whole.slice(range.start as usize..range.end as usize))
}
