//! Conversion of every dtype and logical type to `f32` or `f64`, in chunks and without allocation.
//!
//! Small floats are looked up in tables of 256, 64 or 16 entries, which are computed at compile time from their bit
//! fields: OCP 8-bit floats (OFP8), OCP microscaling formats (MX), and the `fnuz` formats of "8-bit Numerical Formats
//! for Deep Neural Networks" (one zero, one NaN at 0x80, a bias that is higher by one).

use super::{BOOL_BYTE, LENGTH, NOT_A_NUMBER, UNKNOWN_TYPE};
use crate::error::{Escape as _, Result};
use crate::model::{DType, LogicalType};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// The maximum number of elements per chunk.
const CHUNK: usize = 1024;

/// The meaning of the bit patterns at the top of the range.
#[derive(Clone, Copy)]
pub(super) enum Top {
    /// Ordinary numbers.
    Numbers,
    /// All exponent bits set: infinity if the mantissa is 0, otherwise NaN.
    Ieee,
    /// Only the pattern with all bits below the sign set is NaN.
    OneNan,
    /// Negative zero is the only NaN.
    NegativeZeroNan,
}

/// The fields of a float: a sign bit, then the exponent, then the mantissa.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    pub(super) exponent_bits: u32,
    pub(super) mantissa_bits: u32,
    pub(super) bias: i32,
    pub(super) top: Top,
}

impl Fields {
    pub(super) const E4M3FN: Fields = Fields::new(4, 3, 7, Top::OneNan);
    pub(super) const E5M2: Fields = Fields::new(5, 2, 15, Top::Ieee);
    pub(super) const E4M3FNUZ: Fields = Fields::new(4, 3, 8, Top::NegativeZeroNan);
    pub(super) const E5M2FNUZ: Fields = Fields::new(5, 2, 16, Top::NegativeZeroNan);
    const E2M3: Fields = Fields::new(2, 3, 1, Top::Numbers);
    const E3M2: Fields = Fields::new(3, 2, 3, Top::Numbers);
    const E2M1: Fields = Fields::new(2, 1, 1, Top::Numbers);

    pub(super) const fn new(exponent_bits: u32, mantissa_bits: u32, bias: i32, top: Top) -> Fields {
        Fields { exponent_bits, mantissa_bits, bias, top }
    }
}

static E4M3FN: [f32; 256] = table(Fields::E4M3FN);
static E5M2: [f32; 256] = table(Fields::E5M2);
static E4M3FNUZ: [f32; 256] = table(Fields::E4M3FNUZ);
static E5M2FNUZ: [f32; 256] = table(Fields::E5M2FNUZ);
static E2M3: [f32; 64] = table(Fields::E2M3);
static E3M2: [f32; 64] = table(Fields::E3M2);
static E2M1: [f32; 16] = table(Fields::E2M1);
static E8M0: [f32; 256] = powers_of_two();

/// Computes every value of a small float.
const fn table<const N: usize>(f: Fields) -> [f32; N] {
    let mut out = [0.0; N];
    let mut code = 0;
    while code < N {
        out[code] = value(code as u32, f);
        code += 1;
    }
    out
}

const fn value(code: u32, f: Fields) -> f32 {
    let mantissa_mask = (1 << f.mantissa_bits) - 1;
    let exponent_mask = (1 << f.exponent_bits) - 1;
    let mantissa = code & mantissa_mask;
    let exponent = (code >> f.mantissa_bits) & exponent_mask;
    let sign = code >> (f.mantissa_bits + f.exponent_bits);
    let is_top = exponent == exponent_mask;
    let (is_nan, is_infinite) = match f.top {
        Top::Numbers => (false, false),
        Top::Ieee => (is_top && mantissa != 0, is_top && mantissa == 0),
        Top::OneNan => (is_top && mantissa == mantissa_mask, false),
        Top::NegativeZeroNan => (sign == 1 && exponent == 0 && mantissa == 0, false),
    };
    let magnitude = if is_nan {
        0x7fc0_0000
    } else if is_infinite {
        0x7f80_0000
    } else if exponent == 0 && mantissa == 0 {
        0
    } else {
        // All of these are normal in f32: a subnormal's leading 1 is shifted to its implied position.
        let (mut significand, mut power) = (mantissa, 1 - f.bias);
        if exponent == 0 {
            while significand <= mantissa_mask {
                significand <<= 1;
                power -= 1;
            }
        } else {
            power = exponent as i32 - f.bias;
        }
        let fraction = (significand & mantissa_mask) << (23 - f.mantissa_bits);
        ((power + 127) as u32) << 23 | fraction
    };
    f32::from_bits(sign << 31 | magnitude)
}

/// Computes 2^(code - 127), and NaN at 255. The first value is subnormal in `f32`.
const fn powers_of_two() -> [f32; 256] {
    let mut out = [f32::NAN; 256];
    out[0] = f32::from_bits(1 << 22);
    let mut code = 1;
    while code < 255 {
        out[code] = f32::from_bits((code as u32) << 23);
        code += 1;
    }
    out
}

