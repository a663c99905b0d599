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
mod encode;
mod restore;

use crate::header::{Dialect, LEN_BYTES};
use crate::{Format, IndexLocation, Shards, writer};
use holdall_core::window::{Stop, Window};

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
    ..Format::read_by(detect, decode::decode)
};

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// No room for the header's length.
    pub TOO_SHORT: Malformed "safetensors/too-short"
        "A file starts with 8 bytes that give the length of the header.";
    /// The header reaches past the end of the file.
    pub HEADER_BOUNDS: Malformed "safetensors/header-bounds" "The header lies inside the file.";
    /// The header is too long.
    pub HEADER_LIMIT: Limit "safetensors/header-limit"
        "The header has at most `Limits::header_len` bytes; the format allows 100,000,000."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
    /// The header is not an object.
    pub HEADER_OBJECT: Malformed "safetensors/header-object"
        "The header is a JSON object: it begins with `{`.";
    /// `__metadata__` is not a map of text.
    pub METADATA: Malformed "safetensors/metadata"
        "`__metadata__` is an object whose values are strings.";
    /// A key twice.
    pub DUPLICATE_KEY: Malformed "safetensors/duplicate-key"
        "Keys are unique in `__metadata__` and in a tensor's entry, and there is one \
         `__metadata__`.";
    /// An entry lacks a field.
    pub MISSING_FIELD: Malformed "safetensors/missing-field"
        "A tensor's entry has `dtype`, `shape` and `data_offsets`.";
    /// An element type that is not known.
    pub DTYPE: Unsupported "safetensors/dtype"
        "A tensor's dtype is one of the 22 that release 0.8 of the reference names.";
    /// `data_offsets` is not a range.
    pub OFFSETS: Malformed "safetensors/offsets"
        "`data_offsets` is two numbers, a start and an end that is not before the start.";
    /// Bytes that belong to no tensor.
    pub HOLE: Malformed "safetensors/hole"
        "Tensors fill the data without gaps: the first starts at 0, each other where the one before it ends.";
    /// Bytes that belong to two tensors.
    pub OVERLAP: Malformed "safetensors/overlap"
        "No byte belongs to two tensors, and an empty tensor lies between others, not inside one.";
    /// The file ends before its last tensor does.
    pub TRUNCATED: Malformed "safetensors/truncated"
        "The file has all the bytes that its header describes."
        hint "the file was cut short, perhaps by a download that broke off: get it again"
        remedies [Salvage];
    /// The file has bytes after its last tensor.
    pub TRAILING_DATA: Malformed "safetensors/trailing-data"
        "The file ends where its last tensor ends.";
    /// A layout that the format lacks.
    pub LAYOUT: Unsupported "safetensors/layout"
        "safetensors holds dense tensors only."
        remedies [MakeDense, LeaveOut];
    /// A dense tensor with more than its data.
    pub COMPONENTS: Unsupported "safetensors/components"
        "A tensor in safetensors has one component, `data`."
        remedies [LeaveOut];
    /// A logical type that the format lacks.
    pub LOGICAL_TYPE: Unsupported "safetensors/logical-type"
        "A tensor's logical type is one that safetensors has a name for."
        remedies [DropLogicalTypes];
    /// The name that stands for the metadata.
    pub RESERVED_NAME: Unsupported "safetensors/reserved-name"
        "No tensor in safetensors is named `__metadata__`."
        remedies [RenameTensor];
    /// A tensor that shares bytes in a way that cannot be recorded.
    pub ALIAS: Unsupported "safetensors/alias"
        "A tensor that shares the bytes of another in the file has the same dtype and shape."
        remedies [CopyShared];
    /// Compressed bytes, or bytes with a digest.
    pub ENCODING: Unsupported "safetensors/encoding"
        "Data in safetensors is raw and carries no digest."
        remedies [StoreRaw];
    /// An alignment that is not one.
    pub ALIGN: Misuse "safetensors/align" "An alignment is a power of two, at most 2^26.";
    /// The writer was not told the truth.
    pub DECLARED: Misuse "safetensors/declared"
        "What is written matches what was declared: unique names, these sizes, in this order, nothing missing.";
}

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

/// Claims a file whose ninth byte opens an object, unless it is text from the start. The length
/// before it need not be right: it is ours to say what is wrong with it. Whitespace before the `{`
/// counts only when the length is right.
fn detect(window: &Window) -> Result<bool, Stop> {
    let head = window.head(LEN_BYTES.saturating_add(2))?;
    let Some((len, start)) = head.split_first_chunk::<8>() else {
        return Ok(false);
    };
    let is_inside = u64::from_le_bytes(*len) <= window.len().saturating_sub(LEN_BYTES);
    let is_text = len.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
    Ok(match start {
        [b'{'] => !is_text,
        [b'{', next, ..] => !is_text && matches!(next, b'"' | b'}' | b' ' | b'\t' | b'\r' | b'\n'),
        [b' ' | b'\t' | b'\r' | b'\n', ..] => is_inside && !is_text,
        _ => false,
    })
}
