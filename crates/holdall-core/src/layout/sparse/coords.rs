//! The coordinates of entries, checked.

use super::{COUNTS, INDEX_BOUNDS, Indices};
use crate::error::Result;

/// A coordinate in each of some dimensions for every entry: all those of the first dimension, then all of the second, and so on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Coords {
    /// The sizes of those dimensions.
    sizes: Vec<u64>,
    all: Indices,
    count: usize,
}

impl Coords {
    /// Those of `count` entries.
    ///
    /// # Errors
    /// [`COUNTS`], [`INDEX_BOUNDS`].
    pub(super) fn new(sizes: &[u64], all: Indices, count: usize) -> Result<Coords> {
        let (found, rank) = (all.as_slice().len(), sizes.len());
        if Some(found) != count.checked_mul(rank) {
            let message = format!("{found} coordinates for {count} entries in {rank} dimensions");
            return Err(COUNTS.broken(message));
        }
        let coords = Coords { sizes: sizes.to_vec(), all, count };
        for (d, size) in sizes.iter().enumerate() {
            let own = coords.of(d);
            if let Some((number, at)) = own.iter().enumerate().find(|(_, at)| *at >= size) {
                let message =
                    format!("coordinate {at} of entry {number} in dimension {d}, of size {size}");
                return Err(INDEX_BOUNDS.broken(message));
            }
        }
        Ok(coords)
    }

    /// The sizes of the dimensions that have coordinates.
    pub(super) fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// As they are stored.
    pub(super) fn indices(&self) -> &Indices {
        &self.all
    }

    /// Entries.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Those of all entries in one dimension.
    pub(super) fn of(&self, dimension: usize) -> &[u64] {
        let start = dimension.checked_mul(self.count);
        let range = start.and_then(|start| Some(start..start.checked_add(self.count)?));
        range.and_then(|range| self.all.as_slice().get(range)).unwrap_or_default()
    }

    /// The number of each entry's place among all of them, row by row.
    pub(super) fn places(&self) -> impl Iterator<Item = u64> {
        let dims: Vec<(u64, &[u64])> =
            self.sizes.iter().enumerate().map(|(d, &size)| (size, self.of(d))).collect();
        (0..self.count).map(move |number| {
            // It cannot wrap where the size of the whole was found to fit.
            dims.iter().fold(0u64, |at, (size, coords)| {
                at.wrapping_mul(*size).wrapping_add(coords[number])
            })
        })
    }
}
