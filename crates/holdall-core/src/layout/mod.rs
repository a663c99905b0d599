//! Layouts: the meaning of components together, as dense elements, sparse matrices, quantized groups and described
//! layouts.
//!
//! The types are views of decoded, little-endian bytes in memory; crates above this one fetch and decode the bytes.
//! Creating a view checks it, so its methods never access bytes outside its components or elements outside its shape.

pub mod blocks;
pub mod cast;
pub mod delta;
pub mod dense;
// Without the feature there are no descriptions, and code that uses them is never called.
#[cfg_attr(not(feature = "layouts"), allow(dead_code))]
pub mod described;
pub mod float;
pub mod number;
pub mod planes;
pub mod quantized;
pub mod records;
pub mod sparse;
pub mod stats;
pub mod strided;
#[cfg(feature = "updates")]
pub mod update;

use crate::error::Result;
use crate::limits::Limits;
use crate::model::{Attributes, DType, Layout, LogicalType};
use bytes::Bytes;
use holdall_schema::TENSOR_SCHEMA_ATTRIBUTE;
use std::fmt::Debug;
use std::ops::Range;

/// The decoded bytes of one component, and their type.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The storage element type.
    pub dtype: DType,
    /// The meaning of the elements beyond their storage type.
    pub logical_type: Option<LogicalType>,
    /// The elements, little-endian.
    pub bytes: Bytes,
}

impl Decoded {
    /// Creates elements without a logical type.
    pub fn new(dtype: DType, bytes: impl Into<Bytes>) -> Decoded {
        Decoded { dtype, logical_type: None, bytes: bytes.into() }
    }
}

/// Returns `true` if the attribute `key` is a parameter of the layout, and is not about the elements.
pub fn is_parameter(layout: &Layout, key: &str) -> bool {
    match layout {
        Layout::QuantizedGroup => quantized::PARAMETER_ATTRIBUTES.contains(&key),
        Layout::Strided => key == strided::STRIDES_KEY,
        Layout::SparseBlocks | Layout::SparseHybrid => sparse::tiles::PARAMETERS.contains(&key),
        Layout::Records | Layout::Blob => key == TENSOR_SCHEMA_ATTRIBUTE,
        // They describe the quantization.
        Layout::QuantizedWeight => true,
        _ => false,
    }
}

