//! What components mean together: dense elements, sparse matrices, quantized groups, and what descriptions say.
//!
//! These are views over decoded bytes, little-endian and in memory; the code that fetched and decoded them
//! sits above this crate. A view can be had only by way of its checks, so what it hands out never
//! reaches outside its bytes or its shape.

pub mod blocks;
pub mod cast;
pub mod dense;
// Without what reads descriptions there are none, and nothing that goes by them is called.
#[cfg_attr(not(feature = "layouts"), allow(dead_code))]
pub mod described;
pub mod float;
pub mod number;
pub mod quantized;
pub mod records;
pub mod sparse;
pub mod stats;
pub mod strided;

use crate::error::Result;
use crate::limits::Limits;
use crate::model::{Attributes, DType, Layout, LogicalType};
use bytes::Bytes;
use holdall_schema::KIND_ATTRIBUTE;
use std::fmt::Debug;
use std::ops::Range;

/// The decoded bytes of one component, and what they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Storage element type.
    pub dtype: DType,
    /// Meaning beyond storage.
    pub logical_type: Option<LogicalType>,
    /// Little-endian elements.
    pub bytes: Bytes,
}

impl Decoded {
    /// Elements without a logical type.
    pub fn new(dtype: DType, bytes: impl Into<Bytes>) -> Decoded {
        Decoded { dtype, logical_type: None, bytes: bytes.into() }
    }
}

/// Returns whether the attribute `key` says how a tensor of that layout is read, and nothing about its elements.
pub fn is_parameter(layout: &Layout, key: &str) -> bool {
    match layout {
        Layout::QuantizedGroup => quantized::OWN.contains(&key),
        Layout::Strided => key == strided::STRIDES_KEY,
        Layout::SparseBlocks | Layout::SparseHybrid => sparse::tiles::PARAMETERS.contains(&key),
        Layout::Records | Layout::Blob => key == KIND_ATTRIBUTE,
        _ => false,
    }
}

