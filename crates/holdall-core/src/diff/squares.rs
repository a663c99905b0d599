//! Sums of squares of values and of their differences, in `f64`.

use crate::error::Result;
use crate::layout::number::ElementType;
use crate::model::DType;

/// Sums over pairs of finite values: of a source, and of another tensor.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Squares {
    /// The sum of the squares of the source's values.
    pub source: f64,
    /// The sum of the squares of the other values.
    pub other: f64,
    /// The sum of the products of both values; of complex values, its real part.
    pub product: f64,
    /// The sum of the squares of the differences.
    pub difference: f64,
}

impl Squares {
    /// Returns the sums for equal values, given the sum of their squares.
    pub fn of_equal(squares: f64) -> Squares {
        Squares { source: squares, other: squares, product: squares, difference: 0.0 }
    }

    /// Adds the sums over other pairs.
    pub fn add(&mut self, more: &Squares) {
        self.source += more.source;
        self.other += more.other;
        self.product += more.product;
        self.difference += more.difference;
    }

    /// Returns the root of the mean square of the differences of `count` pairs.
    pub fn rms(&self, count: u64) -> f64 {
        (self.difference / count.max(1) as f64).sqrt()
    }

    /// Returns the root of the mean square of the differences, divided by that of the source's values: infinite if all of
    /// these are 0 and others are not.
    pub fn relative(&self) -> f64 {
        match self.difference == 0.0 {
            true => 0.0,
            false => (self.difference / self.source).sqrt(),
        }
    }

    /// Returns the cosine of the angle between both sides as vectors: 1 if they are equal, 0 if one is all zeros.
    pub fn cosine(&self) -> f64 {
        let lengths = self.source.sqrt() * self.other.sqrt();
        match (self.difference == 0.0, lengths == 0.0) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            (false, false) => (self.product / lengths).clamp(-1.0, 1.0),
        }
    }

    /// Returns `true` if no sum exceeds the range of an `f64`.
    pub fn is_finite(&self) -> bool {
        let Squares { source, other, product, difference } = self;
        [source, other, product, difference].iter().all(|sum| sum.is_finite())
    }
}

/// The number of values that are added side by side, for vector instructions.
const LANES: usize = 8;

/// Returns the sum of the squares of the finite values in `bytes`; 0 if the type is unknown.
///
/// # Errors
/// Returns the errors of [`ElementType::each_f64`], except that a byte greater than 1 is accepted as a `bool`.
pub fn sum_of_squares(element_type: &ElementType, bytes: &[u8]) -> Result<f64> {
    if !element_type.is_known() {
        return Ok(0.0);
    }
    let as_numbers = match element_type.dtype {
        DType::Bool => &ElementType::new(DType::U8, None),
        _ => element_type,
    };
    let mut total = 0.0;
    as_numbers.each_f64(bytes, |values| {
        let (groups, rest) = values.as_chunks::<LANES>();
        let mut lanes = [0.0; LANES];
        for group in groups {
            for (lane, x) in lanes.iter_mut().zip(group) {
                *lane += x * x;
            }
        }
        let sum = lanes.iter().sum::<f64>() + rest.iter().map(|x| x * x).sum::<f64>();
        total += match sum.is_finite() {
            true => sum,
            false => values.iter().filter(|x| x.is_finite()).map(|x| x * x).sum(),
        };
    })?;
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_values_are_summed() {
        let f32s = ElementType::new(DType::F32, None);
        let values = [1.0f32, f32::NAN, -2.0, f32::INFINITY, 3.0, 0.5, 0.0, -0.0, 1.0, 2.0];
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(sum_of_squares(&f32s, &bytes).unwrap(), 19.25);
        assert_eq!(
            sum_of_squares(&ElementType::new(DType::Bool, None), &[1, 0, 2, 1]).unwrap(),
            6.0
        );
    }

    #[test]
    fn zeros_have_no_direction() {
        let zero = Squares::default();
        assert_eq!((zero.relative(), zero.cosine(), zero.rms(0)), (0.0, 1.0, 0.0));
        let from_zero = Squares { other: 4.0, difference: 4.0, ..zero };
        assert_eq!((from_zero.relative(), from_zero.cosine()), (f64::INFINITY, 0.0));
        assert_eq!(from_zero.rms(4), 1.0);
        let to_zero = Squares { source: 4.0, difference: 4.0, ..zero };
        assert_eq!((to_zero.relative(), to_zero.cosine()), (1.0, 0.0));
        let turned = Squares { source: 4.0, other: 4.0, product: -4.0, difference: 16.0 };
        assert_eq!((turned.relative(), turned.cosine()), (2.0, -1.0));
    }
}
