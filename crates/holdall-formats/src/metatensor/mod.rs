//! Metatensor: a JSON Schema that describes the bytes, a JSON header that locates them, and the bytes.
//!
//! # Contents
//! Dense tensors with nested names, datasets of records with a fixed layout (numbers, strings, structs, unions), and
//! blobs of many strings or ragged rows. The header comes first, as in safetensors. It contains a schema and the
//! references to the data; plain values may occur among the references.
//!
//! # Layout
//! ```text
//! offset 0    header length n: 8 bytes, little-endian
//! offset 8    header: n bytes of JSON, padded with spaces to a multiple of `data_align`
//! offset 8+n  data: the ranges that references name, gaps only for alignment, to the end of the file
//! ```
//! The header is one object: `{"metatensor": "1.0", "endian": "little", "data_align": 256, "schema": {…},
//! "tensors": {…}, "metadata": {…}}`. `tensors` is an instance of the schema whose leaves are references; the form of a
//! reference depends on the kind of its node. Elements are little-endian.
//!
//! # Specification
//! `docs/spec/metatensor.md`, of which sections 1, 6 and 7 are implemented here, 2 to 5 in `holdall-schema`.
//! [`RULES`] cover the header's length and keys ([`HEADER_BOUNDS`] to [`PADDING`], and `json/…`), the contents of
//! `tensors` ([`REFERENCE`] to [`COUNT`], and `schema/…`), and the position of ranges ([`OFFSETS`] to [`TRUNCATED`],
//! and `index/overlap`).
//!
//! # Support
//! Reads and writes everything above. A tensor is named by its path (`layers[0].w`); datasets have the layout
//! `records`, blobs `blob`, and both have the attribute [`TENSOR_SCHEMA_ATTRIBUTE`]. If there is no schema among the
//! attributes, one is inferred from the tensors ([`infer()`]) when a file is written, and left out when it is read.
//! Data that has no other place in the header is under four keys of `metadata`:
//!
//! | key | value |
//! | --- | --- |
//! | `holdall.attributes` | object of the file's attributes whose keys start with `holdall.` or `metatensor.` |
//! | `holdall.tensor_attributes` | object: name of a tensor → its attributes |
//! | `holdall.names` | object: path → the tensor's name, if the name is not a path or is the path of another tensor |
//! | `holdall.schema` | `"inferred"`: the schema was inferred from the tensors |
//!
//! Not written: other layouts ([`LAYOUT`]), components ([`COMPONENTS`]) and logical types ([`LOGICAL_TYPE`]), records
//! and blobs without a schema ([`KIND`]), and tensors that do not fit a schema among the attributes ([`SCHEMA_FIT`]).
//!
//! # Deviations
//! None: the specification is part of this project.
//!
//! # Untrusted input
//! The length of the header is limited by the length of the file and by [`Limits::header_len`], the schema by
//! [`Limits::schema_nodes`]. Counts, shapes and offsets use checked 64-bit arithmetic; no memory for data is allocated
//! according to them. Nesting is limited by [`Limits::depth`]. References are read one at a time, together with their
//! nodes in the schema. The kinds that tensors have as attributes are written once for each node, and limited together
//! by [`Limits::header_len`].
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

pub use holdall_schema::{SCHEMA_ATTRIBUTE, TENSOR_SCHEMA_ATTRIBUTE, VALUES_ATTRIBUTE};
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

/// The rules and words of this format, for the code shared by formats with a header.
static DIALECT: Dialect = Dialect {
    bounds: &HEADER_BOUNDS,
    limit: &HEADER_LIMIT,
    offsets: &OFFSETS,
    encoding: &ENCODING,
    declared: &DECLARED,
    unit: "component",
    gaps: true,
};

/// The number of bytes of an entry: an offset and a length.
const ENTRY_LEN: u64 = 16;
/// The alignment of entries.
const ENTRY_ALIGN: u64 = 8;
