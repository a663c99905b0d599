//! Elements of any dtype as numbers.

use super::float::decode_f64;
use crate::error::Result;
use crate::model::{DType, LogicalType};
use half::f16;
use std::fmt;

/// One element, or something computed from elements, without loss.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Number {
    /// Of an integer dtype or `bool`.
    Integer(i128),
    /// Of a float type.
    Float(f64),
    /// Of a complex type: real and imaginary part.
    Complex(f64, f64),
}

impl Number {
    /// The number as f64, rounded if it must be; of a complex one the magnitude.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Integer(i) => i as f64,
            Number::Float(x) => x,
            Number::Complex(re, im) => re.hypot(im),
        }
    }
}

/// `3`, `0.25`, `nan`, `inf`, `1+2i`.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(i) => f.pad(&i.to_string()),
            Number::Float(x) => f.pad(&float(*x)),
            Number::Complex(re, im) => {
                let sign = if im.is_sign_negative() && !im.is_nan() { "" } else { "+" };
                f.pad(&format!("{}{sign}{}i", float(*re), float(*im)))
            }
        }
    }
}

/// Lower-case, with a point or an exponent where it is finite, so that it cannot be taken for an
/// integer.
fn float(x: f64) -> String {
    if x.is_nan() { "nan".to_owned() } else { format!("{x:?}") }
}

/// What the elements of a component are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ElementType {
    /// Storage element type.
    pub dtype: DType,
    /// Meaning beyond storage.
    pub logical_type: Option<LogicalType>,
}

/// `f32`, `f8_e4m3fn`, `u8 (q7_x)` where the logical type is not known.
impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.logical_type {
            None => f.pad(self.dtype.as_str()),
            Some(LogicalType::Other(name)) => {
                f.pad(&format!("{} ({})", self.dtype, name.escape_debug()))
            }
            Some(t) => f.pad(t.as_str()),
        }
    }
}

/// How numbers of a type are best held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberClass {
    /// Integers that fit an f64, and `bool`.
    Integer,
    /// 64-bit integers.
    Wide,
    /// A real number with a fraction.
    Float,
    /// Two real numbers.
    Complex,
}

impl ElementType {
    /// Elements stored as `dtype`, with a meaning beyond it or without.
    pub fn new(dtype: DType, logical_type: Option<LogicalType>) -> ElementType {
        ElementType { dtype, logical_type }
    }

    /// Of an unknown logical type, how its storage elements are held.
    pub fn class(&self) -> NumberClass {
        match (&self.logical_type, self.dtype) {
            (Some(t), _) if t.is_complex() => NumberClass::Complex,
            (Some(t), _) if t.bits().is_some() => NumberClass::Float,
            (_, DType::F64 | DType::F32 | DType::F16 | DType::Bf16) => NumberClass::Float,
            (_, DType::I64 | DType::U64) => NumberClass::Wide,
            _ => NumberClass::Integer,
        }
    }

    /// Bits of one element; of an unknown logical type, those of a storage element.
    pub fn bits(&self) -> u64 {
        let known = self.logical_type.as_ref().and_then(LogicalType::bits);
        known.unwrap_or(self.dtype.width() * 8)
    }

    /// Whether shape and length say the same about such elements.
    pub fn is_known(&self) -> bool {
        !matches!(self.logical_type, Some(LogicalType::Other(_)))
    }

    /// What the elements are stored as, where their logical type is not known; else what they are.
    pub fn as_stored(&self) -> ElementType {
        let logical = if self.is_known() { self.logical_type.clone() } else { None };
        ElementType::new(self.dtype, logical)
    }

    /// Whether it is an integer type or `bool`, each element of which is held without loss as i128.
    pub fn is_integer(&self) -> bool {
        matches!(self.class(), NumberClass::Integer | NumberClass::Wide)
    }

    /// Bytes of `elements` elements: of a multiple of 4 of them, or of all there are. `u64::MAX` where they do not fit.
    pub fn len_of(&self, elements: u64) -> u64 {
        let len = u128::from(elements) * u128::from(self.bits()) / 8;
        u64::try_from(len).unwrap_or(u64::MAX)
    }

    /// Hands the elements of `bytes` to `sink` as f64, up to 1024 at a time. Integers of 64 bits may be
    /// rounded; complex ones become their magnitude.
    ///
    /// # Errors
    /// Unsupported for an unknown logical type; `bool` bytes above 1.
    pub fn each_f64(&self, bytes: &[u8], mut sink: impl FnMut(&[f64])) -> Result<()> {
        if self.class() != NumberClass::Complex {
            return decode_f64(self.dtype, self.logical_type.as_ref(), bytes, sink);
        }
        let mut out = Vec::new();
        for bytes in bytes.chunks(1024 * (self.bits() / 8) as usize) {
            out.clear();
            self.each_complex(bytes, |re, im| out.push(re.hypot(im)));
            sink(&out);
        }
        Ok(())
    }

    /// The elements of `bytes` as f64, in place of what `out` held. See [`ElementType::each_f64`].
    ///
    /// # Errors
    /// As [`ElementType::each_f64`].
    pub fn read_f64(&self, bytes: &[u8], out: &mut Vec<f64>) -> Result<()> {
        out.clear();
        self.each_f64(bytes, |chunk| out.extend_from_slice(chunk))
    }

    /// The elements as pairs of parts, in place of what `out` held; the imaginary part of a real
    /// number is 0.
    ///
    /// # Errors
    /// As [`ElementType::each_f64`].
    pub fn read_complex(&self, bytes: &[u8], out: &mut Vec<[f64; 2]>) -> Result<()> {
        out.clear();
        if self.class() == NumberClass::Complex {
            self.each_complex(bytes, |re, im| out.push([re, im]));
            return Ok(());
        }
        let logical = self.logical_type.as_ref();
        let push = |chunk: &[f64]| out.extend(chunk.iter().map(|&x| [x, 0.0]));
        decode_f64(self.dtype, logical, bytes, push)
    }

    fn each_complex(&self, bytes: &[u8], mut each: impl FnMut(f64, f64)) {
        match self.dtype {
            DType::F64 => {
                for part in bytes.as_chunks::<8>().0.as_chunks::<2>().0 {
                    let [re, im] = part.map(f64::from_le_bytes);
                    each(re, im);
                }
            }
            DType::F16 => {
                for part in bytes.as_chunks::<2>().0.as_chunks::<2>().0 {
                    let [re, im] = part.map(f16::from_le_bytes).map(f64::from);
                    each(re, im);
                }
            }
            _ => {
                for part in bytes.as_chunks::<4>().0.as_chunks::<2>().0 {
                    let [re, im] = part.map(f32::from_le_bytes).map(f64::from);
                    each(re, im);
                }
            }
        }
    }

    /// The elements of an [integer type](ElementType::is_integer), in place of what `out` held.
    ///
    /// # Errors
    /// As [`ElementType::each_f64`].
    pub fn read_i128(&self, bytes: &[u8], out: &mut Vec<i128>) -> Result<()> {
        out.clear();
        match self.dtype {
            DType::I64 => {
                let all = bytes.as_chunks::<8>().0.iter();
                out.extend(all.map(|b| i128::from(i64::from_le_bytes(*b))));
                Ok(())
            }
            DType::U64 => {
                let all = bytes.as_chunks::<8>().0.iter();
                out.extend(all.map(|b| i128::from(u64::from_le_bytes(*b))));
                Ok(())
            }
            // All others fit an f64 exactly.
            dtype => decode_f64(dtype, None, bytes, |chunk| {
                out.extend(chunk.iter().map(|&x| x as i128));
            }),
        }
    }
}
