//! TensorFlow checkpoints: an index, and data files in the same folder.
//!
//! # Contents
//! The files of `tf.train.Checkpoint`, `tf.train.Saver` and saved models: `model.ckpt.index` and one or more files
//! `model.ckpt.data-00000-of-00001`. The index is opened; the other files are found by its name.
//!
//! # Layout
//! ```text
//! index   a sorted table of LevelDB ([`holdall_core::wire::sstable`]) of protocol buffers:
//!         ""       number of data files, byte order
//!         NAME     type, shape, number of the file, offset, length, masked CRC-32C
//!         \0…      the same for a slice of a variable that is stored in slices
//! data    elements, at the offsets in the index
//! ```
//!
//! # Specification
//! `tensor_bundle.proto` and LevelDB's table format: `docs/spec/tensorflow.md`.
//! [`RULES`] are the rules that are checked.
//!
//! # Support
//! Reads both byte orders, and variables in slices. Names are those of the index. The object graph, which TensorFlow 2
//! stores as a string named `_CHECKPOINTABLE_OBJECT_GRAPH`, is ignored. Checkpoints cannot be written.
//!
//! # Deviations
//! Strings and variants are faults.
//!
//! # Untrusted input
//! Blocks are verified with their checksums, and compressed blocks are refused. Names of files are made from numbers,
//! so they cannot lead out of the folder. Errors in one tensor are a fault of this tensor only.

mod decode;
mod detect;
mod rules;
mod slices;

pub use rules::{DATA, ELEMENT_TYPE, ENTRY, HEADER, LINK, RULES, SLICES};

use super::{ExternalFiles, Format};
use holdall_core::model::{DType, LogicalType};

/// Checkpoints of TensorFlow.
pub static FORMAT: Format = Format {
    id: "tensorflow",
    name: "TensorFlow checkpoint",
    extensions: &["index"],
    reads: &["1"],
    external_files: Some(ExternalFiles {
        missing: &DATA,
        outside: &LINK,
        names: decode::names,
        path: data_path,
        decode: decode::decode_with,
    }),
    is_model_file: has_data,
    often_duplicates_weights: true,
    framework: Some("tf"),
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};

/// Returns the path of `model.ckpt.data-00000-of-00001` for `model.ckpt.index`.
fn data_path(file: &str, name: &str) -> String {
    format!("{}.{name}", file.strip_suffix(".index").unwrap_or(file))
}

/// Returns `true` if the data of a checkpoint is in the folder. Files of many kinds have the extension `.index`.
fn has_data(name: &str, all: &[String]) -> bool {
    let data = format!("{}.data-", name.strip_suffix(".index").unwrap_or(name));
    all.iter().any(|other| other.starts_with(&data))
}

/// Returns the element type with this number.
fn element(number: u64) -> Option<(DType, Option<LogicalType>)> {
    let typed = |logical_type: LogicalType| {
        (logical_type.storage().unwrap_or(DType::U8), Some(logical_type))
    };
    Some(match number {
        1 => (DType::F32, None),
        2 => (DType::F64, None),
        3 | 13 => (DType::I32, None),
        4 | 12 => (DType::U8, None),
        5 | 15 => (DType::I16, None),
        6 | 11 => (DType::I8, None),
        8 => typed(LogicalType::Complex64),
        9 => (DType::I64, None),
        10 => (DType::Bool, None),
        14 => (DType::Bf16, None),
        16 | 17 => (DType::U16, None),
        18 => typed(LogicalType::Complex128),
        19 => (DType::F16, None),
        22 => (DType::U32, None),
        23 => (DType::U64, None),
        24 => typed(LogicalType::F8E5M2),
        25 => typed(LogicalType::F8E4M3Fn),
        _ => return None,
    })
}
