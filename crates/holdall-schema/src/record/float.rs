//! Floats of up to 16 bits: converts between codes and numbers.

use holdall_collections::DebugUnwrap;

/// The bit layout of a small float, and the meaning of its highest codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallFloat {
    /// Number of fraction bits.
    fraction: u32,
    bias: i32,
    /// The code of the largest finite number. The sign is the bit above all codes.
    largest: u32,
    /// The code of infinity, if the kind has one.
    infinity: Option<u32>,
    /// The code to write for NaN, if the kind has one.
    nan: Option<u32>,
    sign: Sign,
}

/// The position of the sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// In this bit; zero has a sign too.
    Bit(u32),
    /// In this bit; alone it means NaN, so zero has no sign.
    NotOfZero(u32),
    /// No sign: all numbers are powers of two.
    None,
}

const fn kind(
    fraction: u32,
    bias: i32,
    largest: u32,
    infinity: Option<u32>,
    nan: Option<u32>,
    sign: Sign,
) -> SmallFloat {
    SmallFloat { fraction, bias, largest, infinity, nan, sign }
}

#[rustfmt::skip]
mod kinds {
    use super::{Sign::{Bit, None as Unsigned, NotOfZero}, SmallFloat, kind};

    pub(crate) static F16: SmallFloat =
        kind(10, 15, 0x7bff, Some(0x7c00), Some(0x7e00), Bit(0x8000));
    pub(crate) static BF16: SmallFloat =
        kind(7, 127, 0x7f7f, Some(0x7f80), Some(0x7fc0), Bit(0x8000));
    pub(crate) static F8_E5M2: SmallFloat = kind(2, 15, 0x7b, Some(0x7c), Some(0x7e), Bit(0x80));
    pub(crate) static F8_E4M3: SmallFloat = kind(3, 7, 0x7e, None, Some(0x7f), Bit(0x80));
    pub(crate) static F8_E4M3FNUZ: SmallFloat = kind(3, 8, 0x7f, None, Some(0x80), NotOfZero(0x80));
    pub(crate) static F8_E5M2FNUZ: SmallFloat = kind(2, 16, 0x7f, None, Some(0x80), NotOfZero(0x80));
    pub(crate) static F8_E8M0: SmallFloat = kind(0, 127, 0xfe, None, Some(0xff), Unsigned);
    pub(crate) static F6_E2M3: SmallFloat = kind(3, 1, 0x1f, None, None, Bit(0x20));
    pub(crate) static F6_E3M2: SmallFloat = kind(2, 3, 0x1f, None, None, Bit(0x20));
    pub(crate) static F4_E2M1: SmallFloat = kind(1, 1, 0x07, None, None, Bit(0x08));
}

pub(crate) use kinds::{
    BF16, F4_E2M1, F6_E2M3, F6_E3M2, F8_E4M3, F8_E4M3FNUZ, F8_E5M2, F8_E5M2FNUZ, F8_E8M0, F16,
};

impl SmallFloat {
    /// Returns the code of the nearest number, ties to the even code. Returns `None` if the number is out of range, or
    /// the kind has no such value.
    pub(crate) fn code(self, x: f64) -> Option<u32> {
        if x.is_nan() {
            return self.nan;
        }
        let code = match x.abs() {
            infinite if infinite.is_infinite() => self.infinity?,
            size if self.sign == Sign::None => return self.power(size, x),
            size => self.nearest(size)?,
        };
        match self.sign {
            Sign::Bit(bit) if x.is_sign_negative() => Some(code | bit),
            Sign::NotOfZero(bit) if x.is_sign_negative() && code != 0 => Some(code | bit),
            _ => Some(code),
        }
    }

    /// Returns the code of a finite number that is not negative.
    fn nearest(self, size: f64) -> Option<u32> {
        let lowest = self.lowest_exponent();
        let exponent = exponent(size).max(lowest);
        // Powers of two are exact, because the exponents of all these kinds are well within those of a double.
        let step = power_of_two(exponent.saturating_sub(self.fraction.cast_signed()));
        let steps = whole((size / step).round_ties_even())?;
        // Above the lowest exponent, steps start at 2^fraction, which increments the exponent by one. If rounding
        // reaches the next power of two, its code is the next one.
        let above = exponent.saturating_sub(lowest).cast_unsigned();
        let code = above.checked_shl(self.fraction)?.checked_add(steps)?;
        (above < 512 && code <= self.largest).then_some(code)
    }

