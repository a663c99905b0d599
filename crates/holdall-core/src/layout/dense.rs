//! Dense elements in row-major order.

use super::float::{check_bools, decode_f32, decode_f64};
use super::{ALIGNMENT, BIG_ENDIAN, ELEMENT_SIZE, ELEMENT_TYPE, LENGTH, ROW_BOUNDARY, ROWS};
use crate::error::{Error, Escape as _, Result};
use crate::model::{DType, LogicalType, element_count, stored_size};
use bytemuck::{AnyBitPattern, PodCastError};
use bytes::Bytes;
use half::{bf16, f16};
use std::ops::Range;

/// A Rust type that elements can be borrowed or copied as: the numbers of the 13 dtypes, `bool`, and `[f16; 2]`,
/// `[f32; 2]`, `[f64; 2]` for complex elements.
pub trait Element: sealed::Element {
    /// The dtype of the stored elements.
    const DTYPE: DType;
    /// The complex type, if two stored elements form one element.
    const COMPLEX: Option<LogicalType>;
}

mod sealed {
    /// How bytes become elements.
    pub trait Element: Copy + Default + 'static {
        /// Whether an element has several bytes, whose order matters.
        const HAS_BYTE_ORDER: bool;

        /// Borrows little-endian bytes as elements.
        fn cast(bytes: &[u8]) -> crate::Result<Result<&[Self], bytemuck::PodCastError>>;

        /// Copies little-endian bytes into all of `out`.
        fn copy(bytes: &[u8], out: &mut [Self]) -> crate::Result<()>;
    }
}

/// Borrows bytes as a type without padding for which every bit pattern is valid.
fn cast_any<T: AnyBitPattern>(bytes: &[u8]) -> Result<Result<&[T], PodCastError>> {
    Ok(bytemuck::try_cast_slice(bytes))
}

macro_rules! numbers {
    ($($t:ty => $dtype:ident,)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            const COMPLEX: Option<LogicalType> = None;
        }

        impl sealed::Element for $t {
            const HAS_BYTE_ORDER: bool = size_of::<$t>() > 1;

            fn cast(bytes: &[u8]) -> Result<Result<&[$t], PodCastError>> {
                cast_any(bytes)
            }

            fn copy(bytes: &[u8], out: &mut [$t]) -> Result<()> {
                bytemuck::must_cast_slice_mut::<$t, u8>(out).copy_from_slice(bytes);
                if cfg!(target_endian = "big") {
                    out.iter_mut().for_each(|x| *x = <$t>::from_le_bytes(x.to_ne_bytes()));
                }
                Ok(())
            }
        }
    )*};
}

numbers! {
    f64 => F64,
    f32 => F32,
    f16 => F16,
    bf16 => Bf16,
    i64 => I64,
    i32 => I32,
    i16 => I16,
    i8 => I8,
    u64 => U64,
    u32 => U32,
    u16 => U16,
    u8 => U8,
}

macro_rules! complex {
    ($($t:ty => $dtype:ident, $logical:ident;)*) => {$(
        impl Element for [$t; 2] {
            const DTYPE: DType = DType::$dtype;
            const COMPLEX: Option<LogicalType> = Some(LogicalType::$logical);
        }

        impl sealed::Element for [$t; 2] {
            const HAS_BYTE_ORDER: bool = true;

            fn cast(bytes: &[u8]) -> Result<Result<&[[$t; 2]], PodCastError>> {
                cast_any(bytes)
            }

            fn copy(bytes: &[u8], out: &mut [[$t; 2]]) -> Result<()> {
                sealed::Element::copy(bytes, out.as_flattened_mut())
            }
        }
    )*};
}

complex! {
    f16 => F16, Complex32;
    f32 => F32, Complex64;
    f64 => F64, Complex128;
}

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    const COMPLEX: Option<LogicalType> = None;
}

impl sealed::Element for bool {
    const HAS_BYTE_ORDER: bool = false;

    fn cast(bytes: &[u8]) -> Result<Result<&[bool], PodCastError>> {
        check_bools(bytes)?;
        // Checked above, so this cannot fail.
        Ok(Ok(bytemuck::checked::try_cast_slice(bytes).unwrap_or_default()))
    }

    fn copy(bytes: &[u8], out: &mut [bool]) -> Result<()> {
        check_bools(bytes)?;
        bytes.iter().zip(out).for_each(|(b, x)| *x = *b != 0);
        Ok(())
    }
}

