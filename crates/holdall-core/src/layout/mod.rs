//! What components mean together: dense elements, sparse matrices, quantized groups, and what descriptions say.
//!
//! These are views over decoded bytes, little-endian and in memory; whoever fetched and decoded them
//! sits above this crate. A view can be had only by way of its checks, so what it hands out never
//! reaches outside its bytes or its shape.

pub mod cast;
pub mod dense;
pub mod described;
pub mod float;
pub mod quantized;
pub mod sparse;

use crate::model::{DType, LogicalType};
use bytes::Bytes;

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

crate::error::rules! {
    /// Every rule of the layouts.
    pub static RULES;

    /// A view of another layout.
    pub WRONG_LAYOUT: Misuse "layout/wrong-layout"
        "A view is asked for of a tensor that has its layout.";
    /// Elements of another type.
    pub ELEMENT_TYPE: Misuse "layout/element-type"
        "The element type asked for is that of the tensor.";
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
        "There are as many bytes, and as much room for elements, as shape and dtype take.";
    /// A bool that is neither 0 nor 1.
    pub BOOL_BYTE: Malformed "layout/bool-byte" "A bool is the byte 0 or the byte 1.";
    /// An element that is not one number.
    pub NOT_A_NUMBER: Misuse "layout/not-a-number"
        "Only elements that are one number each become `f32` or `f64`."
        remedies [ReadPairs];
    /// Elements whose meaning is not known.
    pub UNKNOWN_TYPE: Unsupported "layout/unknown-type"
        "Elements of a logical type become numbers only where that type is known."
        hint "their bytes can be read as they are stored";
    /// Rows outside the shape.
    pub ROWS: Misuse "layout/rows" "Rows asked for lie inside the first dimension of the shape.";
    /// Rows that share a byte with others.
    pub ROW_BOUNDARY: Misuse "layout/row-boundary"
        "Rows of elements below 8 bits are asked for from one byte boundary to another.";
    /// Elements whose size is not known.
    pub ELEMENT_SIZE: Unsupported "layout/element-size"
        "The bits of an element are known, and whole bytes where elements are addressed one by one.";
    /// A dense copy would be too large.
    pub DENSE_LIMIT: Limit "layout/dense-limit"
        "A dense copy of a sparse or quantized tensor takes at most `Limits::decoded_len` bytes.";
}