    /// Returns the code of a power of two.
    fn power(self, size: f64, x: f64) -> Option<u32> {
        // 2^-127 is a normal double.
        if x <= 0.0 {
            return None;
        }
        let low = exponent(size);
        let fraction = size / power_of_two(low.max(-1022));
        let low = low.saturating_add(self.bias);
        if low < 0 {
            return Some(0);
        }
        let is_up = fraction > 1.5 || (fraction == 1.5 && low & 1 == 1);
        let code = low.cast_unsigned().checked_add(u32::from(is_up))?;
        (code <= self.largest).then_some(code)
    }

    /// Returns the largest finite number.
    pub(crate) fn largest(self) -> f64 {
        self.number(self.largest)
    }

    /// Returns `true` if the kind has infinities.
    pub(crate) const fn has_infinities(self) -> bool {
        self.infinity.is_some()
    }

    /// Returns the number of a code.
    pub(crate) fn number(self, code: u32) -> f64 {
        let (sign, code) = match self.sign {
            Sign::None if Some(code) == self.nan => return f64::NAN,
            Sign::None => {
                return power_of_two(code.cast_signed().saturating_sub(self.bias));
            }
            Sign::NotOfZero(bit) if code == bit => return f64::NAN,
            Sign::Bit(bit) | Sign::NotOfZero(bit) => {
                (if code & bit == 0 { 1.0 } else { -1.0 }, code & !bit)
            }
        };
        if code > self.largest {
            return if Some(code) == self.infinity { sign * f64::INFINITY } else { f64::NAN };
        }
        let field = code.checked_shr(self.fraction).unwrap_or(0);
        let one = 1u32.checked_shl(self.fraction).unwrap_or(0);
        let below = code & one.saturating_sub(1);
        let (steps, field) =
            if field == 0 { (below, 1) } else { (below.saturating_add(one), field) };
        let exponent = field
            .cast_signed()
            .saturating_sub(self.bias)
            .saturating_sub(self.fraction.cast_signed());
        sign * f64::from(steps) * power_of_two(exponent)
    }

    /// Appends the shortest decimal that reads back as the number of this code; of several, the nearest.
    pub(crate) fn shortest(self, code: u32, out: &mut String) {
        let x = self.number(code);
        for digits in 0..17usize {
            let text = format!("{x:.digits$e}");
            let up = next_up(&text);
            let mut fits: Vec<&String> = Vec::with_capacity(2);
            for candidate in [Some(&text), up.as_ref()].into_iter().flatten() {
                if candidate.parse::<f64>().ok().and_then(|y| self.code(y)) == Some(code) {
                    fits.push(candidate);
                }
            }
            // The first candidate is the nearest of its length. The second is needed for powers of two, above which the
            // distance to the next number is larger than below.
            if let Some(y) = fits.first().and_then(|t| t.parse::<f64>().ok()) {
                out.push_str(zmij::Buffer::new().format_finite(y));
                return;
            }
        }
        out.push_str(zmij::Buffer::new().format_finite(x));
    }

    fn lowest_exponent(self) -> i32 {
        1i32.saturating_sub(self.bias)
    }
}

/// Returns the same decimal with its last digit incremented, away from zero.
fn next_up(text: &str) -> Option<String> {
    let (digits, exponent) = text.split_once('e')?;
    let point = digits.find('.').map_or(0, |at| digits.len().saturating_sub(at).saturating_sub(1));
    let whole: i64 = digits.replace('.', "").parse().ok()?;
    let up = whole.checked_add(whole.signum())?;
    let exponent: i64 = exponent.parse().ok()?;
    let exponent = exponent.checked_sub(i64::try_from(point).ok()?)?;
    Some(format!("{up}e{exponent}"))
}

/// Returns the exponent of a number's highest bit. For subnormal numbers, returns that of the smallest normal number.
fn exponent(size: f64) -> i32 {
    let field = (size.to_bits() >> 52) & 0x7ff;
    // The field has eleven bits.
    i32::try_from(field).debug_unwrap().max(1).saturating_sub(1023)
}

/// Returns 2^exponent, for exponents of normal doubles.
fn power_of_two(exponent: i32) -> f64 {
    let field = u64::try_from(exponent.saturating_add(1023)).debug_unwrap();
    f64::from_bits(field.min(0x7fe) << 52)
}

/// Converts a whole number from 0 to 2^32 - 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked against both ends"
)]
fn whole(x: f64) -> Option<u32> {
    (0.0..=4_294_967_295.0).contains(&x).then_some(x as u32)
}