/// Returns the attributes that a tensor keeps in another layout: all but the parameters of `layout`.
pub fn without_parameters(layout: &Layout, attributes: &Attributes) -> Attributes {
    let kept = attributes.iter().filter(|(key, _)| !is_parameter(layout, key));
    kept.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

/// A tensor whose elements are computed from the stored values: quantized groups, blocks.
pub trait Computed: Debug + Send + Sync {
    /// Returns the dimensions, in elements.
    fn shape(&self) -> &[u64];

    /// Returns the number of elements: the product of the shape.
    fn count(&self) -> u64;

    /// Computes the elements in the range `elements` of the row-major order, and stores them in `out`, without
    /// allocating.
    ///
    /// # Errors
    /// Returns [`ROWS`] if the range is outside the tensor, and [`LENGTH`] if `out` does not have the length of the
    /// range.
    fn dequantize_range(&self, elements: Range<u64>, out: &mut [f32]) -> Result<()>;

    /// Returns all elements in row-major order.
    ///
    /// # Errors
    /// Returns [`DENSE_LIMIT`] if there is not enough memory.
    fn dequantize(&self) -> Result<Vec<f32>> {
        let mut out = Vec::new();
        // Limited by the bytes in memory: an element takes at least one bit there.
        let count = usize::try_from(self.count()).unwrap_or(usize::MAX);
        if out.try_reserve_exact(count).is_err() {
            return Err(DENSE_LIMIT.broken(format!("not enough memory for {count} elements")));
        }
        out.resize(count, 0.0);
        self.dequantize_range(0..self.count(), &mut out)?;
        Ok(out)
    }

    /// Returns the bytes of the tensor as dense `f32`.
    ///
    /// # Errors
    /// Returns [`DENSE_LIMIT`] if they exceed the limit.
    fn dense_len(&self, limits: &Limits) -> Result<u64> {
        let (most, count) = (limits.decoded_len, self.count());
        count.checked_mul(4).filter(|len| *len <= most).ok_or_else(|| {
            DENSE_LIMIT.broken(format!("{count} elements of f32 exceed the limit of {most} bytes"))
        })
    }

    /// Converts the tensor to dense `f32`.
    ///
    /// # Errors
    /// Returns [`DENSE_LIMIT`] if the result would exceed the limit, or if there is not enough memory.
    fn to_dense(&self, limits: &Limits) -> Result<dense::Dense> {
        self.dense_len(limits)?;
        let values = self.dequantize()?;
        let bytes = if cfg!(target_endian = "little") {
            Bytes::from_owner(FloatBytes(values))
        } else {
            values.iter().flat_map(|x| x.to_le_bytes()).collect()
        };
        Ok(dense::Dense::new(DType::F32, None, self.shape().to_vec(), bytes))
    }
}

/// Returns the errors of `view` compared with the original elements: the maximum absolute error, and the root mean
/// square error.
///
/// # Errors
/// Returns the errors of [`dense::Dense::to_f64`], and [`ROWS`] if `view` has fewer elements.
pub fn errors_of(dense: &dense::Dense, view: &dyn Computed) -> Result<(f64, f64)> {
    let (mut at, mut most, mut squares) = (0u64, 0f64, 0f64);
    let mut read = Vec::new();
    let mut failed = None;
    float::decode_f64(dense.dtype(), dense.logical_type(), dense.bytes(), |values| {
        let left = usize::try_from(view.count().saturating_sub(at)).unwrap_or(usize::MAX);
        let values = values.get(..left).unwrap_or(values);
        let end = at + values.len() as u64;
        read.resize(values.len(), 0f32);
        if let Err(e) = view.dequantize_range(at..end, &mut read) {
            failed.get_or_insert(e);
        }
        for (x, y) in values.iter().zip(&read) {
            let error = (x - f64::from(*y)).abs();
            most = most.max(error);
            squares += error * error;
        }
        at = end;
    })?;
    match failed {
        Some(e) => Err(e),
        None => Ok((most, (squares / view.count().max(1) as f64).sqrt())),
    }
}

/// Floats in memory, accessed as bytes.
struct FloatBytes(Vec<f32>);

impl AsRef<[u8]> for FloatBytes {
    fn as_ref(&self) -> &[u8] {
        bytemuck::must_cast_slice(&self.0)
    }
}

/// Checks that `elements` are inside a tensor of `count` elements, and that `out` has their length.
fn check_room(count: u64, elements: &Range<u64>, out: &[f32]) -> Result<()> {
    let Range { start, end } = *elements;
    if start > end || end > count {
        return Err(ROWS.broken(format!("elements {start}..{end} are outside 0..{count}")));
    }
    if out.len() as u64 != end - start {
        let message = format!("expected a slice of {} elements, found {}", end - start, out.len());
        return Err(LENGTH.broken(message));
    }
    Ok(())
}

crate::error::rules! {
    /// All rules of the layouts.
    pub static RULES;

    /// A view was requested of a tensor with another layout.
    pub WRONG_LAYOUT: Misuse "layout/wrong-layout"
        "A view is requested only of a tensor with its layout.";
    /// The requested element type is not the tensor's.
    pub ELEMENT_TYPE: Misuse "layout/element-type"
        "The requested element type is the tensor's.";
    /// Bytes cannot be borrowed as elements because they are not aligned.
    pub ALIGNMENT: Misuse "layout/alignment"
        "Elements are borrowed only from memory that is aligned for them."
        remedies [CopyElements];
    /// Little-endian elements cannot be borrowed on a big-endian machine.
    pub BIG_ENDIAN: Misuse "layout/big-endian"
        "Elements of several bytes are borrowed only on a little-endian machine."
        remedies [CopyElements];
    /// The number of bytes does not match shape and dtype.
    pub LENGTH: Misuse "layout/length"
        "The bytes, and the output for elements, match the shape and the dtype.";
    /// A bool is neither 0 nor 1.
    pub BOOL_BYTE: Malformed "layout/bool-byte" "A bool is the byte 0 or the byte 1.";
    /// An element is not a single number.
    pub NOT_A_NUMBER: Misuse "layout/not-a-number"
        "Only elements that are single numbers can be converted to `f32` or `f64`."
        remedies [ReadPairs];
    /// The logical type of elements is unknown.
    pub UNKNOWN_TYPE: Unsupported "layout/unknown-type"
        "Elements of a logical type can be converted to numbers only if the type is known."
        hint "their bytes can be read as they are stored";
    /// Rows are outside the shape.
    pub ROWS: Misuse "layout/rows" "The requested rows are inside the first dimension of the shape.";
    /// Rows share a byte with other rows.
    pub ROW_BOUNDARY: Misuse "layout/row-boundary"
        "A range of rows whose elements have fewer than 8 bits begins and ends at a byte boundary.";
    /// The size of elements is unknown.
    pub ELEMENT_SIZE: Unsupported "layout/element-size"
        "The size of an element in bits is known, and is a whole number of bytes where elements are addressed one by one.";
    /// A number cannot be quantized to a type.
    pub NOT_FINITE: Unsupported "layout/not-finite"
        "Numbers to be quantized are finite as `f32`, and their scale fits its type."
        hint "add a rule that keeps this tensor unchanged: `NAME=keep`";
    /// A dense copy would be too large.
    pub DENSE_LIMIT: Limit "layout/dense-limit"
        "A dense copy of a sparse or quantized tensor takes at most `Limits::decoded_len` bytes."
        remedies [RaiseLimit { limit: "decoded_len", at_least: None }];
}