/// Converts the elements of `bytes` to `f32` and passes them to `sink`, in order, up to 1024 at a time. Numbers that
/// `f32` cannot represent are rounded to nearest.
///
/// # Errors
/// Returns [`NOT_A_NUMBER`] for complex types, [`UNKNOWN_TYPE`] for unknown types, [`LENGTH`] if `bytes` is not a whole
/// number of elements, and [`BOOL_BYTE`] if a bool is neither 0 nor 1.
pub fn decode_f32(
    dtype: DType,
    logical: Option<&LogicalType>,
    bytes: &[u8],
    mut sink: impl FnMut(&[f32]),
) -> Result<()> {
    let mut buffer = [0f32; CHUNK];
    match small_float(logical)? {
        Some(Small::Byte(table)) => {
            for chunk in bytes.chunks(CHUNK) {
                fill(&mut buffer, chunk, |b| table[usize::from(*b)], &mut sink);
            }
            return Ok(());
        }
        Some(Small::Nibbles(table)) => {
            for chunk in bytes.chunks(CHUNK / 2) {
                for (b, out) in chunk.iter().zip(buffer.as_chunks_mut::<2>().0) {
                    *out = [table[usize::from(b & 15)], table[usize::from(b >> 4)]];
                }
                sink(&buffer[..chunk.len() * 2]);
            }
            return Ok(());
        }
        Some(Small::SixBits(table)) => {
            let triples = whole::<3>(bytes, "groups of 4 elements in 3 bytes")?;
            for chunk in triples.chunks(CHUNK / 4) {
                for (&[a, b, c], out) in chunk.iter().zip(buffer.as_chunks_mut::<4>().0) {
                    out[0] = table[usize::from(a & 63)];
                    out[1] = table[usize::from(a >> 6 | (b & 15) << 2)];
                    out[2] = table[usize::from(b >> 4 | (c & 3) << 4)];
                    out[3] = table[usize::from(c >> 2)];
                }
                sink(&buffer[..chunk.len() * 4]);
            }
            return Ok(());
        }
        None => {}
    }
    macro_rules! plain {
        ($convert:expr) => {
            for chunk in whole(bytes, dtype.as_str())?.chunks(CHUNK) {
                fill(&mut buffer, chunk, $convert, &mut sink);
            }
        };
    }
    match dtype {
        DType::F64 => plain!(|b: &[u8; 8]| f64::from_le_bytes(*b) as f32),
        DType::F32 => plain!(|b: &[u8; 4]| f32::from_le_bytes(*b)),
        DType::F16 => {
            // Converted a slice at a time, because processors may have an instruction for it.
            let mut halves = [f16::ZERO; CHUNK];
            for chunk in whole(bytes, "f16")?.chunks(CHUNK) {
                for (b, half) in chunk.iter().zip(&mut halves) {
                    *half = f16::from_le_bytes(*b);
                }
                halves[..chunk.len()].convert_to_f32_slice(&mut buffer[..chunk.len()]);
                sink(&buffer[..chunk.len()]);
            }
        }
        DType::Bf16 => plain!(|b: &[u8; 2]| bf16::from_le_bytes(*b).to_f32()),
        DType::I64 => plain!(|b: &[u8; 8]| i64::from_le_bytes(*b) as f32),
        DType::I32 => plain!(|b: &[u8; 4]| i32::from_le_bytes(*b) as f32),
        DType::I16 => plain!(|b: &[u8; 2]| f32::from(i16::from_le_bytes(*b))),
        DType::I8 => plain!(|b: &[u8; 1]| f32::from(i8::from_le_bytes(*b))),
        DType::U64 => plain!(|b: &[u8; 8]| u64::from_le_bytes(*b) as f32),
        DType::U32 => plain!(|b: &[u8; 4]| u32::from_le_bytes(*b) as f32),
        DType::U16 => plain!(|b: &[u8; 2]| f32::from(u16::from_le_bytes(*b))),
        DType::U8 => plain!(|b: &[u8; 1]| f32::from(b[0])),
        DType::Bool => {
            check_bools(bytes)?;
            plain!(|b: &[u8; 1]| f32::from(b[0]));
        }
    }
    Ok(())
}

