//! Decides which kinds of number represent all values of which others (8.2).

use crate::kinds::Scalar;

/// The values that a kind of number represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Range {
    /// Whole numbers with this many bits, not negative.
    Unsigned(u32),
    /// Whole numbers with this many bits, one of them for the sign.
    Signed(u32),
    /// Floats with this many bits of exponent and of fraction.
    Float(u32, u32),
    /// Pairs of such floats.
    Complex(u32, u32),
}

const fn range(scalar: Scalar) -> Option<Range> {
    Some(match scalar {
        Scalar::Int8 => Range::Signed(8),
        Scalar::Int16 => Range::Signed(16),
        Scalar::Int32 => Range::Signed(32),
        Scalar::Int64 => Range::Signed(64),
        Scalar::Uint8 => Range::Unsigned(8),
        Scalar::Uint16 => Range::Unsigned(16),
        Scalar::Uint32 => Range::Unsigned(32),
        Scalar::Uint64 => Range::Unsigned(64),
        Scalar::Float16 => Range::Float(5, 10),
        Scalar::Float32 => Range::Float(8, 23),
        Scalar::Float64 => Range::Float(11, 52),
        Scalar::BFloat16 => Range::Float(8, 7),
        Scalar::Float8E4M3 => Range::Float(4, 3),
        Scalar::Float8E5M2 => Range::Float(5, 2),
        Scalar::Complex64 => Range::Complex(8, 23),
        Scalar::Complex128 => Range::Complex(11, 52),
        Scalar::Boolean | Scalar::Timestamp => return None,
    })
}

/// Returns `true` if both are numbers, so that a conversion between them is at worst narrowing.
pub(crate) const fn are_numbers(a: Scalar, b: Scalar) -> bool {
    range(a).is_some() && range(b).is_some()
}

/// Returns `true` if every value of `from` is a value of `to`, and the kinds differ.
pub(crate) fn is_widening(from: Scalar, to: Scalar) -> bool {
    let (Some(from), Some(to)) = (range(from), range(to)) else { return false };
    match (from, to) {
        (Range::Unsigned(a), Range::Unsigned(b) | Range::Signed(b))
        | (Range::Signed(a), Range::Signed(b)) => a < b,
        (Range::Signed(_), Range::Unsigned(_)) => false,
        // Floats with enough bits of fraction always have enough exponents.
        (Range::Unsigned(a), Range::Float(_, fraction)) => a <= fraction.saturating_add(1),
        // The lowest number has one bit more, but is a power of two.
        (Range::Signed(a), Range::Float(_, fraction)) => a <= fraction.saturating_add(2),
        (Range::Float(a, c), Range::Float(b, d)) | (Range::Complex(a, c), Range::Complex(b, d)) => {
            a <= b && c <= d && (a, c) != (b, d)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Scalar, is_widening};

    #[test]
    fn pairs_are_those_of_the_specification() {
        use Scalar::*;
        let wider: [(Scalar, &[Scalar]); 16] = [
            (Int8, &[Int16, Int32, Int64, Float16, Float32, Float64, BFloat16]),
            (Int16, &[Int32, Int64, Float32, Float64]),
            (Int32, &[Int64, Float64]),
            (Int64, &[]),
            (
                Uint8,
                &[Int16, Int32, Int64, Uint16, Uint32, Uint64, Float16, Float32, Float64, BFloat16],
            ),
            (Uint16, &[Int32, Int64, Uint32, Uint64, Float32, Float64]),
            (Uint32, &[Int64, Uint64, Float64]),
            (Uint64, &[]),
            (Float16, &[Float32, Float64]),
            (BFloat16, &[Float32, Float64]),
            (Float32, &[Float64]),
            (Float8E4M3, &[Float16, Float32, Float64, BFloat16]),
            (Float8E5M2, &[Float16, Float32, Float64, BFloat16]),
            (Complex64, &[Complex128]),
            (Boolean, &[]),
            (Timestamp, &[]),
        ];
        for (from, all) in wider {
            for to in Scalar::ALL {
                assert_eq!(is_widening(from, to), all.contains(&to), "{from:?} to {to:?}");
            }
        }
    }
}
