//! Runs of a blob by their indices, read in groups.

use super::Blob;
use super::at::{HEAP, PendingIndices, RECORDS, ensure_arrived};
use bytes::Bytes;
use holdall_core::Result;
use holdall_schema::Entry;

/// The runs at a list of indices: see [`Blob::at`].
pub struct RunsAt<'b> {
    blob: &'b Blob,
    indices: PendingIndices,
}

impl Blob {
    /// Returns the runs at these indices, in this order. Runs that are neither mapped nor in memory are read in groups,
    /// with as few requests as possible: first the entries of at most 4,096 runs, then their bytes, up to 16 MiB at a
    /// time.
    pub fn at(&self, indices: Vec<u64>) -> RunsAt<'_> {
        RunsAt { blob: self, indices: PendingIndices::new(indices) }
    }
}

impl Blob {
    /// Reads the bytes for the next runs and returns for how many it did.
    fn prefetch(&self, next: &[u64]) -> Result<usize> {
        let inner = &*self.0;
        if next.len() as u64 == self.len() {
            self.compare()?;
        }
        let next = &next[..next.len().min(RECORDS)];
        let there = next.iter().filter(|index| **index < inner.runs.count);
        let entry = |index: &u64| {
            let start = index * Entry::LEN as u64;
            start..start + Entry::LEN as u64
        };
        ensure_arrived(inner.entries.prefetch(there.map(entry).collect()), self.tensor())?;
        let (mut wanted, mut len, mut count) = (Vec::new(), 0u64, next.len());
        for (at, index) in next.iter().enumerate() {
            // An invalid entry fails when its run is used.
            let Some(range) = self.range(*index).ok().filter(|range| !range.is_empty()) else {
                continue;
            };
            len = len.saturating_add(range.end - range.start);
            if len > HEAP {
                // The rest is read later. A single run that needs more than this is read when it is used.
                count = at.max(1);
                break;
            }
            wanted.push(range);
        }
        ensure_arrived(inner.heap.prefetch(wanted), self.tensor())?;
        Ok(count)
    }
}

impl Iterator for RunsAt<'_> {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        let next = self.indices.next(|next| self.blob.prefetch(next));
        next.map(|index| self.blob.bytes(index?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.indices.len(), Some(self.indices.len()))
    }
}

impl std::fmt::Debug for RunsAt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunsAt").field("left", &self.indices.len()).finish_non_exhaustive()
    }
}
