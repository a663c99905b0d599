//! Checked coordinates of entries.

use super::{COUNTS, INDEX_BOUNDS, Indices};
use crate::error::Result;

/// The coordinates of entries in some dimensions: all of the first dimension, then all of the second, and so on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Coords {
    /// The sizes of these dimensions.
    sizes: Vec<u64>,
    all: Indices,
    count: usize,
}

impl Coords {
    /// Checks the coordinates of `count` entries.
    ///
    /// # Errors
    /// Returns [`COUNTS`] if their number does not match, and [`INDEX_BOUNDS`] if one is outside its dimension.
    pub(super) fn new(sizes: &[u64], all: Indices, count: usize) -> Result<Coords> {
        let (found, rank) = (all.len(), sizes.len());
        if Some(found) != count.checked_mul(rank) {
            let message = format!("{found} coordinates for {count} entries in {rank} dimensions");
            return Err(COUNTS.broken(message));
        }
        for (d, size) in sizes.iter().enumerate() {
            // Counts of coordinates in memory, so nothing overflows.
            let own = d * count..(d + 1) * count;
            if let Some((at, index)) = all.outside(own.clone(), *size) {
                let number = at - own.start;
                let message = format!(
                    "coordinate {index} of entry {number} in dimension {d}, of size {size}"
                );
                return Err(INDEX_BOUNDS.broken(message));
            }
        }
        Ok(Coords { sizes: sizes.to_vec(), all, count })
    }

    /// Creates coordinates from row-major indices in these dimensions.
    pub(super) fn from_flat_indices(sizes: &[u64], flat_indices: &[u64]) -> Coords {
        let count = flat_indices.len();
        let mut all = vec![0; count * sizes.len()];
        for (number, &flat_index) in flat_indices.iter().enumerate() {
            let mut rest = flat_index;
            for (d, size) in sizes.iter().enumerate().rev() {
                all[d * count + number] = rest % size;
                rest /= size;
            }
        }
        Coords { sizes: sizes.to_vec(), all: Indices::owned(all), count }
    }

    /// Returns the sizes of the dimensions that have coordinates.
    pub(super) fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Returns the stored coordinates.
    pub(super) fn indices(&self) -> &Indices {
        &self.all
    }

    /// Returns the number of entries.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the coordinates of all entries in one dimension.
    pub(super) fn along(&self, dimension: usize) -> &[u64] {
        let start = dimension.checked_mul(self.count);
        let range = start.and_then(|start| Some(start..start.checked_add(self.count)?));
        range.and_then(|range| self.all.as_slice().get(range)).unwrap_or_default()
    }

    /// Returns the row-major index of each entry.
    pub(super) fn flat_indices(&self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |number| {
            // Does not wrap if the number of elements was found to fit.
            (0..).zip(&self.sizes).fold(0u64, |flat_index, (d, size)| {
                flat_index.wrapping_mul(*size).wrapping_add(self.at(d, number))
            })
        })
    }

    /// Returns the coordinate of an entry in one dimension, or 0 if it is out of range.
    pub(super) fn at(&self, dimension: usize, number: usize) -> u64 {
        self.all.get(dimension * self.count + number).unwrap_or(0)
    }
}
