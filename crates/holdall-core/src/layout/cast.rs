//! Rounding numbers to another float type: to nearest, ties to even, in a single step.
//!
//! An `f64` represents every number of all float types here exactly, so numbers are rounded from `f64` directly. An
//! intermediate `f32` would round twice.

use super::float::{Fields, Top, decode_f64};
use crate::error::Result;
use crate::model::{DType, LogicalType};
use holdall_collections::DebugUnwrap;
use std::fmt;

/// A float type that elements can be rounded to. All of these types take whole bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // The variants are their own names.
pub enum FloatType {
    F64,
    F32,
    F16,
    Bf16,
    F8E4M3Fn,
    F8E5M2,
    F8E4M3FnUz,
    F8E5M2FnUz,
}

/// The result of a cast for a number beyond the largest one of the target type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Infinity, or NaN if the type has no infinities.
    #[default]
    Infinite,
    /// The largest finite number of the same sign. Infinities stay infinite if the type has them.
    Saturate,
}

impl FloatType {
    /// All types, widest first.
    pub const ALL: [FloatType; 8] = [
        FloatType::F64,
        FloatType::F32,
        FloatType::F16,
        FloatType::Bf16,
        FloatType::F8E4M3Fn,
        FloatType::F8E5M2,
        FloatType::F8E4M3FnUz,
        FloatType::F8E5M2FnUz,
    ];

    /// Returns the storage type of the elements.
    pub const fn dtype(self) -> DType {
        match self {
            FloatType::F64 => DType::F64,
            FloatType::F32 => DType::F32,
            FloatType::F16 => DType::F16,
            FloatType::Bf16 => DType::Bf16,
            _ => DType::U8,
        }
    }

    /// Returns the meaning of the elements beyond their storage type.
    pub const fn logical_type(self) -> Option<LogicalType> {
        match self {
            FloatType::F8E4M3Fn => Some(LogicalType::F8E4M3Fn),
            FloatType::F8E5M2 => Some(LogicalType::F8E5M2),
            FloatType::F8E4M3FnUz => Some(LogicalType::F8E4M3FnUz),
            FloatType::F8E5M2FnUz => Some(LogicalType::F8E5M2FnUz),
            _ => None,
        }
    }

    /// Returns the float type of such elements, or `None` for other types, including complex ones and floats below 8
    /// bits.
    pub fn from_dtype(dtype: DType, logical: Option<&LogicalType>) -> Option<FloatType> {
        let same = |t: &FloatType| t.dtype() == dtype && t.logical_type().as_ref() == logical;
        FloatType::ALL.into_iter().find(same)
    }

    /// Returns the name that Holdall uses everywhere: `f32`, `bf16`, `f8_e4m3fn`.
    pub const fn as_str(self) -> &'static str {
        match self {
            FloatType::F8E4M3Fn => "f8_e4m3fn",
            FloatType::F8E5M2 => "f8_e5m2",
            FloatType::F8E4M3FnUz => "f8_e4m3fnuz",
            FloatType::F8E5M2FnUz => "f8_e5m2fnuz",
            plain => plain.dtype().as_str(),
        }
    }

    /// Returns the type with this name.
    pub fn from_name(name: &str) -> Option<FloatType> {
        FloatType::ALL.into_iter().find(|t| t.as_str() == name)
    }

    /// Returns `true` if the type has infinities.
    pub const fn has_infinities(self) -> bool {
        !matches!(self, FloatType::F8E4M3Fn | FloatType::F8E4M3FnUz | FloatType::F8E5M2FnUz)
    }
}

impl fmt::Display for FloatType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Rounds `values` to nearest, ties to even, and appends them to `out` as little-endian elements. NaN becomes the quiet
/// NaN of its sign. Negative zero becomes zero if the type has no negative zero.
///
/// Returns the number of overflows: finite numbers beyond the largest of the type, and infinities if the type has none.
pub fn round_f64(values: &[f64], to: FloatType, overflow: Overflow, out: &mut Vec<u8>) -> u64 {
    match to {
        FloatType::F64 => {
            out.reserve(values.len() * 8);
            for &x in values {
                let x = if x.is_nan() { f64::NAN.copysign(x) } else { x };
                out.extend_from_slice(&x.to_le_bytes());
            }
            0
        }
        FloatType::F32 => single(values, overflow, out),
        FloatType::F16 => narrow::<2>(values, Fields::new(5, 10, 15, Top::Ieee), overflow, out),
        FloatType::Bf16 => narrow::<2>(values, Fields::new(8, 7, 127, Top::Ieee), overflow, out),
        FloatType::F8E4M3Fn => narrow::<1>(values, Fields::E4M3FN, overflow, out),
        FloatType::F8E5M2 => narrow::<1>(values, Fields::E5M2, overflow, out),
        FloatType::F8E4M3FnUz => narrow::<1>(values, Fields::E4M3FNUZ, overflow, out),
        FloatType::F8E5M2FnUz => narrow::<1>(values, Fields::E5M2FNUZ, overflow, out),
    }
}

fn single(values: &[f64], overflow: Overflow, out: &mut Vec<u8>) -> u64 {
    out.reserve(values.len() * 4);
    let mut lost = 0;
    for &x in values {
        let mut rounded = x as f32;
        if x.is_nan() {
            rounded = f32::NAN.copysign(if x.is_sign_negative() { -1.0 } else { 1.0 });
        } else if rounded.is_infinite() && x.is_finite() {
            lost += 1;
            if overflow == Overflow::Saturate {
                rounded = f32::MAX.copysign(rounded);
            }
        }
        out.extend_from_slice(&rounded.to_le_bytes());
    }
    lost
}

