//! Flax files: trees of arrays in MessagePack.
//!
//! # Contents
//! The files that `flax.serialization` writes: `msgpack_serialize` and `to_bytes`, and `flax_model.msgpack` on the
//! Hugging Face hub. They contain nested maps or lists with arrays as leaves.
//!
//! # Layout
//! ```text
//! {"params": {"dense": {"kernel": extension 1, "bias": extension 1}}, "step": 3}
//!
//! extension 1   an array: [[2, 3], "float32", bytes], itself MessagePack
//! extension 2   a complex number: [1.0, 2.0]
//! extension 3   a NumPy scalar: an array without dimensions
//! ```
//! An array of more than 1 GiB is replaced by a map: `{"__msgpack_chunked_array__": true, "shape": {"0": 2, "1": 3},
//! "chunks": {"0": extension 1, …}}`, whose chunks are the elements one after the other.
//!
//! # Specification
//! MessagePack, and `flax.serialization` of Flax 0.12: `docs/spec/flax.md`.
//! [`RULES`] are the rules that are checked.
//!
//! # Support
//! Read only. The name of a tensor is the keys on the path to it, joined with dots; values that are not arrays are
//! attributes. The bytes of arrays are not copied.
//!
//! # Deviations
//! Flax returns values of unknown extension types; here they are ignored, with a warning.
//!
//! # Untrusted input
//! Maps and arrays nest at most [`Limits::depth`] deep, and have no more items than fit into the file. Names take at
//! most [`Limits::header_len`] bytes together, and there are at most [`Limits::attribute_values`] other values.
//!
//! [`Limits::depth`]: holdall_core::Limits::depth
//! [`Limits::header_len`]: holdall_core::Limits::header_len
//! [`Limits::attribute_values`]: holdall_core::Limits::attribute_values

mod decode;
mod detect;
mod rules;

pub use rules::{ARRAY, CHUNKS, DEPTH, ELEMENT_TYPE, KEY, RULES, TOO_MANY};

use super::{Format, IndexLocation};

/// Flax.
pub static FORMAT: Format = Format {
    id: "flax",
    name: "Flax",
    extensions: &["msgpack"],
    index_location: IndexLocation::Start,
    attributes_are_values: true,
    often_duplicates_weights: true,
    framework: Some("flax"),
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};