/// Converts the elements of `bytes` to `f64`, like [`decode_f32`]; only 64-bit integers may be rounded.
///
/// # Errors
/// Returns the errors of [`decode_f32`].
pub fn decode_f64(
    dtype: DType,
    logical: Option<&LogicalType>,
    bytes: &[u8],
    mut sink: impl FnMut(&[f64]),
) -> Result<()> {
    let mut buffer = [0f64; CHUNK];
    macro_rules! plain {
        ($convert:expr) => {{
            for chunk in whole(bytes, dtype.as_str())?.chunks(CHUNK) {
                fill(&mut buffer, chunk, $convert, &mut sink);
            }
            Ok(())
        }};
    }
    if small_float(logical)?.is_none() {
        match dtype {
            DType::F64 => return plain!(|b: &[u8; 8]| f64::from_le_bytes(*b)),
            DType::I64 => return plain!(|b: &[u8; 8]| i64::from_le_bytes(*b) as f64),
            DType::U64 => return plain!(|b: &[u8; 8]| u64::from_le_bytes(*b) as f64),
            DType::I32 => return plain!(|b: &[u8; 4]| f64::from(i32::from_le_bytes(*b))),
            DType::U32 => return plain!(|b: &[u8; 4]| f64::from(u32::from_le_bytes(*b))),
            _ => {}
        }
    }
    // All others fit in an f32 exactly.
    decode_f32(dtype, logical, bytes, |chunk| {
        for (x, out) in chunk.iter().zip(&mut buffer) {
            *out = f64::from(*x);
        }
        sink(&buffer[..chunk.len()]);
    })
}

/// Converts the elements of `bytes` to `f32` and stores them in `out`; see [`decode_f32`].
///
/// # Errors
/// Returns the errors of [`decode_f32`], and [`LENGTH`] if `out` does not have exactly the length of the elements.
pub fn into_f32(
    dtype: DType,
    logical: Option<&LogicalType>,
    bytes: &[u8],
    out: &mut [f32],
) -> Result<()> {
    let given = out.len();
    let mut filled = 0;
    decode_f32(dtype, logical, bytes, |chunk| {
        if let Some(to) = out.get_mut(filled..filled + chunk.len()) {
            to.copy_from_slice(chunk);
        }
        filled += chunk.len();
    })?;
    if filled != given {
        return Err(LENGTH.broken(format!("expected a slice of {filled} elements, found {given}")));
    }
    Ok(())
}

/// Checks that every byte is 0 or 1.
///
/// # Errors
/// Returns [`BOOL_BYTE`] with the index of the first other byte.
pub fn check_bools(bytes: &[u8]) -> Result<()> {
    // Checks a whole block at once: the bitwise or of its bytes exceeds 1 if one of them does.
    let bad = |block: &[u8]| block.iter().fold(0, |all, b| all | b) > 1;
    for (number, block) in bytes.chunks(4096).enumerate() {
        if bad(block) {
            let at = block.iter().position(|b| *b > 1).unwrap_or_default();
            let message = format!(
                "element {} is the byte {}, expected 0 or 1",
                number * 4096 + at,
                block[at]
            );
            return Err(BOOL_BYTE.broken(message));
        }
    }
    Ok(())
}

/// The lookup table of a small float.
enum Small {
    Byte(&'static [f32; 256]),
    SixBits(&'static [f32; 64]),
    Nibbles(&'static [f32; 16]),
}

fn small_float(logical: Option<&LogicalType>) -> Result<Option<Small>> {
    Ok(Some(match logical {
        Some(LogicalType::F8E4M3Fn) => Small::Byte(&E4M3FN),
        Some(LogicalType::F8E5M2) => Small::Byte(&E5M2),
        Some(LogicalType::F8E4M3FnUz) => Small::Byte(&E4M3FNUZ),
        Some(LogicalType::F8E5M2FnUz) => Small::Byte(&E5M2FNUZ),
        Some(LogicalType::F8E8M0) => Small::Byte(&E8M0),
        Some(LogicalType::F6E2M3) => Small::SixBits(&E2M3),
        Some(LogicalType::F6E3M2) => Small::SixBits(&E3M2),
        Some(LogicalType::F4E2M1) => Small::Nibbles(&E2M1),
        Some(t @ (LogicalType::Complex32 | LogicalType::Complex64 | LogicalType::Complex128)) => {
            return Err(
                NOT_A_NUMBER.broken(format!("elements of {t} have a real and an imaginary part"))
            );
        }
        // The stored bytes may be codes, parts or bits of anything.
        Some(LogicalType::Other(name)) => {
            return Err(UNKNOWN_TYPE.broken(format!("unknown logical type `{}`", name.escaped())));
        }
        None => return Ok(None),
    }))
}

/// Converts up to [`CHUNK`] elements and passes them to `sink`.
fn fill<S, T>(
    buffer: &mut [T; CHUNK],
    chunk: &[S],
    convert: impl Fn(&S) -> T,
    sink: &mut impl FnMut(&[T]),
) {
    for (from, to) in chunk.iter().zip(buffer.iter_mut()) {
        *to = convert(from);
    }
    sink(&buffer[..chunk.len()]);
}

/// Returns `bytes` as whole elements of `N` bytes.
fn whole<'a, const N: usize>(bytes: &'a [u8], type_name: &str) -> Result<&'a [[u8; N]]> {
    let (elements, rest) = bytes.as_chunks::<N>();
    if !rest.is_empty() {
        let message =
            format!("{} bytes are not a multiple of the width of {type_name}", bytes.len());
        return Err(LENGTH.broken(message));
    }
    Ok(elements)
}