/// Returns the attributes of a tensor that is written in another layout: without those that say how this one is read.
pub fn without_parameters(layout: &Layout, attributes: &Attributes) -> Attributes {
    let kept = attributes.iter().filter(|(key, _)| !is_parameter(layout, key));
    kept.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

/// A tensor whose elements are worked out of what is stored: groups, blocks.
pub trait Computed: Debug + Send + Sync {
    /// Dimensions, in elements.
    fn shape(&self) -> &[u64];

    /// Elements: the product of the shape.
    fn count(&self) -> u64;

    /// Elements `elements` of the row-major order, into `out`, without other memory.
    ///
    /// # Errors
    /// [`ROWS`] for elements outside the tensor; [`LENGTH`] when `out` is not as long as the range.
    fn dequantize_range(&self, elements: Range<u64>, out: &mut [f32]) -> Result<()>;

    /// All elements in row-major order.
    ///
    /// # Errors
    /// None that a view leaves possible, but memory: [`DENSE_LIMIT`].
    fn dequantize(&self) -> Result<Vec<f32>> {
        let mut out = Vec::new();
        // Bounded by what is in memory: an element has at least a bit there.
        let count = usize::try_from(self.count()).unwrap_or(usize::MAX);
        if out.try_reserve_exact(count).is_err() {
            return Err(DENSE_LIMIT.broken(format!("there is no memory for {count} elements")));
        }
        out.resize(count, 0.0);
        self.dequantize_range(0..self.count(), &mut out)?;
        Ok(out)
    }

    /// Bytes of the tensor as dense `f32`.
    ///
    /// # Errors
    /// [`DENSE_LIMIT`].
    fn dense_len(&self, limits: &Limits) -> Result<u64> {
        let (most, count) = (limits.decoded_len, self.count());
        count.checked_mul(4).filter(|len| *len <= most).ok_or_else(|| {
            DENSE_LIMIT.broken(format!("{count} elements of f32, at most {most} bytes"))
        })
    }

    /// The tensor as dense `f32`.
    ///
    /// # Errors
    /// [`DENSE_LIMIT`].
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

/// How far what is read of `view` is from what there was: the greatest distance of an element, and the root of the mean
/// of their squares.
///
/// # Errors
/// What [`dense::Dense::to_f64`] fails with; [`ROWS`] where `view` has fewer elements.
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

/// Floats in memory as the bytes they are.
struct FloatBytes(Vec<f32>);

impl AsRef<[u8]> for FloatBytes {
    fn as_ref(&self) -> &[u8] {
        bytemuck::must_cast_slice(&self.0)
    }
}

/// Checks that `elements` are inside of a tensor of `count`, and fill `out`.
fn check_room(count: u64, elements: &Range<u64>, out: &[f32]) -> Result<()> {
    let Range { start, end } = *elements;
    if start > end || end > count {
        return Err(ROWS.broken(format!("elements {start}..{end} of {count}")));
    }
    if out.len() as u64 != end - start {
        let message = format!("{} elements do not fill a slice of {}", end - start, out.len());
        return Err(LENGTH.broken(message));
    }
    Ok(())
}

crate::error::rules! {
    /// Every rule of the layouts.
    pub static RULES;

    /// A view of another layout.
    pub WRONG_LAYOUT: Misuse "layout/wrong-layout"
        "A view is asked for only of a tensor with that layout.";
    /// Elements of another type.
    pub ELEMENT_TYPE: Misuse "layout/element-type"
        "The element type that is asked for is the tensor's.";
    /// Bytes that cannot be borrowed as elements where they lie.
    pub ALIGNMENT: Misuse "layout/alignment"
        "Elements are borrowed only from memory that is aligned for them."
        remedies [CopyElements];
    /// Little-endian elements on a big-endian machine.
    pub BIG_ENDIAN: Misuse "layout/big-endian"
        "Elements of several bytes are borrowed only on a little-endian machine."
        remedies [CopyElements];
    /// Bytes that are not what shape and dtype say.
    pub LENGTH: Misuse "layout/length"
        "The bytes, and the room for elements, match the shape and the dtype.";
    /// A bool that is neither 0 nor 1.
    pub BOOL_BYTE: Malformed "layout/bool-byte" "A bool is the byte 0 or the byte 1.";
    /// An element that is not one number.
    pub NOT_A_NUMBER: Misuse "layout/not-a-number"
        "Only elements that are single numbers become `f32` or `f64`."
        remedies [ReadPairs];
    /// Elements whose meaning is not known.
    pub UNKNOWN_TYPE: Unsupported "layout/unknown-type"
        "Elements of a logical type become numbers only if the type is known."
        hint "their bytes can be read as they are stored";
    /// Rows outside the shape.
    pub ROWS: Misuse "layout/rows" "The rows that are asked for lie inside the first dimension of the shape.";
    /// Rows that share a byte with others.
    pub ROW_BOUNDARY: Misuse "layout/row-boundary"
        "A range of rows whose elements have fewer than 8 bits begins and ends at a byte boundary.";
    /// Elements whose size is not known.
    pub ELEMENT_SIZE: Unsupported "layout/element-size"
        "The size of an element in bits is known, and is a whole number of bytes where elements are addressed one by one.";
    /// A number that a quantized type cannot take.
    pub NOT_FINITE: Unsupported "layout/not-finite"
        "Numbers to be quantized are finite as `f32`, and their scale fits its type."
        hint "a rule that keeps this tensor as it is leaves it out: `NAME=keep`";
    /// A dense copy would be too large.
    pub DENSE_LIMIT: Limit "layout/dense-limit"
        "A dense copy of a sparse or quantized tensor takes at most `Limits::decoded_len` bytes."
        remedies [RaiseLimit { limit: "decoded_len", at_least: None }];
}
