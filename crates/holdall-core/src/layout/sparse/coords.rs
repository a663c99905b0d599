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
        let (found, rank) = (all.len(), sizes.len());
        if Some(found) != count.checked_mul(rank) {
            let message = format!("{found} coordinates for {count} entries in {rank} dimensions");
            return Err(COUNTS.broken(message));
        }
        for (d, size) in sizes.iter().enumerate() {
            // As many as are in memory.
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

    /// Those of elements by their numbers among all of such dimensions, row by row.
    pub(super) fn of_places(sizes: &[u64], places: &[u64]) -> Coords {
        let count = places.len();
        let mut all = vec![0; count * sizes.len()];
        for (number, &place) in places.iter().enumerate() {
            let mut rest = place;
            for (d, size) in sizes.iter().enumerate().rev() {
                all[d * count + number] = rest % size;
                rest /= size;
            }
        }
        Coords { sizes: sizes.to_vec(), all: Indices::owned(all), count }
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
    pub(super) fn along(&self, dimension: usize) -> &[u64] {
        let start = dimension.checked_mul(self.count);
        let range = start.and_then(|start| Some(start..start.checked_add(self.count)?));
        range.and_then(|range| self.all.as_slice().get(range)).unwrap_or_default()
    }

    /// The number of each entry's place among all of them, row by row.
    pub(super) fn places(&self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |number| {
            // It cannot wrap where the size of the whole was found to fit.
            (0..).zip(&self.sizes).fold(0u64, |place, (d, size)| {
                place.wrapping_mul(*size).wrapping_add(self.at(d, number))
            })
        })
    }

    /// That of an entry in one dimension; 0 for others.
    pub(super) fn at(&self, dimension: usize, number: usize) -> u64 {
        self.all.get(dimension * self.count + number).unwrap_or(0)
    }
}
