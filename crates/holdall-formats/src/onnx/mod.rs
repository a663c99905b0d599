//! ONNX: the weights of a graph.
//!
//! # Contents
//! A graph of operators, and the tensors in it: initializers, dense and sparse, and tensors in attributes of nodes, in
//! the graph itself, in nested graphs (the branches of `If`, the bodies of `Loop` and `Scan`), and in functions. The
//! elements are in the file, or in external files.
//!
//! # Layout
//! ```text
//! ModelProto    1 version · 2–6 producer, domain, … · 7 graph · 8 operator sets · 14 key–values · 25 functions
//! GraphProto    1 nodes · 2 name · 5 initializers · 11 inputs · 12 outputs · 15 sparse initializers
//! NodeProto     2 outputs · 3 name · 4 operator · 5 attributes
//! Attribute     1 name · 5 tensor · 6 graph · 10 tensors · 11 graphs · 22 sparse tensor · 23 sparse tensors
//! TensorProto   1 dimensions · 2 element type · 4–7, 10, 11 numbers · 8 name · 9 bytes · 13 external data · 14 data location
//! ```
//! The file is one message of protocol buffers, of any length. It is read in one pass and not kept in memory: the bytes
//! between the fields that matter are not read.
//!
//! # Specification
//! `onnx.proto` of ONNX 1.23, IR version 14, and the interpretation of tensors in `onnx.numpy_helper`.
//! [`RULES`] are the rules that are checked.
//!
//! # Support
//! Reads every element type except strings. Elements in `raw_data`, and floats and doubles in their own fields, are not
//! copied; other numbers are copied out of their fields when the file is opened. Integers of 4 and 2 bits have a
//! logical type that is not a known one (`int4`): they are bytes, packed as in the file. External data is in [external
//! files](ExternalFiles).
//!
//! Weights are written into an existing [`Graph`], whose other bytes are kept.
//!
//! # Deviations
//! A duplicate name gets a number, where ONNX refuses the model. A checksum of external data is ignored, as in ONNX.
//!
//! # Untrusted input
//! Messages nest at most [`Limits::depth`] deep; groups are refused. Lengths are checked against the enclosing message.
//! Bytes copied out of fields are limited to [`Limits::header_len`], and to eight times the bytes of the fields. Names
//! of files must lead to the model's folder. Errors in one tensor are a fault of this tensor only.
//!
//! [`Limits::depth`]: holdall_core::Limits::depth
//! [`Limits::header_len`]: holdall_core::Limits::header_len

mod decode;
mod detect;
mod encode;
mod graph;
mod rules;
mod tensor;
mod value;

pub use rules::{
    BESIDE, DATA, DECLARED, DEPTH, DIMS, ELEMENT_TYPE, ENCODING, EXTERNAL, FIT, FORM, GRAPH,
    GRAPH_LEN, INDICES, LOCATION, NO_GRAPH, NUMBERS, RULES, TEXT, TOO_LARGE, TYPE,
};

pub use decode::{graph, locations};
pub use detect::detect;
pub use encode::{External, external_data_encoder};
pub use graph::Graph;

use super::{ExternalFiles, Format, IndexLocation};
use holdall_core::model::{DType, LogicalType};

/// ONNX.
pub static FORMAT: Format = Format {
    id: "onnx",
    name: "ONNX",
    extensions: &["onnx"],
    index_location: IndexLocation::Start,
    has_graph: true,
    external_files: Some(ExternalFiles {
        missing: &EXTERNAL,
        outside: &LOCATION,
        names: decode::locations,
        path: |_, location| location.to_owned(),
        decode: decode::decode_with,
    }),
    often_duplicates_weights: true,
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};

/// Returns the dtype and logical type of the element type with this number.
fn element(number: u64) -> Option<(DType, Option<LogicalType>)> {
    let packed = |name: &str| (DType::U8, Some(LogicalType::Other(name.into())));
    let typed = |logical_type: LogicalType| {
        (logical_type.storage().unwrap_or(DType::U8), Some(logical_type))
    };
    Some(match number {
        1 => (DType::F32, None),
        2 => (DType::U8, None),
        3 => (DType::I8, None),
        4 => (DType::U16, None),
        5 => (DType::I16, None),
        6 => (DType::I32, None),
        7 => (DType::I64, None),
        9 => (DType::Bool, None),
        10 => (DType::F16, None),
        11 => (DType::F64, None),
        12 => (DType::U32, None),
        13 => (DType::U64, None),
        14 => typed(LogicalType::Complex64),
        15 => typed(LogicalType::Complex128),
        16 => (DType::Bf16, None),
        17 => typed(LogicalType::F8E4M3Fn),
        18 => typed(LogicalType::F8E4M3FnUz),
        19 => typed(LogicalType::F8E5M2),
        20 => typed(LogicalType::F8E5M2FnUz),
        21 => packed("uint4"),
        22 => packed("int4"),
        23 => typed(LogicalType::F4E2M1),
        24 => typed(LogicalType::F8E8M0),
        25 => packed("uint2"),
        26 => packed("int2"),
        27 => typed(LogicalType::F6E2M3),
        28 => typed(LogicalType::F6E3M2),
        _ => return None,
    })
}

/// Returns the dtype and logical type of elements that do not fill whole bytes (4 and 2 bits): bytes, with a logical
/// type that is not a known one.
fn unfilled(number: u64) -> Option<(DType, Option<LogicalType>)> {
    let name = match number {
        23 => "float4e2m1",
        27 => "float6e2m3",
        28 => "float6e3m2",
        _ => return element(number),
    };
    Some((DType::U8, Some(LogicalType::Other(name.into()))))
}

/// Returns the number of bits of an element of this type.
fn bits(number: u64) -> u64 {
    match (number, element(number)) {
        (21 | 22, _) => 4,
        (25 | 26, _) => 2,
        (_, Some((dtype, logical))) => logical
            .and_then(|logical_type| logical_type.bits())
            .unwrap_or(dtype.width().saturating_mul(8)),
        (_, None) => 0,
    }
}

/// Returns the name of this type.
fn name_of(number: u64) -> String {
    match (number, element(number)) {
        (8, _) => "string".to_owned(),
        (_, Some((_, Some(logical)))) => logical.as_str().to_owned(),
        (_, Some((dtype, None))) => dtype.as_str().to_owned(),
        (number, None) => format!("type {number}"),
    }
}
