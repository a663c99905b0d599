//! Elements in row-major order.

use super::float::{check_bools, decode_f32, decode_f64};
use super::{ALIGNMENT, BIG_ENDIAN, ELEMENT_SIZE, ELEMENT_TYPE, LENGTH, ROW_BOUNDARY, ROWS};
use crate::error::{Error, Result, Shown as _};
use crate::model::{DType, LogicalType, element_count, stored_size};
use bytemuck::{AnyBitPattern, PodCastError};
use bytes::Bytes;
use half::{bf16, f16};
use std::ops::Range;

/// A Rust type that elements can be borrowed or copied as: the numbers of the 13 dtypes, `bool`, and
/// `[f32; 2]`, `[f64; 2]` for complex elements.
pub trait Element: sealed::Element {
    /// The dtype these elements are stored as.
    const DTYPE: DType;
    /// The complex type, where two stored elements are one.
    const COMPLEX: Option<LogicalType>;
}

mod sealed {
    /// How bytes become elements.
    pub trait Element: Copy + Default + 'static {
        /// Whether the bytes of an element have an order.
        const HAS_BYTE_ORDER: bool;

        /// Borrows little-endian bytes as elements.
        fn cast(bytes: &[u8]) -> crate::Result<Result<&[Self], bytemuck::PodCastError>>;

        /// Copies little-endian bytes, as many as `out` takes.
        fn copy(bytes: &[u8], out: &mut [Self]) -> crate::Result<()>;
    }
}

/// A type without padding for which every bit pattern is a value.
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
        // Checked above, so the one way left to fail is none.
        Ok(Ok(bytemuck::checked::try_cast_slice(bytes).unwrap_or_default()))
    }

    fn copy(bytes: &[u8], out: &mut [bool]) -> Result<()> {
        check_bools(bytes)?;
        bytes.iter().zip(out).for_each(|(b, x)| *x = *b != 0);
        Ok(())
    }
}

/// The elements of a dense tensor, or some rows of it: row-major, little-endian, in memory. Cheap to
/// clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Dense {
    dtype: DType,
    logical_type: Option<LogicalType>,
    shape: Vec<u64>,
    bytes: Bytes,
}

impl Dense {
    /// A view of decoded bytes. That they are as many as shape and dtype take is checked when
    /// elements are asked for.
    pub fn new(
        dtype: DType,
        logical_type: Option<LogicalType>,
        shape: impl Into<Vec<u64>>,
        bytes: impl Into<Bytes>,
    ) -> Dense {
        Dense { dtype, logical_type, shape: shape.into(), bytes: bytes.into() }
    }

    /// Storage element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Meaning beyond storage.
    pub fn logical_type(&self) -> Option<&LogicalType> {
        self.logical_type.as_ref()
    }

