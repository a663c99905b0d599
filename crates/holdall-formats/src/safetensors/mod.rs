//! safetensors: a JSON header, then the bytes of all tensors.
//!
//! # What
//! Dense tensors of 22 element types, and text attributes for the file. The header comes first, so a
//! reader learns everything from the start of the file, and a writer must know everything before
//! its first byte.
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
//! The README of the reference implementation (huggingface/safetensors) and what its release 0.8
//! checks. By [`RULES`]: the header's length ([`TOO_SHORT`], [`HEADER_BOUNDS`], [`HEADER_LIMIT`]),
//! its text ([`HEADER_OBJECT`] and the `json/…` rules), its entries ([`METADATA`], [`DUPLICATE_KEY`],
//! [`MISSING_FIELD`], [`DTYPE`], [`OFFSETS`], and `index/…` for sizes and names), and the data, which
//! the tensors tile exactly: [`HOLE`], [`OVERLAP`], [`TRUNCATED`], [`TRAILING_DATA`].
//!
//! # Support
//! Reads everything above. Writes the very bytes the reference writes for the same tensors; an
//! alignment above 8 pads the header so that the data starts aligned, and puts the tensors first whose
//! size is a multiple of it, so that those start aligned too; the others keep their natural alignment.
//! What the header cannot say is kept under three keys of `__metadata__`, which other readers show as
//! text and this one turns back:
//!
//! | key | text |
//! | --- | --- |
//! | `holdall.attributes` | JSON object of the file's attributes that are not text, or whose key starts with `holdall.` |
//! | `holdall.tensor_attributes` | JSON object: name of a tensor → its attributes |
//! | `holdall.aliases` | JSON object: name of a tensor without bytes of its own → name of the tensor whose bytes it shares (same dtype and shape) |
//!
//! Values are in the lossless JSON of [`Value::to_json`](holdall_core::model::Value::to_json). Text that is
//! not of this form stays an attribute, with a warning. Refused in writing: other layouts ([`LAYOUT`]),
//! more than one component ([`COMPONENTS`]), other logical types ([`LOGICAL_TYPE`]), a tensor named
//! `__metadata__` ([`RESERVED_NAME`]), aliases of another shape or dtype ([`ALIAS`]).
//!
//! # Deviations
//! The README says that a header begins with `{`; the reference reads JSON whitespace before it, and
//! so do we. The reference keeps the last of two entries with one name, and of two `__metadata__` keys;
//! the README disallows them and we refuse them. It reads an entry written as a JSON array; we do
//! not. It ignores fields it does not know, and `"__metadata__": null`, and so do we. In a
//! `shape` the product is taken from the left, and must fit 64 bits all along, even when a later zero
//! would make it 0: as the reference. Two tensors on one range are refused, as there, but for
//! empty ones: they may stand at any boundary between tensors.
//!
//! # Untrusted input
//! Header length: bounded by the file and by [`Limits::header_len`]. Shapes, offsets: 64-bit arithmetic
//! that is checked; no data is allocated by them. Nesting in fields we do not know: bounded, and not
//! recursive. Keys of `holdall.…`: parsed under the same bounds, from text that is in memory already.
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

/// What the format has of those that start with a header.
static DIALECT: Dialect = Dialect {
    bounds: &HEADER_BOUNDS,
    limit: &HEADER_LIMIT,
    offsets: &OFFSETS,
    encoding: &ENCODING,
    declared: &DECLARED,
    unit: "tensor",
    gaps: false,
};
