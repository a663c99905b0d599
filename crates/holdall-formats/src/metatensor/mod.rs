//! Metatensor: a JSON Schema that says what the bytes are, a JSON header that says where, the bytes.
//!
//! # What
//! Dense tensors under names that nest, datasets of records of fixed layout (numbers, strings, structs,
//! unions), and blobs of many strings or ragged rows. The header comes first, as in safetensors, and
//! holds a schema beside the references; values that are not tensors may stand among these.
//!
//! # Layout
//! ```text
//! offset 0    header length n: 8 bytes, little-endian
//! offset 8    header: n bytes of JSON, padded with spaces to a multiple of `data_align`
//! offset 8+n  data: the ranges that references name, gaps only for alignment, to the end of the file
//! ```
//! The header is one object: `{"metatensor": "1.0", "endian": "little", "data_align": 256, "schema": {…},
//! "tensors": {…}, "metadata": {…}}`. `tensors` is an instance of the schema whose leaves are references;
//! what they look like depends on the kind of the node. Elements are little-endian.
//!
//! # Specification
//! `docs/spec/metatensor.md`, sections 1, 6 and 7 here; 2 to 5 are `holdall-schema`. By [`RULES`]: the header's
//! length and keys ([`HEADER_BOUNDS`] to [`PADDING`], and `json/…`), what stands in `tensors`
//! ([`REFERENCE`] to [`COUNT`], and `schema/…`), and where ranges lie ([`OFFSETS`] to [`TRUNCATED`], and
//! `index/overlap`).
//!
//! # Support
//! Reads everything above, and writes it. A tensor is named by its path (`layers[0].w`); datasets have the
//! layout `records`, blobs `blob`, and both the attribute [`KIND_ATTRIBUTE`]. A file that was written
//! without a schema of its own gets one made from its tensors ([`infer()`]), and reading it does not show
//! that one. Under four keys of `metadata` stands what the header has no other place for:
//!
//! | key | value |
//! | --- | --- |
//! | `holdall.attributes` | object of the file's attributes whose keys start with `holdall.` or `metatensor.` |
//! | `holdall.tensor_attributes` | object: name of a tensor → its attributes |
//! | `holdall.names` | object: path → the tensor's name, where that is not a path, or the path of something else |
//! | `holdall.schema` | `"inferred"`: the schema says no more than the tensors do |
//!
//! Refused in writing: other layouts ([`LAYOUT`]), components ([`COMPONENTS`]) and logical types
//! ([`LOGICAL_TYPE`]), records and blobs that nothing is known of ([`KIND`]), and tensors that a schema among
//! the attributes does not describe ([`SCHEMA_FIT`]).
//!
//! # Deviations
//! None: the specification is ours.
//!
//! # Untrusted input
//! Header length: bounded by the file and by [`Limits::header_len`]. The schema: by
//! [`Limits::schema_nodes`]. Counts, shapes, offsets: 64-bit arithmetic that is checked; no data is
//! allocated by them. Nesting: by [`Limits::depth`]. References are read one at a time, beside their nodes in
//! the schema; the kinds that tensors get as attributes are written out once for each node, and bounded
//! together by [`Limits::header_len`].
//!
//! [`Limits::header_len`]: holdall_core::Limits::header_len
//! [`Limits::schema_nodes`]: holdall_core::Limits::schema_nodes
//! [`Limits::depth`]: holdall_core::Limits::depth

mod decode;
mod detect;
mod encode;
mod fit;
mod header;
mod infer;
mod kind;
mod members;
mod metadata;
mod place;
mod plan;
mod ranges;
mod reference;
mod rules;
mod tree;
mod walk;

pub use holdall_schema::{KIND_ATTRIBUTE, SCHEMA_ATTRIBUTE, VALUES_ATTRIBUTE};
pub use infer::infer;
pub use rules::*;

use crate::header::Dialect;
use crate::{Format, IndexLocation, writer};

/// Metatensor.
pub static FORMAT: Format = Format {
    id: "metatensor",
    name: "Metatensor",
    extensions: &["mt"],
    reads: &["1.0"],
    versions: &["1.0"],
    table: Some(header::range),
    encode: writer(encode::encoder),
    index_location: IndexLocation::Start,
    aligns: true,
    has_schema: true,
    gaps: Some(&GAP_BYTES),
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};

/// What the format has of those that start with a header.
static DIALECT: Dialect = Dialect {
    bounds: &HEADER_BOUNDS,
    limit: &HEADER_LIMIT,
    offsets: &OFFSETS,
    encoding: &ENCODING,
    declared: &DECLARED,
    unit: "component",
    gaps: true,
};

/// Bytes of an entry: an offset and a length.
const ENTRY_LEN: u64 = 16;
/// What entries are aligned to.
const ENTRY_ALIGN: u64 = 8;
