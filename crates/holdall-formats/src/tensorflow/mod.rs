//! TensorFlow's checkpoints: an index and files of data beside it.
//!
//! # What
//! What `tf.train.Checkpoint`, `tf.train.Saver` and saved models write: `model.ckpt.index` and `model.ckpt.data-00000-of-00001`, and more of
//! the latter. The index is opened; the other files are found by its name.
//!
//! # Layout
//! ```text
//! index   a sorted table of LevelDB ([`holdall_core::wire::sstable`]) of protocol buffers:
//!         ""       how many files of data there are, and in which order of bytes
//!         NAME     type, shape, number of the file, offset, length, masked CRC-32C
//!         \0…      the same of a slice of a variable that is stored in several
//! data    elements, as the index says
//! ```
//!
//! # Specification
//! `tensor_bundle.proto` and LevelDB's table format: `docs/spec/tensorflow.md`. By [`RULES`].
//!
//! # Support
//! Read, both byte orders, variables in slices put together. Names are those of the index. The graph of objects, which TensorFlow 2 stores as
//! a text of the name `_CHECKPOINTABLE_OBJECT_GRAPH`, is passed over. Nothing is written.
//!
//! # Deviations
//! Texts and variants are faults.
//!
//! # Untrusted input
//! Blocks are held to their digests, and are not compressed. Names of files come from numbers, so none leads elsewhere. What is wrong
//! with one tensor is its fault.

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
    beside: Some(ExternalFiles {
        away: &DATA,
        outside: &LINK,
        names: decode::names,
        path: data_path,
        decode: decode::decode_with,
    }),
    is_model_file: has_data,
    stands_beside_weights: true,
    framework: Some("tf"),
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};

/// `model.ckpt.data-00000-of-00001` beside `model.ckpt.index`.
fn data_path(file: &str, name: &str) -> String {
    format!("{}.{name}", file.strip_suffix(".index").unwrap_or(file))
}

/// Returns whether the data of a checkpoint is in the folder. Files of many kinds are called `.index`.
fn has_data(name: &str, all: &[String]) -> bool {
    let data = format!("{}.data-", name.strip_suffix(".index").unwrap_or(name));
    all.iter().any(|other| other.starts_with(&data))
}

/// The element type of that number.
fn element(number: u64) -> Option<(DType, Option<LogicalType>)> {
    let typed = |of: LogicalType| (of.storage().unwrap_or(DType::U8), Some(of));
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
