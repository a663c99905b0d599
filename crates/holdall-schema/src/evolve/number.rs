//! Converts numbers to wider kinds (8.2).

use crate::kinds::Scalar;
use crate::record::float::{self, SmallFloat};
use crate::record::number::le;

/// The bits that every NaN becomes (8.4).
const NAN_32: u32 = 0x7fc0_0000;
const NAN_64: u64 = 0x7ff8_0000_0000_0000;

/// Converts a number to a kind that represents all values of its own. Both have the size of their kind.
#[inline]
pub(super) fn widen(from: Scalar, bytes: &[u8], to: Scalar, out: &mut [u8]) {
    match (from, to) {
        (Scalar::Complex64, Scalar::Complex128) => {
            for (part, slot) in bytes.chunks_exact(4).zip(out.chunks_exact_mut(8)) {
                put(slot, double(f64::from(f32::from_le_bytes(le(part)))).to_le_bytes());
            }
        }
        _ => match to {
            Scalar::Float64 => put(out, double(float_of(from, bytes)).to_le_bytes()),
            Scalar::Float32 => put(out, single(float_of(from, bytes)).to_le_bytes()),
            Scalar::Float16 => put(out, small(float::F16, float_of(from, bytes))),
            Scalar::BFloat16 => put(out, small(float::BF16, float_of(from, bytes))),
            _ => {
                for (slot, byte) in out.iter_mut().zip(integer(from, bytes).to_le_bytes()) {
                    *slot = byte;
                }
            }
        },
    }
}

/// Returns the integer in 64 bits, of which wider kinds take the lowest bytes.
#[inline]
fn integer(from: Scalar, bytes: &[u8]) -> u64 {
    match from {
        Scalar::Int8 => i64::from(i8::from_le_bytes(le(bytes))).cast_unsigned(),
        Scalar::Int16 => i64::from(i16::from_le_bytes(le(bytes))).cast_unsigned(),
        Scalar::Int32 => i64::from(i32::from_le_bytes(le(bytes))).cast_unsigned(),
        Scalar::Uint8 => u8::from_le_bytes(le(bytes)).into(),
        Scalar::Uint16 => u16::from_le_bytes(le(bytes)).into(),
        Scalar::Uint32 => u32::from_le_bytes(le(bytes)).into(),
        _ => u64::from_le_bytes(le(bytes)),
    }
}

/// Returns the number as a double, which represents all values of the kinds that widen.
#[inline]
pub(super) fn float_of(from: Scalar, bytes: &[u8]) -> f64 {
    match from {
        Scalar::Int8 => i8::from_le_bytes(le(bytes)).into(),
        Scalar::Int16 => i16::from_le_bytes(le(bytes)).into(),
        Scalar::Int32 => i32::from_le_bytes(le(bytes)).into(),
        Scalar::Uint8 => u8::from_le_bytes(le(bytes)).into(),
        Scalar::Uint16 => u16::from_le_bytes(le(bytes)).into(),
        Scalar::Uint32 => u32::from_le_bytes(le(bytes)).into(),
        Scalar::Float16 => float::F16.number(u16::from_le_bytes(le(bytes)).into()),
        Scalar::BFloat16 => float::BF16.number(u16::from_le_bytes(le(bytes)).into()),
        Scalar::Float8E4M3 => float::F8_E4M3.number(u8::from_le_bytes(le(bytes)).into()),
        Scalar::Float8E5M2 => float::F8_E5M2.number(u8::from_le_bytes(le(bytes)).into()),
        Scalar::Float32 => f32::from_le_bytes(le(bytes)).into(),
        _ => f64::from_le_bytes(le(bytes)),
    }
}

pub(super) fn double(x: f64) -> f64 {
    if x.is_nan() { f64::from_bits(NAN_64) } else { x }
}

#[expect(clippy::cast_possible_truncation, reason = "rounded to the nearest, if it is not one")]
pub(super) fn single(x: f64) -> f32 {
    if x.is_nan() { f32::from_bits(NAN_32) } else { x as f32 }
}

/// Returns the two bytes of a number as a small float.
fn small(kind: SmallFloat, x: f64) -> [u8; 2] {
    let [low, high, ..] = kind.code(x).unwrap_or(0).to_le_bytes();
    [low, high]
}

#[inline]
fn put<const N: usize>(out: &mut [u8], bytes: [u8; N]) {
    if let Some(slot) = out.first_chunk_mut() {
        *slot = bytes;
    }
}