/// Rounds to `N` bytes per element, for types narrower than `f32`. Specialised for each type.
#[inline(always)]
fn narrow<const N: usize>(values: &[f64], f: Fields, overflow: Overflow, out: &mut Vec<u8>) -> u64 {
    let (m, e) = (f.mantissa_bits, f.exponent_bits);
    let sign_bit = 1u64 << (m + e);
    let (all, top) = (sign_bit - 1, ((1u64 << e) - 1) << m);
    // Codes of magnitudes, without the sign.
    let (largest, beyond, nan) = match f.top {
        Top::Numbers => (all, all, all),
        Top::Ieee => (top - 1, top, top | 1 << (m - 1)),
        Top::OneNan => (all - 1, all, all),
        Top::NegativeZeroNan => (all, sign_bit, sign_bit),
    };
    let saturated = if overflow == Overflow::Saturate { largest } else { beyond };
    let has_infinities = matches!(f.top, Top::Ieee);
    let has_negative_zero = !matches!(f.top, Top::NegativeZeroNan);
    let shift = 52 - m;
    // The smallest normal number, and a number whose last bit has the value of a subnormal's last bit.
    let least = ((1024 - f.bias) as u64) << 52;
    let magic = ((1023 + 52 + 1 - f.bias - m as i32) as u64) << 52;
    let rebase = ((1023 - f.bias) as u64) << 52;
    let mut lost = 0u64;
    let start = out.len();
    out.resize(start + values.len() * N, 0);
    let slots = out.get_mut(start..).debug_unwrap().as_chunks_mut::<N>().0;
    for (&x, slot) in values.iter().zip(slots) {
        let bits = x.to_bits();
        let (magnitude, negative) = (bits & INFINITY_AND_NAN, bits >> 63);
        // Adds half of the last place that is kept, or slightly less if that place is even. A carry increments the
        // exponent, as it should.
        let based = magnitude.wrapping_sub(rebase);
        let odd = based >> shift & 1;
        let normal = based.wrapping_add((1 << (shift - 1)) - 1 + odd) >> shift;
        // The sum of doubles is rounded at that last bit, to nearest, ties to even.
        let sum = f64::from_bits(magnitude) + f64::from_bits(magic);
        let subnormal = sum.to_bits().wrapping_sub(magic);
        let rounded = if magnitude >= least { normal } else { subnormal };
        let (is_nan, is_infinite) = (magnitude > INFINITY, magnitude == INFINITY);
        let is_beyond = rounded > largest && !is_nan;
        let is_lost = is_beyond && !(has_infinities && is_infinite);
        lost += u64::from(is_lost);
        let code = match (is_nan, is_lost, is_beyond) {
            (true, ..) => nan,
            (_, true, _) => saturated,
            (_, _, true) => beyond,
            _ => rounded,
        };
        let signed = negative == 1 && (has_negative_zero || (code != 0 && code != sign_bit));
        let code = if signed { code | sign_bit } else { code };
        if let Some((to, _)) = code.to_le_bytes().split_first_chunk::<N>() {
            *slot = *to;
        }
    }
    lost
}

const INFINITY: u64 = 0x7ff << 52;
const INFINITY_AND_NAN: u64 = u64::MAX >> 1;

/// Rounds elements to another type. The elements arrive as bytes, in pieces of any length.
#[derive(Debug, Clone)]
pub struct Caster {
    dtype: DType,
    logical_type: Option<LogicalType>,
    to: FloatType,
    overflow: Overflow,
    /// Bytes of the smallest run of whole elements.
    unit: usize,
    /// The number of elements that are still to come.
    left: u64,
    /// The start of an incomplete element.
    begun: Vec<u8>,
    overflowed: u64,
}

impl Caster {
    /// Creates a caster for `count` elements.
    pub fn new(
        dtype: DType,
        logical_type: Option<LogicalType>,
        count: u64,
        to: FloatType,
        overflow: Overflow,
    ) -> Caster {
        let unit = match logical_type {
            Some(LogicalType::F6E2M3 | LogicalType::F6E3M2) => 3,
            _ => dtype.width() as usize,
        };
        let (begun, overflowed) = (Vec::new(), 0);
        Caster { dtype, logical_type, to, overflow, unit, left: count, begun, overflowed }
    }

    /// Rounds the next bytes and appends the result to `out`.
    ///
    /// # Errors
    /// Returns the errors of [`decode_f64`], if elements are not numbers.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if !self.begun.is_empty() {
            let missing = self.unit.saturating_sub(self.begun.len()).min(bytes.len());
            let (head, tail) = bytes.split_at(missing);
            self.begun.extend_from_slice(head);
            bytes = tail;
            if self.begun.len() < self.unit {
                return Ok(());
            }
            let whole = std::mem::take(&mut self.begun);
            self.whole(&whole, out)?;
        }
        let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % self.unit);
        self.begun.extend_from_slice(rest);
        self.whole(whole, out)
    }

    /// Appends the remaining elements to `out`, after all bytes were pushed. Returns the number of overflows.
    ///
    /// # Errors
    /// Returns the errors of [`Caster::push`], and [`LENGTH`](super::LENGTH) if the last element is incomplete.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<u64> {
        if self.unit == 3 && !self.begun.is_empty() {
            self.begun.resize(self.unit, 0);
        }
        let last = std::mem::take(&mut self.begun);
        self.whole(&last, out)?;
        Ok(self.overflowed)
    }

    fn whole(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let Caster { to, overflow, left, overflowed, .. } = self;
        decode_f64(self.dtype, self.logical_type.as_ref(), bytes, |values| {
            // The last byte of sub-byte elements may have unused bits.
            let count = usize::try_from(*left).unwrap_or(usize::MAX).min(values.len());
            let values = values.get(..count).unwrap_or(values);
            *left -= count as u64;
            *overflowed += round_f64(values, *to, *overflow, out);
        })
    }
}
