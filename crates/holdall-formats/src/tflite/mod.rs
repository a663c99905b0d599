//! LiteRT, formerly TensorFlow Lite: the weights of a model.
//!
//! # Contents
//! A FlatBuffer ([`holdall_core::wire::flatbuffer`]) with graphs, whose tensors have their elements in buffers.
//!
//! # Layout
//! ```text
//! 0    4   offset of the model's table
//! 4    4   `TFL3`
//! …        model: buffers, subgraphs; subgraph: tensors; tensor: shape, type, number of its buffer, name
//! …        buffers: bytes in the FlatBuffer, or, if a model is larger than 2 GiB, an offset in the file and a length
//! ```
//!
//! # Specification
//! `schema.fbs` of LiteRT, version 3: `docs/spec/tflite.md`. [`RULES`] are the rules that are checked.
//!
//! # Support
//! Reads all tensors that have elements, which are those that the model does not compute. If there is more than one
//! graph, names begin with the name of the graph. Scales and zero points of quantized tensors are attributes of the
//! tensors; inputs, outputs and metadata are attributes of the file. Models cannot be written.
//!
//! # Deviations
//! Operators are ignored. Sparse tensors and strings are faults.
//!
//! # Untrusted input
//! Every offset is checked against the length of the file. Tables do not nest, so there are no loops. Bytes copied out
//! of tables are limited to [`Limits::header_len`] in all, counting bytes each time that they are referenced.
//!
//! [`Limits::header_len`]: holdall_core::Limits::header_len

mod decode;
mod detect;
mod rules;

pub use rules::{BUFFER, DIMS, ELEMENT_TYPE, RULES, SPARSE, TOO_MUCH, VERSION};

use super::{Format, IndexLocation};
use holdall_core::model::{DType, LogicalType};

/// LiteRT.
pub static FORMAT: Format = Format {
    id: "tflite",
    name: "LiteRT (TFLite)",
    extensions: &["tflite"],
    index_location: IndexLocation::Start,
    reads: &["3"],
    often_duplicates_weights: true,
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};

/// Returns the element type with this number, and the bits of an element.
fn element(number: u8) -> Option<(DType, Option<LogicalType>, u64)> {
    let plain = |dtype: DType| Some((dtype, None, dtype.width().saturating_mul(8)));
    let packed = |name: &str, bits| Some((DType::U8, Some(LogicalType::Other(name.into())), bits));
    match number {
        0 => plain(DType::F32),
        1 => plain(DType::F16),
        2 => plain(DType::I32),
        3 => plain(DType::U8),
        4 => plain(DType::I64),
        6 => plain(DType::Bool),
        7 => plain(DType::I16),
        8 => Some((DType::F32, Some(LogicalType::Complex64), 64)),
        9 => plain(DType::I8),
        10 => plain(DType::F64),
        11 => Some((DType::F64, Some(LogicalType::Complex128), 128)),
        12 => plain(DType::U64),
        15 => plain(DType::U32),
        16 => plain(DType::U16),
        17 => packed("int4", 4),
        18 => plain(DType::Bf16),
        19 => packed("int2", 2),
        20 => packed("uint4", 4),
        21 => Some((DType::U8, Some(LogicalType::F8E4M3Fn), 8)),
        22 => Some((DType::U8, Some(LogicalType::F8E5M2), 8)),
        _ => None,
    }
}
