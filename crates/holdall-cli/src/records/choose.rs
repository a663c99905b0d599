//! Which records: a range of them, those for which something holds, some by chance.

use holdall::Result;
use std::collections::BTreeSet;
use std::ops::Range;

/// What was asked for.
pub(super) struct Chosen {
    pub(super) range: Range<u64>,
    /// How many there are.
    pub(super) count: u64,
    pub(super) sample: Option<u64>,
    pub(super) seed: u64,
}

/// Places, one after the other.
pub(super) enum Next<'h> {
    /// Those of a range for which it holds.
    Scan(Range<u64>, Option<&'h dyn Fn(u64) -> Result<bool>>),
    Some(std::collections::btree_set::IntoIter<u64>),
}

impl Chosen {
    /// Whether all records were asked for.
    pub(super) fn is_whole(&self) -> bool {
        self.range == (0..self.count) && self.sample.is_none()
    }

    /// The places, in their order. `holds` is asked for each of the range unless it is plain.
    ///
    /// # Errors
    /// `records/index` for a range outside; those of `holds`.
    pub(super) fn begin<'h>(
        &self,
        plain: bool,
        holds: &'h dyn Fn(u64) -> Result<bool>,
    ) -> Result<Next<'h>> {
        let Range { start, end } = self.range;
        if start > end || end > self.count {
            let rule = &holdall::records::rules::INDEX;
            let message = match start > end {
                true => format!("records from {start} on, of {}", self.count),
                false => format!("records {start}..{end} of {}", self.count),
            };
            return Err(rule.broken(message));
        }
        let Some(wanted) = self.sample else {
            return Ok(Next::Scan(start..end, (!plain).then_some(holds)));
        };
        let mut chance = Chance(self.seed);
        let found = if plain {
            distinct(start, end, wanted, &mut chance)
        } else {
            reservoir(start..end, wanted, &mut chance, holds)?
        };
        Ok(Next::Some(found.into_iter()))
    }
}

impl Next<'_> {
    pub(super) fn next(&mut self) -> Result<Option<u64>> {
        match self {
            Next::Some(places) => Ok(places.next()),
            Next::Scan(range, holds) => {
                for index in range {
                    match holds {
                        Some(holds) if !holds(index)? => {}
                        _ => return Ok(Some(index)),
                    }
                }
                Ok(None)
            }
        }
    }
}

/// So many different numbers of a range, all equally likely: Floyd's way, whose memory is that of the
/// answer.
fn distinct(start: u64, end: u64, wanted: u64, chance: &mut Chance) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let len = end - start;
    for last in len.saturating_sub(wanted)..len {
        let at = chance.below(last + 1);
        if !found.insert(start + at) {
            found.insert(start + last);
        }
    }
    found
}

/// So many of those for which it holds, all equally likely, in one pass.
fn reservoir(
    range: Range<u64>,
    wanted: u64,
    chance: &mut Chance,
    holds: &dyn Fn(u64) -> Result<bool>,
) -> Result<BTreeSet<u64>> {
    let mut kept: Vec<u64> = Vec::new();
    let mut seen = 0u64;
    for index in range {
        if !holds(index)? {
            continue;
        }
        seen += 1;
        if seen <= wanted {
            kept.push(index);
            continue;
        }
        let at = usize::try_from(chance.below(seen)).unwrap_or(usize::MAX);
        if let Some(slot) = kept.get_mut(at) {
            *slot = index;
        }
    }
    Ok(kept.into_iter().collect())
}

/// Numbers by chance: SplitMix64, the same ones for one seed on every machine.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0; each as likely as the others, to one in 2^64.
    fn below(&mut self, n: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(n);
        // Below n.
        (wide >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(sample: u64, seed: u64, plain: bool) -> Vec<u64> {
        let chosen = Chosen { range: 10..110, count: 200, sample: Some(sample), seed };
        let even = |n: u64| Ok(n.is_multiple_of(2));
        let mut next = chosen.begin(plain, &even).unwrap();
        std::iter::from_fn(|| next.next().unwrap()).collect()
    }

    #[test]
    fn samples_are_different_records_in_order_and_the_same_each_time() {
        for plain in [true, false] {
            let found = places(20, 7, plain);
            assert_eq!(found.len(), 20);
            assert!(found.is_sorted() && found.windows(2).all(|w| w[0] != w[1]));
            assert!(found.iter().all(|n| (10..110).contains(n) && (plain || n % 2 == 0)));
            assert_eq!(found, places(20, 7, plain));
            assert_ne!(found, places(20, 8, plain));
        }
        assert_eq!(places(1000, 1, true), (10..110).collect::<Vec<_>>());
        assert_eq!(places(1000, 1, false).len(), 50);
        assert!(places(0, 1, true).is_empty());
    }

    #[test]
    fn every_record_is_as_likely() {
        for plain in [true, false] {
            let mut counts = [0u32; 110];
            for seed in 0..2000 {
                for place in places(10, seed, plain) {
                    counts[place as usize] += 1;
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
