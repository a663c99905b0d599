//! What components mean together: dense elements, sparse matrices, quantized groups.
//!
//! These are views over decoded bytes, little-endian and in memory; whoever fetched and decoded them
//! sits above this crate. A view can be had only by way of its checks, so what it hands out never
//! reaches outside its bytes or its shape.

pub mod dense;
pub mod float;
pub mod quantized;
pub mod sparse;

use crate::error::{Kind, Rule};
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

/// Every rule of the layouts.
pub static RULES: &[&Rule] = &[
    &WRONG_LAYOUT,
    &ELEMENT_TYPE,
    &ALIGNMENT,
    &BIG_ENDIAN,
    &LENGTH,
    &BOOL_BYTE,
    &NOT_A_NUMBER,
    &ROWS,
    &ROW_BOUNDARY,
    &ELEMENT_SIZE,
    &DENSE_LIMIT,
    &sparse::RANK,
    &sparse::INDEX_DTYPE,
    &sparse::NEGATIVE_INDEX,
    &sparse::COUNTS,
    &sparse::INDPTR_START,
    &sparse::INDPTR_ORDER,
    &sparse::INDPTR_END,
    &sparse::INDEX_BOUNDS,
    &sparse::PACKED,
    &sparse::SUM,
    &quantized::ATTRIBUTE,
    &quantized::BITS,
    &quantized::PACKING,
    &quantized::FIT,
    &quantized::AXIS,
    &quantized::COUNTS,
    &quantized::ZEROS,
    &quantized::GROUP_INDEX,
];

/// A view of another layout.
pub static WRONG_LAYOUT: Rule = Rule::new(
    "layout/wrong-layout",
    Kind::Misuse,
    "A view is asked for of a tensor that has its layout.",
);
/// Elements of another type.
pub static ELEMENT_TYPE: Rule = Rule::new(
    "layout/element-type",
    Kind::Misuse,
    "The element type asked for is that of the tensor.",
);
/// Bytes that cannot be borrowed as elements where they lie.
pub static ALIGNMENT: Rule = Rule::new(
    "layout/alignment",
    Kind::Misuse,
    "Elements are borrowed only from memory that is aligned for them.",
)
.with_hint("`to_vec` copies the elements");
/// Little-endian elements on a big-endian machine.
pub static BIG_ENDIAN: Rule = Rule::new(
    "layout/big-endian",
    Kind::Misuse,
    "Elements of several bytes are borrowed only on a little-endian machine.",
)
.with_hint("`to_vec` copies and swaps the elements");
/// Bytes that are not what shape and dtype say.
pub static LENGTH: Rule = Rule::new(
    "layout/length",
    Kind::Misuse,
    "There are as many bytes, and as much room for elements, as shape and dtype take.",
);
/// A bool that is neither 0 nor 1.
pub static BOOL_BYTE: Rule =
    Rule::new("layout/bool-byte", Kind::Malformed, "A bool is the byte 0 or the byte 1.");
/// An element that is not one number.
pub static NOT_A_NUMBER: Rule = Rule::new(
    "layout/not-a-number",
    Kind::Misuse,
    "Only elements that are one number each become `f32` or `f64`.",
)
.with_hint("`as_slice::<[f32; 2]>` or `to_vec::<[f64; 2]>` gives both parts");
/// Rows outside the shape.
pub static ROWS: Rule = Rule::new(
    "layout/rows",
    Kind::Misuse,
    "Rows asked for lie inside the first dimension of the shape.",
);
/// Rows that share a byte with others.
pub static ROW_BOUNDARY: Rule = Rule::new(
    "layout/row-boundary",
    Kind::Misuse,
    "Rows of elements below 8 bits are asked for from one byte boundary to another.",
);
/// Elements whose size is not known.
pub static ELEMENT_SIZE: Rule = Rule::new(
    "layout/element-size",
    Kind::Unsupported,
    "The bits of an element are known, and whole bytes where elements are addressed one by one.",
);
/// A dense copy would be too large.
pub static DENSE_LIMIT: Rule = Rule::new(
    "layout/dense-limit",
    Kind::Limit,
    "A dense copy of a sparse or quantized tensor takes at most `Limits::decoded_len` bytes.",
);
