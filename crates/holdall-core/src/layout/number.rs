//! Elements of any dtype as numbers.

use super::float::decode_f64;
use crate::error::Result;
use crate::model::{DType, LogicalType};
use half::f16;
use std::fmt;

/// An element, or a number computed from elements, without loss.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Number {
    /// An element of an integer dtype or `bool`.
    Integer(i128),
    /// An element of a float type.
    Float(f64),
    /// An element of a complex type: real and imaginary part.
    Complex(f64, f64),
}

impl Number {
    /// Converts the number to `f64`, rounded if necessary. A complex number becomes its magnitude.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Integer(i) => i as f64,
            Number::Float(x) => x,
            Number::Complex(re, im) => re.hypot(im),
        }
    }
}

/// Writes `3`, `0.25`, `nan`, `inf`, `1+2i`.
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

/// Formats a float in lower case. Finite floats have a point or an exponent, so that they cannot be mistaken for
/// integers.
fn float(x: f64) -> String {
    if x.is_nan() { "nan".to_owned() } else { format!("{x:?}") }
}

/// The type of a component's elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ElementType {
    /// The storage element type.
    pub dtype: DType,
    /// The meaning of the elements beyond their storage type.
    pub logical_type: Option<LogicalType>,
}

/// Writes `f32`, `f8_e4m3fn`, or `u8 (q7_x)` if the logical type is unknown.
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

/// The best representation for numbers of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberClass {
    /// Integers that fit in an f64, and `bool`.
    Integer,
    /// 64-bit integers.
    Wide,
    /// Real numbers with a fraction.
    Float,
    /// Pairs of real numbers.
    Complex,
}

impl ElementType {
    /// Creates the type of elements stored as `dtype`, with an optional logical type.
    pub fn new(dtype: DType, logical_type: Option<LogicalType>) -> ElementType {
        ElementType { dtype, logical_type }
    }

    /// Returns the best representation for the elements; for an unknown logical type, that of its storage elements.
    pub fn class(&self) -> NumberClass {
        match (&self.logical_type, self.dtype) {
            (Some(t), _) if t.is_complex() => NumberClass::Complex,
            (Some(t), _) if t.bits().is_some() => NumberClass::Float,
            (_, DType::F64 | DType::F32 | DType::F16 | DType::Bf16) => NumberClass::Float,
            (_, DType::I64 | DType::U64) => NumberClass::Wide,
            _ => NumberClass::Integer,
        }
    }

    /// Returns the bits of one element; for an unknown logical type, those of a storage element.
    pub fn bits(&self) -> u64 {
        let known = self.logical_type.as_ref().and_then(LogicalType::bits);
        known.unwrap_or(self.dtype.width() * 8)
    }

    /// Returns `true` if the logical type is known, so that shape and length determine each other.
    pub fn is_known(&self) -> bool {
        !matches!(self.logical_type, Some(LogicalType::Other(_)))
    }

    /// Returns the storage type if the logical type is unknown, and otherwise the type itself.
    pub fn as_stored(&self) -> ElementType {
        let logical = if self.is_known() { self.logical_type.clone() } else { None };
        ElementType::new(self.dtype, logical)
    }

    /// Returns `true` if the type is an integer type or `bool`, whose elements fit in an i128.
    pub fn is_integer(&self) -> bool {
        matches!(self.class(), NumberClass::Integer | NumberClass::Wide)
    }

    /// Returns the bytes of `elements` elements, which must be a multiple of 4 or all elements of a tensor. Returns
    /// `u64::MAX` on overflow.
    pub fn len_of(&self, elements: u64) -> u64 {
        let len = u128::from(elements) * u128::from(self.bits()) / 8;
        u64::try_from(len).unwrap_or(u64::MAX)
    }

    /// Converts the elements of `bytes` to f64 and passes them to `sink`, up to 1024 at a time. 64-bit integers may be
    /// rounded; complex numbers become their magnitude.
    ///
    /// # Errors
    /// Returns an error of kind `Unsupported` for an unknown logical type, and an error if a `bool` byte is greater
    /// than 1.
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

    /// Converts the elements of `bytes` to f64, and replaces the contents of `out` with them. See
    /// [`ElementType::each_f64`].
    ///
    /// # Errors
    /// Returns the errors of [`ElementType::each_f64`].
    pub fn read_f64(&self, bytes: &[u8], out: &mut Vec<f64>) -> Result<()> {
        out.clear();
        self.each_f64(bytes, |chunk| out.extend_from_slice(chunk))
    }

    /// Converts the elements to pairs of real and imaginary part, and replaces the contents of `out` with them. The
    /// imaginary part of a real number is 0.
    ///
    /// # Errors
    /// Returns the errors of [`ElementType::each_f64`].
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

    /// Converts the elements of an [integer type](ElementType::is_integer), and replaces the contents of `out` with
    /// them.
    ///
    /// # Errors
    /// Returns the errors of [`ElementType::each_f64`].
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
            // All others fit in an f64 exactly.
            dtype => decode_f64(dtype, None, bytes, |chunk| {
                out.extend(chunk.iter().map(|&x| x as i128));
            }),
        }
    }
}
