//! safetensors: a JSON header, then the bytes of all tensors.
//!
//! # Contents
//! Dense tensors of 22 element types, and text attributes for the file. The header comes first, so the start of a file
//! is enough to read its index, and a writer must know everything before its first byte.
//!
//! # Layout
//! ```text
//! offset 0    header length n: 8 bytes, little-endian
//! offset 8    header: n bytes of JSON, padded with spaces
//! offset 8+n  data: tensors without gaps, to the end of the file
//! ```
//! The header is one object: `{"__metadata__": {"key": "text", …}, "name": {"dtype": "F32",
//! "shape": [2, 3], "data_offsets": [0, 24]}, …}`. Offsets are half-open and count from the start of
//! the data. Elements are little-endian, in row-major order; those of F4 and F6 are packed low bits
//! first, and fill whole bytes.
//!
//! # Specification
//! The README of the reference implementation (huggingface/safetensors) and the checks of its release 0.8.
//! [`RULES`] cover the header's length ([`TOO_SHORT`], [`HEADER_BOUNDS`], [`HEADER_LIMIT`]), its text
//! ([`HEADER_OBJECT`] and the `json/…` rules), its entries ([`METADATA`], [`DUPLICATE_KEY`], [`MISSING_FIELD`],
//! [`DTYPE`], [`OFFSETS`], and `index/…` for sizes and names), and the data, which the tensors must fill exactly:
//! [`HOLE`], [`OVERLAP`], [`TRUNCATED`], [`TRAILING_DATA`].
//!
//! # Support
//! Reads everything above. Writes the same bytes as the reference for the same tensors. An alignment above 8 pads the
//! header so that the data is aligned, and tensors whose size is a multiple of the alignment come first, so that they
//! are aligned too; the others keep their natural alignment. Data that the header cannot store otherwise is under three
//! keys of `__metadata__`, which other readers return as text and this one restores:
//!
//! | key | text |
//! | --- | --- |
//! | `holdall.attributes` | JSON object of the file's attributes that are not text, or whose key starts with `holdall.` |
//! | `holdall.tensor_attributes` | JSON object: name of a tensor → its attributes |
//! | `holdall.aliases` | JSON object: name of a tensor without its own bytes → name of the tensor whose bytes it shares (same dtype and shape) |
//!
//! Values are in the lossless JSON of [`Value::to_json`](holdall_core::model::Value::to_json). Text in another form is
//! kept as an attribute, with a warning. Not written: other layouts ([`LAYOUT`]), more than one component
//! ([`COMPONENTS`]), other logical types ([`LOGICAL_TYPE`]), a tensor named `__metadata__` ([`RESERVED_NAME`]), aliases
//! of another shape or dtype ([`ALIAS`]).
//!
//! # Deviations
//! The README says that a header begins with `{`; the reference reads JSON whitespace before it, and so does Holdall.
//! The reference keeps the last of two entries with the same name, and of two `__metadata__` keys; the README disallows
//! duplicates, and Holdall refuses them. The reference reads an entry written as a JSON array; Holdall does not. Both
//! ignore unknown fields, and `"__metadata__": null`. Both compute the product of a `shape` from the left, and it must
//! fit 64 bits at every step, even if a later zero would make it 0. Both refuse two tensors with the same range, except
//! empty tensors: these may lie at any boundary between tensors.
//!
//! # Untrusted input
//! The length of the header is limited by the length of the file and by [`Limits::header_len`]. Shapes and offsets use
//! checked 64-bit arithmetic; no memory is allocated according to them. Nesting in unknown fields is limited, and
//! parsed without recursion. Keys `holdall.…` are parsed under the same limits, from text that is already in memory.
//!
//! [`Limits::header_len`]: holdall_core::Limits::header_len

mod decode;
mod detect;
mod encode;
mod restore;
mod rules;

pub use rules::{
    ALIAS, ALIGN, COMPONENTS, DECLARED, DTYPE, DUPLICATE_KEY, ENCODING, HEADER_BOUNDS,
    HEADER_LIMIT, HEADER_OBJECT, HOLE, LAYOUT, LOGICAL_TYPE, METADATA, MISSING_FIELD, OFFSETS,
    OVERLAP, RESERVED_NAME, RULES, TOO_SHORT, TRAILING_DATA, TRUNCATED,
};

use crate::header::Dialect;
use crate::{Format, IndexLocation, Shards, writer};

/// safetensors.
pub static FORMAT: Format = Format {
    id: "safetensors",
    name: "safetensors",
    extensions: &["safetensors"],
    table: Some(decode::header_range),
    encode: writer(encode::encoder),
    index_location: IndexLocation::Start,
    shards: Some(Shards::Index),
    framework_key: Some("format"),
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};

/// The key of the file's attributes in a header.
const METADATA_KEY: &str = "__metadata__";

/// The rules and words of this format, for the code shared by formats with a header.
static DIALECT: Dialect = Dialect {
    bounds: &HEADER_BOUNDS,
    limit: &HEADER_LIMIT,
    offsets: &OFFSETS,
    encoding: &ENCODING,
    declared: &DECLARED,
    unit: "tensor",
    gaps: false,
};
