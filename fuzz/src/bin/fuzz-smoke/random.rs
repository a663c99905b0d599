//! Numbers that look like chance and are always the same.

/// SplitMix64: 64 bits of state, every seed as good as another.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a target, seed and number.
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

    /// A number below `count`; 0 where there is none.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.next() % (count as u64).max(1)) as usize
    }

    /// One of them.
    pub(crate) fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A length of up to `most`, small ones more often.
    pub(crate) fn len(&mut self, most: usize) -> usize {
        let bits = self.below(usize::BITS as usize - most.leading_zeros() as usize + 1);
        self.below(1 << bits).min(most)
    }
}
