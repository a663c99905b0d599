//! Elements as places in the order of the numbers that they encode, and the distances between them.

/// An unsigned integer with the bits of an element.
pub(super) trait Word: Copy + Eq {
    /// The number of bytes.
    const WIDTH: usize;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, out: &mut [u8]);
    /// Returns byte `k`.
    fn byte(self, k: usize) -> u8;
    /// Sets byte `k` of a word in which it is 0.
    fn with_byte(self, k: usize, byte: u8) -> Self;
    /// Returns the place of a float with these bits: negative ones in descending order, then the others.
    fn rank(self) -> Self;
    /// Returns the bits of the float in this place.
    fn unrank(self) -> Self;
    /// Returns the distance from `from` to `self`, small if they are near each other, minus 1.
    fn distance(self, from: Self) -> Self;
    /// Returns the word in `distance` from `self`.
    fn moved(self, distance: Self) -> Self;
}

macro_rules! words {
    ($($word:ident $signed:ident),*) => { $(
        impl Word for $word {
            const WIDTH: usize = size_of::<$word>();

            fn read(bytes: &[u8]) -> $word {
                let mut own = [0; size_of::<$word>()];
                own.iter_mut().zip(bytes).for_each(|(own, byte)| *own = *byte);
                $word::from_le_bytes(own)
            }

            fn write(self, out: &mut [u8]) {
                out.iter_mut().zip(self.to_le_bytes()).for_each(|(out, byte)| *out = byte);
            }

            fn byte(self, k: usize) -> u8 {
                self.to_le_bytes().get(k).copied().unwrap_or_default()
            }

            fn with_byte(self, k: usize, byte: u8) -> $word {
                let mut bytes = self.to_le_bytes();
                if let Some(own) = bytes.get_mut(k) {
                    *own = byte;
                }
                $word::from_le_bytes(bytes)
            }

            fn rank(self) -> $word {
                const TOP: $word = 1 << ($word::BITS - 1);
                if self & TOP == 0 { self | TOP } else { !self }
            }

            fn unrank(self) -> $word {
                const TOP: $word = 1 << ($word::BITS - 1);
                if self & TOP == 0 { !self } else { self & !TOP }
            }

            fn distance(self, from: $word) -> $word {
                let d = self.wrapping_sub(from);
                let sign = (d as $signed >> ($word::BITS - 1)) as $word;
                (d.wrapping_shl(1) ^ sign).wrapping_sub(1)
            }

            fn moved(self, distance: $word) -> $word {
                let z = distance.wrapping_add(1);
                self.wrapping_add((z >> 1) ^ (z & 1).wrapping_neg())
            }
        }
    )* };
}

words!(u8 i8, u16 i16, u32 i32, u64 i64);

#[cfg(test)]
mod tests {
    use super::Word;

    #[test]
    fn ranks_and_distances_come_back() {
        for a in 0..=u8::MAX {
            assert_eq!(a.rank().unrank(), a);
            for b in (0..=u8::MAX).filter(|b| *b != a) {
                let distance = b.distance(a);
                assert_ne!(distance, u8::MAX, "the largest number is not used");
                assert_eq!(a.moved(distance), b);
            }
        }
        for a in 0..=u16::MAX {
            assert_eq!(a.rank().unrank(), a);
        }
    }

    #[test]
    fn ranks_have_the_order_of_floats() {
        let mut all = [-1e30f32, -2.0, -1.5, -1e-40, -0.0, 0.0, 1e-40, 1.0, 7.5, f32::INFINITY];
        all.reverse();
        let mut ranks: Vec<u32> = all.iter().map(|x| x.to_bits().rank()).collect();
        ranks.reverse();
        assert!(ranks.is_sorted());
        // -0 and 0 are neighbours.
        assert_eq!(0f32.to_bits().rank().wrapping_sub((-0f32).to_bits().rank()), 1);
    }
}