/// The elements of a dense tensor, or some of its rows: row-major, little-endian, in memory. Cloning is cheap.
#[derive(Debug, Clone, PartialEq)]
pub struct Dense {
    dtype: DType,
    logical_type: Option<LogicalType>,
    shape: Vec<u64>,
    bytes: Bytes,
}

impl Dense {
    /// Creates a view of decoded bytes. The length is only checked when elements are accessed.
    pub fn new(
        dtype: DType,
        logical_type: Option<LogicalType>,
        shape: impl Into<Vec<u64>>,
        bytes: impl Into<Bytes>,
    ) -> Dense {
        Dense { dtype, logical_type, shape: shape.into(), bytes: bytes.into() }
    }

    /// Returns the storage element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the meaning of the elements beyond their storage type.
    pub fn logical_type(&self) -> Option<&LogicalType> {
        self.logical_type.as_ref()
    }

    /// Returns the dimensions, in elements. A scalar has none.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the elements' bytes: little-endian, row-major.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Converts the view into its bytes, without a copy.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Returns the elements as a slice, without a copy. `T` is the storage type, even if a logical type gives it
    /// another meaning (`u8` for `f8_e4m3fn`, `f32` for the parts of `complex64`), or the pair of parts of a complex
    /// type.
    ///
    /// # Errors
    /// Returns [`ELEMENT_TYPE`] if `T` is not the type of the elements, [`LENGTH`] if the number of bytes does not
    /// match the shape, [`ALIGNMENT`] if the bytes are not aligned for `T`, [`BIG_ENDIAN`] on a big-endian machine, and
    /// [`BOOL_BYTE`](super::BOOL_BYTE) if a bool is neither 0 nor 1.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.check::<T>()?;
        if cfg!(target_endian = "big") && T::HAS_BYTE_ORDER {
            return Err(BIG_ENDIAN.broken(format!(
                "the machine is big-endian, and the elements are little-endian {}",
                self.dtype
            )));
        }
        T::cast(&self.bytes)?.map_err(|e| match e {
            PodCastError::TargetAlignmentGreaterAndInputNotAligned => ALIGNMENT
                .broken(format!("the bytes are not aligned to {} in memory", align_of::<T>())),
            _ => self.not_whole(size_of::<T>()),
        })
    }

    /// Returns a copy of the elements; see [`Dense::as_slice`] for `T`. Works for any alignment and on any machine.
    ///
    /// # Errors
    /// Returns [`ELEMENT_TYPE`], [`LENGTH`] or [`BOOL_BYTE`](super::BOOL_BYTE), like [`Dense::as_slice`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.check::<T>()?;
        let width = size_of::<T>();
        if !self.bytes.len().is_multiple_of(width) {
            return Err(self.not_whole(width));
        }
        let mut out = vec![T::default(); self.bytes.len() / width];
        T::copy(&self.bytes, &mut out)?;
        Ok(out)
    }

    /// Returns the elements as `f32`, rounded to nearest if necessary. Supports every dtype and every known float
    /// logical type.
    ///
    /// # Errors
    /// Returns [`NOT_A_NUMBER`](super::NOT_A_NUMBER) for complex types, [`UNKNOWN_TYPE`](super::UNKNOWN_TYPE) for
    /// unknown types, [`LENGTH`] if the number of bytes does not match the shape, and [`BOOL_BYTE`](super::BOOL_BYTE)
    /// if a bool is neither 0 nor 1.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        self.check_length()?;
        let mut out = Vec::with_capacity(self.stored_count());
        decode_f32(self.dtype, self.logical_type(), &self.bytes, |c| out.extend_from_slice(c))?;
        Ok(out)
    }

    /// Returns the elements as `f64`; only 64-bit integers may be rounded. See [`Dense::to_f32`].
    ///
    /// # Errors
    /// Returns the errors of [`Dense::to_f32`].
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        self.check_length()?;
        let mut out = Vec::with_capacity(self.stored_count());
        decode_f64(self.dtype, self.logical_type(), &self.bytes, |c| out.extend_from_slice(c))?;
        Ok(out)
    }

    /// Returns the rows `rows` of the first dimension, without a copy.
    ///
    /// # Errors
    /// Returns the errors of [`row_range`], and [`LENGTH`] if the number of bytes does not match the shape.
    pub fn rows(&self, rows: Range<u64>) -> Result<Dense> {
        self.check_length()?;
        let range = row_range(&self.shape, self.dtype, self.logical_type(), rows.clone())?;
        // The range is inside the bytes, because their length matches the shape.
        let bytes = self.bytes.slice(range.start as usize..range.end as usize);
        let mut shape = self.shape.clone();
        if let Some(first) = shape.first_mut() {
            *first = rows.end - rows.start;
        }
        Ok(Dense { shape, bytes, ..self.clone() })
    }

    /// Returns the number of elements, or slightly more, for a reservation of memory.
    fn stored_count(&self) -> usize {
        let bits = self.logical_type().and_then(LogicalType::bits);
        match bits.and_then(|bits| usize::try_from(bits).ok()) {
            Some(bits) if bits < 8 => self.bytes.len().saturating_mul(8) / bits,
            _ => self.bytes.len() / self.dtype.width() as usize,
        }
    }

    fn check<T: Element>(&self) -> Result<()> {
        self.check_length()?;
        let is_complex = T::COMPLEX.is_none_or(|t| self.logical_type == Some(t));
        if T::DTYPE == self.dtype && is_complex {
            return Ok(());
        }
        let stored = match &self.logical_type {
            Some(t) => format!("{} ({})", self.dtype, t.as_str().escaped()),
            None => self.dtype.to_string(),
        };
        let wanted = match T::COMPLEX {
            Some(t) => t.to_string(),
            None => T::DTYPE.to_string(),
        };
        Err(ELEMENT_TYPE.broken(format!("requested {wanted}, but the elements are {stored}")))
    }

    fn check_length(&self) -> Result<()> {
        let count = element_count(&self.shape).ok_or(());
        let expected = count.and_then(|n| stored_size(n, self.dtype, self.logical_type()));
        match expected {
            Ok(Some(len)) if len == self.bytes.len() as u64 => Ok(()),
            // The element size of an unknown logical type is unknown.
            Ok(None) => Ok(()),
            Ok(Some(len)) => Err(LENGTH.broken(format!(
                "shape {:?} of {} requires {len} bytes, found {}",
                self.shape,
                self.dtype,
                self.bytes.len()
            ))),
            Err(()) => Err(LENGTH.broken(format!(
                "shape {:?} of {} is not a whole number of bytes, or exceeds 2^64 bytes",
                self.shape, self.dtype
            ))),
        }
    }

    #[cold]
    fn not_whole(&self, width: usize) -> Error {
        let message = format!(
            "{} bytes are not a multiple of {width}, the bytes of an element",
            self.bytes.len()
        );
        LENGTH.broken(message)
    }
}