    /// Dimensions, in elements; empty for a scalar.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The bytes as they are: little-endian, row-major.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes, without a copy.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// The elements where they lie, without a copy. `T` is the storage type, also where a logical
    /// type gives it another meaning (`u8` for `f8_e4m3fn`; `f32` for the parts of `complex64`), or
    /// the pair of parts of a complex type.
    ///
    /// # Errors
    /// [`ELEMENT_TYPE`], [`ALIGNMENT`], [`LENGTH`]; [`BIG_ENDIAN`] on such a machine;
    /// [`BOOL_BYTE`](super::BOOL_BYTE).
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.check::<T>()?;
        if cfg!(target_endian = "big") && T::HAS_BYTE_ORDER {
            return Err(BIG_ENDIAN.broken(format!("the elements are little-endian {}", self.dtype)));
        }
        T::cast(&self.bytes)?.map_err(|e| match e {
            PodCastError::TargetAlignmentGreaterAndInputNotAligned => ALIGNMENT.broken(format!(
                "the bytes do not lie at a multiple of {} in memory",
                align_of::<T>()
            )),
            _ => self.not_whole(size_of::<T>()),
        })
    }

    /// A copy of the elements; see [`Dense::as_slice`] for `T`. Works wherever the bytes lie, on any
    /// machine.
    ///
    /// # Errors
    /// [`ELEMENT_TYPE`], [`LENGTH`], [`BOOL_BYTE`](super::BOOL_BYTE).
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

    /// The elements as `f32`, rounded to nearest where they do not fit: every dtype and every float
    /// logical type that is known.
    ///
    /// # Errors
    /// [`NOT_A_NUMBER`](super::NOT_A_NUMBER) for complex types,
    /// [`UNKNOWN_TYPE`](super::UNKNOWN_TYPE), [`LENGTH`], [`BOOL_BYTE`](super::BOOL_BYTE).
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        self.check_length()?;
        let mut out = Vec::with_capacity(self.stored_count());
        decode_f32(self.dtype, self.logical_type(), &self.bytes, |c| out.extend_from_slice(c))?;
        Ok(out)
    }

    /// The elements as `f64`; only 64-bit integers may be rounded. See [`Dense::to_f32`].
    ///
    /// # Errors
    /// As [`Dense::to_f32`].
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        self.check_length()?;
        let mut out = Vec::with_capacity(self.stored_count());
        decode_f64(self.dtype, self.logical_type(), &self.bytes, |c| out.extend_from_slice(c))?;
        Ok(out)
    }

    /// Rows `rows` of the first dimension, without a copy.
    ///
    /// # Errors
    /// As [`row_range`]; [`LENGTH`].
    pub fn rows(&self, rows: Range<u64>) -> Result<Dense> {
        self.check_length()?;
        let range = row_range(&self.shape, self.dtype, self.logical_type(), rows.clone())?;
        // The range lies inside the bytes: their length is that of the shape.
        let bytes = self.bytes.slice(range.start as usize..range.end as usize);
        let mut shape = self.shape.clone();
        if let Some(first) = shape.first_mut() {
            *first = rows.end - rows.start;
        }
        Ok(Dense { shape, bytes, ..self.clone() })
    }

    /// Elements, or more, for what is known to be in memory.
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
            Some(t) => format!("{} ({})", self.dtype, t.as_str().shown()),
            None => self.dtype.to_string(),
        };
        let wanted = match T::COMPLEX {
            Some(t) => t.to_string(),
            None => T::DTYPE.to_string(),
        };
        Err(ELEMENT_TYPE.broken(format!("the elements are {stored}, not {wanted}")))
    }

    fn check_length(&self) -> Result<()> {
        let count = element_count(&self.shape).ok_or(());
        let expected = count.and_then(|n| stored_size(n, self.dtype, self.logical_type()));
        match expected {
            Ok(Some(len)) if len == self.bytes.len() as u64 => Ok(()),
            // The size of an unknown logical type's elements is not known.
            Ok(None) => Ok(()),
            Ok(Some(len)) => Err(LENGTH.broken(format!(
                "shape {:?} of {} takes {len} bytes, there are {}",
                self.shape,
                self.dtype,
                self.bytes.len()
            ))),
            Err(()) => Err(LENGTH.broken(format!(
                "shape {:?} of {} takes no whole number of bytes below 2^64",
                self.shape, self.dtype
            ))),
        }
    }

    #[cold]
    fn not_whole(&self, width: usize) -> Error {
        let message = format!("{} bytes are not whole elements of {width}", self.bytes.len());
        LENGTH.broken(message)
    }
}

/// Where rows `rows` of the first dimension lie in a dense component of this shape and type: a range
/// of its decoded bytes. Takes no bytes, so that reading only those rows can be planned.
///
/// # Errors
/// [`ROWS`] outside the first dimension, for a scalar, or when the end comes before the start;
/// [`ROW_BOUNDARY`] when elements below 8 bits share a byte with another row; [`ELEMENT_SIZE`] for an
/// unknown logical type; [`LENGTH`] when sizes pass 2^64.
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
        let message = format!("rows {}..{} of {count}", rows.start, rows.end);
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
                let name = logical.map_or("", |t| t.as_str()).shown();
                let message = format!("logical type `{name}` is not known, nor the size of a row");
                Err(ELEMENT_SIZE.broken(message))
            }
            Err(()) => {
                let bits = logical.and_then(LogicalType::bits).unwrap_or(8);
                Err(if bits < 8 {
                    ROW_BOUNDARY.broken(format!(
                        "row {row} of shape {shape:?}, {bits} bits an element, starts inside a byte"
                    ))
                } else {
                    LENGTH.broken(format!("shape {shape:?} of {dtype} passes 2^64 bytes"))
                })
            }
        }
    };
    Ok(offset(rows.start)?..offset(rows.end)?)
}
