//! Runs of a blob by their places, read together.

use super::at::{HEAP, RECORDS};
use super::{Blob, placed};
use bytes::Bytes;
use holdall_core::{ErrorKind, Result};
use holdall_schema::Entry;

/// Runs at some places: see [`Blob::at`].
pub struct RunsAt<'b> {
    blob: &'b Blob,
    places: std::vec::IntoIter<u64>,
    /// Of how many of the next runs what is needed was read.
    near: usize,
}

impl Blob {
    /// The runs at these places, in this order. Those that are not at hand are read together, in as few reads as their source likes:
    /// first where they lie, of at most 4,096, then their bytes, up to 16 MiB at a time.
    pub fn at(&self, places: Vec<u64>) -> RunsAt<'_> {
        RunsAt { blob: self, places: places.into_iter(), near: 0 }
    }
}

impl RunsAt<'_> {
    /// Reads what the next runs need: of how many.
    fn bring(&self) -> Result<usize> {
        let inner = &*self.blob.0;
        let next = self.places.as_slice();
        let next = &next[..next.len().min(RECORDS)];
        let there = next.iter().filter(|place| **place < inner.runs.count);
        let entry = |place: &u64| {
            let start = place * Entry::LEN as u64;
            start..start + Entry::LEN as u64
        };
        self.came(inner.entries.bring(there.map(entry).collect()))?;
        let (mut wanted, mut len, mut count) = (Vec::new(), 0u64, next.len());
        for (at, place) in next.iter().enumerate() {
            // What is wrong with it is told when it is used.
            let Some(range) = self.blob.range(*place).ok().filter(|range| !range.is_empty()) else {
                continue;
            };
            len = len.saturating_add(range.end - range.start);
            if len > HEAP {
                // They come later; what is that much by itself, when it is asked for.
                count = at.max(1);
                break;
            }
            wanted.push(range);
        }
        self.came(inner.heap.bring(wanted))?;
        Ok(count)
    }

    /// What is wrong with single bytes is told with the run that they are of.
    fn came(&self, done: Result<()>) -> Result<()> {
        match done {
            Err(e) if e.kind() == ErrorKind::Io => Err(placed(e, self.blob.tensor())),
            _ => Ok(()),
        }
    }
}

impl Iterator for RunsAt<'_> {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        if self.near == 0 && !self.places.as_slice().is_empty() {
            match self.bring() {
                Ok(count) => self.near = count,
                Err(e) => {
                    self.places = Vec::new().into_iter();
                    return Some(Err(e));
                }
            }
        }
        self.near = self.near.saturating_sub(1);
        self.places.next().map(|place| self.blob.bytes(place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl std::fmt::Debug for RunsAt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunsAt").field("left", &self.places.len()).finish_non_exhaustive()
    }
}
