//! Two sources, one after the other.

use super::{ByteSource, ReadHints, check_range};
use bytes::Bytes;
use holdall_core::{Result, Warning};
use std::ops::Range;
use std::sync::Arc;

/// The bytes of one source, followed by those of another.
pub struct JoinedSource {
    first: Arc<dyn ByteSource>,
    second: Arc<dyn ByteSource>,
}

impl JoinedSource {
    /// Creates a source of the bytes of `first`, followed by those of `second`.
    pub fn new(first: Arc<dyn ByteSource>, second: Arc<dyn ByteSource>) -> JoinedSource {
        JoinedSource { first, second }
    }

    fn read_one(&self, range: Range<u64>) -> Result<Bytes> {
        check_range(&range, self.len())?;
        let cut = self.first.len();
        if range.end <= cut {
            return self.first.read_range(range);
        }
        if range.start >= cut {
            return self.second.read_range(range.start - cut..range.end - cut);
        }
        let head = self.first.read_range(range.start..cut)?;
        let tail = self.second.read_range(0..range.end - cut)?;
        Ok([head, tail].concat().into())
    }
}

impl ByteSource for JoinedSource {
    fn len(&self) -> u64 {
        self.first.len() + self.second.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().map(|range| self.read_one(range.clone())).collect()
    }

    fn read_hints(&self) -> ReadHints {
        self.first.read_hints()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.first.warnings()
    }
}
