//! Reproducible pseudo-random numbers.

/// SplitMix64: 64 bits of state, for which every seed is equally good.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Returns the sequence for a target, seed and number.
    pub(crate) fn new(name: &str, seed: u64, number: u64) -> Random {
        let mut random = Random(seed);
        for part in name.bytes().map(u64::from).chain([number]) {
            random.0 = random.next() ^ part;
        }
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Returns a number below `count`, or 0 if `count` is 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.next() % (count as u64).max(1)) as usize
    }

    /// Returns one of the items.
    pub(crate) fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Returns a length of up to `most`; small ones are more frequent.
    pub(crate) fn len(&mut self, most: usize) -> usize {
        let bits = self.below(usize::BITS as usize - most.leading_zeros() as usize + 1);
        self.below(1 << bits).min(most)
    }
}