/// Returns the range of decoded bytes of the rows `rows` of the first dimension, in a dense component of this shape and
/// type. Needs no bytes, so that reading only those rows can be planned.
///
/// # Errors
/// Returns [`ROWS`] for a scalar, and if the rows are outside the first dimension or end before they start;
/// [`ROW_BOUNDARY`] if elements below 8 bits share a byte with another row; [`ELEMENT_SIZE`] for an unknown logical
/// type; and [`LENGTH`] if sizes exceed 2^64.
pub fn row_range(
    shape: &[u64],
    dtype: DType,
    logical: Option<&LogicalType>,
    rows: Range<u64>,
) -> Result<Range<u64>> {
    let Some((&count, rest)) = shape.split_first() else {
        return Err(ROWS.broken("a scalar has no rows"));
    };
    if rows.start > rows.end || rows.end > count {
        let message = format!("rows {}..{} are outside 0..{count}", rows.start, rows.end);
        return Err(ROWS.broken(message));
    }
    if rows.is_empty() {
        return Ok(0..0);
    }
    let per_row = element_count(rest);
    let offset = |row: u64| -> Result<u64> {
        let size = per_row.and_then(|n| n.checked_mul(row)).ok_or(());
        match size.and_then(|count| stored_size(count, dtype, logical)) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => {
                let name = logical.map_or("", |t| t.as_str()).escaped();
                let message =
                    format!("unknown logical type `{name}`: the size of a row is unknown");
                Err(ELEMENT_SIZE.broken(message))
            }
            Err(()) => {
                let bits = logical.and_then(LogicalType::bits).unwrap_or(8);
                Err(if bits < 8 {
                    ROW_BOUNDARY.broken(format!(
                        "row {row} of shape {shape:?}, {bits} bits per element, starts inside a byte"
                    ))
                } else {
                    LENGTH.broken(format!("shape {shape:?} of {dtype} exceeds 2^64 bytes"))
                })
            }
        }
    };
    Ok(offset(rows.start)?..offset(rows.end)?)
}
