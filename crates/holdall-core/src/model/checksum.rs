//! Checksums of bytes that are not exactly those of one component.

use super::{Component, Digest, Encoding};
use crate::read::{Chunked, Extent};
use std::sync::Arc;

/// A checksum of bytes that several components share, or that contain a component and more: an entry of a zip, a whole
/// shard. A checksum of exactly one component's bytes is stored as the component's [digest](Component::digest) instead.
///
/// Loading and reading ranges do not compare these checksums, because they do not read all bytes that the checksum
/// covers. Verifying compares them, and so does copying a component that has no digest.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Checksum {
    /// The file's name for these bytes.
    pub name: String,
    /// The bytes that the checksum covers, and their digest.
    pub bytes: Component,
}

impl Checksum {
    /// Creates the checksum of a raw (not encoded) range of a source.
    pub fn new(name: impl Into<String>, stored: Extent, digest: Digest) -> Checksum {
        let mut bytes = Component::for_bytes(stored, Encoding::Raw, stored.len());
        bytes.digest = Some(digest);
        Checksum { name: name.into(), bytes }
    }

    /// Returns the extent that the checksum covers.
    pub fn stored(&self) -> Extent {
        self.bytes.stored
    }
}

/// An index from components to the checksums that cover them.
#[derive(Debug, Default)]
pub struct Coverage {
    /// The ranges that have a checksum, with the checksum's number, sorted by source and offset.
    ranges: Vec<(Extent, usize)>,
    /// For each range, the largest end among this range and the ones before it in the same source.
    reach: Vec<u64>,
}

impl Coverage {
    /// Builds the index. Checksums are numbered in the order in which they are given.
    pub fn new<'a>(checksums: impl IntoIterator<Item = &'a Checksum>) -> Coverage {
        let numbers = checksums.into_iter().map(Checksum::stored).zip(0..);
        let mut ranges: Vec<(Extent, usize)> = numbers.collect();
        ranges.sort_unstable();
        let mut reach: Vec<u64> = Vec::with_capacity(ranges.len());
        let mut source = None;
        for (stored, _) in &ranges {
            let before = reach.last().filter(|_| source == Some(stored.source));
            reach.push(before.map_or(stored.end, |end| stored.end.max(*end)));
            source = Some(stored.source);
        }
        Coverage { ranges, reach }
    }

    /// Returns the numbers of the checksums that cover stored bytes of this component, in ascending order. `chunked`
    /// are the file's chunked arrays, in which the chunks of a chunked component are looked up.
    pub fn numbers(&self, c: &Component, chunked: &[Arc<Chunked>]) -> Vec<usize> {
        let mut all = Vec::new();
        match c.stored.chunked() {
            _ if self.ranges.is_empty() => {}
            None => self.add(c.stored, &mut all),
            Some(number) => {
                let chunks = chunked.get(number).into_iter().flat_map(|array| array.chunks());
                chunks.for_each(|chunk| self.add(chunk.stored, &mut all));
                all.sort_unstable();
                all.dedup();
            }
        }
        all
    }

    /// Appends the numbers of the checksums that overlap `stored`.
    fn add(&self, stored: Extent, out: &mut Vec<usize>) {
        let begins_before = |(range, _): &(Extent, usize)| {
            (range.source, range.start) < (stored.source, stored.end)
        };
        let first = out.len();
        let candidates = self.ranges.partition_point(begins_before);
        for ((range, number), reach) in self.ranges.iter().zip(&self.reach).take(candidates).rev() {
            if range.source != stored.source || *reach <= stored.start {
                break;
            }
            if stored.start < range.end {
                out.push(*number);
            }
        }
        if let Some(added) = out.get_mut(first..) {
            added.sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Digest;

    /// The index finds the same checksums as a linear search.
    #[test]
    fn coverage_is_that_of_each_checksum() {
        let mut seed = 7u64;
        let mut below = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % most
        };
        for _ in 0..200 {
            let mut extent = || {
                let start = below(40);
                Extent::new(below(3) as u32, start..start + below(12))
            };
            let all: Vec<Checksum> =
                (0..9).map(|_| Checksum::new("", extent(), Digest::Crc32(0))).collect();
            let coverage = Coverage::new(&all);
            for _ in 0..9 {
                let stored = extent();
                let c = Component::for_bytes(stored, Encoding::Raw, stored.len());
                let covers = |other: Extent| {
                    stored.source == other.source
                        && stored.start < other.end
                        && other.start < stored.end
                };
                let wanted: Vec<usize> =
                    (0..all.len()).filter(|at| covers(all[*at].stored())).collect();
                assert_eq!(coverage.numbers(&c, &[]), wanted, "{stored:?} {all:?}");
            }
        }
    }
}
