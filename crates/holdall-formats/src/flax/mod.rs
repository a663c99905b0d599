//! Flax's files: trees of arrays in MessagePack.
//!
//! # What
//! What `flax.serialization` writes: `msgpack_serialize` and `to_bytes`, `flax_model.msgpack` of the hub. Maps in maps, with arrays at their
//! ends.
//!
//! # Layout
//! ```text
//! {"params": {"dense": {"kernel": extension 1, "bias": extension 1}}, "step": 3}
//!
//! extension 1   an array: [[2, 3], "float32", bytes], itself MessagePack
//! extension 2   a complex number: [1.0, 2.0]
//! extension 3   a scalar of NumPy's: an array without dimensions
//! ```
//! An array of more than 1 GiB is a map in its place: `{"__msgpack_chunked_array__": true, "shape": {"0": 2, "1": 3}, "chunks":
//! {"0": extension 1, …}}`, whose chunks are the elements one after the other.
//!
//! # Specification
//! MessagePack, and `flax.serialization` of Flax 0.12: `docs/spec/flax.md`. By [`RULES`].
//!
//! # Support
//! Read, with names whose parts have dots between them; values that are not arrays are attributes. The bytes of arrays stay where they are.
//! Nothing is written.
//!
//! # Deviations
//! Flax makes values of extensions that it does not know; here they are passed over, with a warning.
//!
//! # Untrusted input
//! Maps and arrays nest at most [`Limits::depth`] deep, and have no more items than there is room for. Names take at most
//! [`Limits::header_len`] bytes together, other values are at most [`Limits::attribute_values`].
//!
//! [`Limits::depth`]: holdall_core::Limits::depth
//! [`Limits::header_len`]: holdall_core::Limits::header_len
//! [`Limits::attribute_values`]: holdall_core::Limits::attribute_values

mod decode;

use super::{Format, IndexLocation};

/// Flax.
pub static FORMAT: Format = Format {
    id: "flax",
    name: "Flax",
    extensions: &["msgpack"],
    index_location: IndexLocation::Start,
    attributes_are_values: true,
    stands_beside_weights: true,
    framework: Some("flax"),
    rules: RULES,
    ..Format::read_by(decode::detect, decode::decode)
};

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// A key that names nothing.
    pub KEY: Malformed "flax/key" "The keys of maps are UTF-8 strings or integers, each used once.";
    /// An invalid array.
    pub ARRAY: Malformed "flax/array"
        "An array is a list of its shape, without negative dimensions, the name of its type, and its bytes.";
    /// An element type that is not known.
    pub ELEMENT_TYPE: Unsupported "flax/element-type"
        "The elements of an array have a known type of NumPy or JAX with 8 bits or more."
        remedies [LeaveOut];
    /// Chunks that make no array.
    pub CHUNKS: Malformed "flax/chunks"
        "A chunked array has its mark first, then its shape, then its chunks in order: all of one type, with as many elements together as the shape.";
    /// Nesting.
    pub DEPTH: Limit "flax/depth" "Maps and lists nest at most `Limits::depth` deep."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// Too much beside the arrays.
    pub TOO_MANY: Limit "flax/too-many-values"
        "Names take at most `Limits::header_len` bytes together, a string at most `Limits::text_len`, and there are at most `Limits::attribute_values` values that are not arrays."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
}
