//! Sums over the differences between values and those of a source.

use super::{Deviation, WorstBlock};
use holdall_core::diff::Squares;
use holdall_core::model::BlockType;

/// How far the values of a tensor may be from those of its source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    /// The relative difference of each element.
    Element(f64),
    /// The relative root mean square of the differences in each block.
    Block(f64),
}

impl Bound {
    /// One unit in the last place of an F32.
    pub(super) const LAST_PLACE: Bound = Bound::Element(1.0 / (1u32 << 23) as f64);

    /// Returns a bound that every block keeps which a quantizer has made, and that a block of other content exceeds.
    ///
    /// Blocks of `b` bits for each element have a relative error of about `2 / 2^b` for numbers of a normal distribution;
    /// the bound is four times that. Unrelated numbers of the same magnitude have an error of about 1.4.
    pub(super) fn of_blocks(of: &BlockType) -> Bound {
        let bits = of.bytes as f64 * 8.0 / of.elements as f64;
        Bound::Block((8.0 / bits.exp2()).min(0.9))
    }
}

/// Returns `true` if the blocks that Holdall writes are bit for bit those of llama.cpp and `gguf`.
pub(super) fn is_reproducible(of: &BlockType) -> bool {
    matches!(of.as_str(), "q8_0" | "q4_0" | "q4_1" | "q5_0" | "q5_1" | "mxfp4" | "tq1_0" | "tq2_0")
}

/// Sums over pairs of values: of the source, and of the converted tensor.
#[derive(Debug, Default)]
pub(super) struct Sums {
    count: u64,
    max: f64,
    /// The largest relative difference of an element.
    max_relative: f64,
    squares: Squares,
    worst: Option<(u64, f64)>,
    blocks: u64,
}

impl Sums {
    /// Adds values of the source and of the converted tensor, in blocks of `block` elements if it has blocks.
    pub(super) fn add(&mut self, source: &[f32], converted: &[f32], block: Option<u64>) {
        let len = block.unwrap_or(1 << 12) as usize;
        for (source, converted) in source.chunks(len).zip(converted.chunks(len)) {
            let mut squares = Squares::default();
            for (a, b) in source.iter().zip(converted) {
                self.element(*a, *b, &mut squares);
            }
            self.squares.add(&squares);
            self.count += source.len() as u64;
            if block.is_some() {
                let relative = squares.relative();
                if self.worst.is_none_or(|(_, most)| relative > most || relative.is_nan()) {
                    self.worst = Some((self.blocks, relative));
                }
                self.blocks += 1;
            }
        }
    }

    fn element(&mut self, a: f32, b: f32, squares: &mut Squares) {
        if a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) {
            let square = match a.is_finite() {
                true => f64::from(a) * f64::from(a),
                false => 0.0,
            };
            squares.add(&Squares::of_equal(square));
            return;
        }
        let (a, b) = (f64::from(a), f64::from(b));
        let difference = match (a - b).abs() {
            d if d.is_nan() => f64::INFINITY,
            d => d,
        };
        let relative = if difference == 0.0 { 0.0 } else { difference / a.abs() };
        self.max = self.max.max(difference);
        self.max_relative =
            self.max_relative.max(if relative.is_nan() { f64::INFINITY } else { relative });
        squares.add(&Squares {
            source: a * a,
            other: b * b,
            product: a * b,
            difference: difference * difference,
        });
    }

    pub(super) fn error(&self) -> Deviation {
        let squares = &self.squares;
        Deviation {
            max: self.max,
            rms: squares.rms(self.count),
            relative: squares.relative(),
            cosine: squares.cosine(),
        }
    }

    /// Returns the block with the largest relative error, if there are blocks and any has an error.
    pub(super) fn worst(&self, block: u64) -> Option<WorstBlock> {
        let (index, relative) = self.worst.filter(|(_, relative)| *relative != 0.0)?;
        let start = index * block;
        Some(WorstBlock { index, elements: start..start + block, relative })
    }

    pub(super) fn is_within(&self, bound: Bound) -> bool {
        match bound {
            Bound::Element(most) => self.max_relative <= most,
            Bound::Block(most) => self.worst.is_none_or(|(_, relative)| relative <= most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(source: &[f32], converted: &[f32]) -> Sums {
        let mut sums = Sums::default();
        sums.add(source, converted, Some(4));
        sums
    }

    #[test]
    fn equal_values_have_no_error() {
        let values = [1.0, -2.0, f32::NAN, f32::INFINITY];
        let sums = sums(&values, &values);
        assert_eq!(sums.error(), Deviation { max: 0.0, rms: 0.0, relative: 0.0, cosine: 1.0 });
        assert_eq!(sums.worst(4), None);
    }

    #[test]
    fn the_worst_block_is_named() {
        let mut converted = [1f32; 16];
        converted[9] = 1.5;
        let sums = sums(&[1.0; 16], &converted);
        let worst = sums.worst(4).unwrap();
        assert_eq!((worst.index, worst.elements, worst.relative), (2, 8..12, 0.25));
        assert_eq!(
            (sums.error().max, sums.error().rms, sums.error().relative),
            (0.5, 0.125, 0.125)
        );
        assert!(!sums.is_within(Bound::Block(0.2)) && sums.is_within(Bound::Block(0.25)));
    }

    #[test]
    fn numbers_that_became_infinite_or_nan_are_outside_every_bound() {
        for odd in [f32::NAN, f32::INFINITY] {
            let sums = sums(&[1.0; 4], &[1.0, odd, 1.0, 1.0]);
            assert!(!sums.is_within(Bound::Block(0.9)) && !sums.is_within(Bound::LAST_PLACE));
            assert_eq!(sums.error().max, f64::INFINITY);
        }
    }

    #[test]
    fn zeros_that_became_numbers_are_infinitely_far() {
        let sums = sums(&[0.0; 4], &[0.0, 0.0, 1e-9, 0.0]);
        assert_eq!(sums.error().relative, f64::INFINITY);
        assert!(!sums.is_within(Bound::LAST_PLACE));
    }

    #[test]
    fn negative_zero_has_no_error() {
        assert!(sums(&[0.0; 4], &[-0.0; 4]).is_within(Bound::Element(0.0)));
    }
}
