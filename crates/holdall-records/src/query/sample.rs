//! Random samples.

use holdall_core::Result;
use std::collections::BTreeSet;
use std::ops::Range;

/// The size of a random sample and the seed of its random numbers. The same `seed` chooses the same items on every
/// machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The largest number of items.
    pub count: u64,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Sample {
    /// Returns up to `count` different numbers of a range in ascending order, all equally likely. Uses Floyd's
    /// algorithm, which needs memory only for the result.
    pub fn draw(self, range: Range<u64>) -> Vec<u64> {
        let mut chance = Chance(self.seed);
        let mut found = BTreeSet::new();
        let len = range.end.saturating_sub(range.start);
        for last in len.saturating_sub(self.count)..len {
            let at = chance.below(last + 1);
            if !found.insert(range.start + at) {
                found.insert(range.start + last);
            }
        }
        found.into_iter().collect()
    }

    /// Returns up to `count` of these numbers, which must be in ascending order, all equally likely. A query with
    /// conditions chooses from the indices that fit in the same way.
    pub fn among(self, indices: impl IntoIterator<Item = u64>) -> Vec<u64> {
        // The items are all `Ok`, so this cannot fail.
        self.choose(indices.into_iter().map(Ok)).unwrap_or_default()
    }

    /// Returns up to `count` of these numbers, all equally likely, in one pass.
    pub(super) fn choose(self, indices: impl Iterator<Item = Result<u64>>) -> Result<Vec<u64>> {
        let mut chance = Chance(self.seed);
        let mut kept: Vec<u64> = Vec::new();
        let mut seen = 0u64;
        for index in indices {
            let index = index?;
            seen += 1;
            if seen <= self.count {
                kept.push(index);
                continue;
            }
            let at = usize::try_from(chance.below(seen)).unwrap_or(usize::MAX);
            if let Some(slot) = kept.get_mut(at) {
                *slot = index;
            }
        }
        kept.sort_unstable();
        Ok(kept)
    }
}

/// A pseudorandom number generator: SplitMix64, which returns the same numbers for a seed on every machine.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which is not 0. The numbers are equally likely to within one in 2^64.
    fn below(&mut self, n: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(n);
        // The result is below `n`.
        (wide >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(count: u64, seed: u64, plain: bool) -> Vec<u64> {
        let sample = Sample { count, seed };
        match plain {
            true => sample.draw(10..110),
            false => sample.among((10..110).step_by(2)),
        }
    }

    #[test]
    fn samples_are_distinct_sorted_and_reproducible() {
        for plain in [true, false] {
            let found = indices(20, 7, plain);
            assert_eq!(found.len(), 20);
            assert!(found.is_sorted() && found.windows(2).all(|w| w[0] != w[1]));
            assert!(found.iter().all(|n| (10..110).contains(n) && (plain || n % 2 == 0)));
            assert_eq!(found, indices(20, 7, plain));
            assert_ne!(found, indices(20, 8, plain));
        }
        assert_eq!(indices(1000, 1, true), (10..110).collect::<Vec<_>>());
        assert_eq!(indices(1000, 1, false).len(), 50);
        assert!(indices(0, 1, true).is_empty());
    }

    #[test]
    fn every_index_is_equally_likely() {
        for plain in [true, false] {
            let mut counts = [0u32; 110];
            for seed in 0..2000 {
                for index in indices(10, seed, plain) {
                    counts[index as usize] += 1;
                }
            }
            let step = if plain { 1 } else { 2 };
            let mean = 2000.0 * 10.0 / (100.0 / f64::from(step));
            for count in counts[10..].iter().step_by(step as usize) {
                assert!((f64::from(*count) - mean).abs() < mean / 2.0, "{count} of {mean}");
            }
        }
    }
}
