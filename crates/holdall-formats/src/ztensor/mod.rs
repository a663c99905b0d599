//! zTensor 0.1, 1.0, 1.1 and 1.2.
//!
//! # Contents
//! A flat sequence of aligned components and, at the end, a manifest in CBOR that describes them. The generations share
//! the extension `.zt`; the generation of a file is detected by its bytes.
//!
//! # Layout
//! ```text
//! 0            8    magic: `ZTEN0001` (0.1) or `ZTEN1000` (1.0 to 1.2)
//! 64 · n       …    components, each at a multiple of 64, with zero padding between them
//! m            len  manifest (CBOR)
//! m + len      8    len, u64 little-endian
//! m + len + 8  8    `ZTEN1000`, from 1.1 on
//! ```
//!
//! # Specification
//! The documents of 0.1.0, 1.0.0 and 1.2.0; 1.1 has none and is 1.2 without `type`,
//! `uncompressed_length` and attributes of tensors. Finding the manifest: 1.0 section 6, 1.2 section
//! 5 (`ztensor/too-short`, `ztensor/manifest-bounds`, `ztensor/empty-manifest`,
//! `ztensor/manifest-len`, `ztensor/container`). Versions: 1.0 section 6.1
//! (`ztensor/version-syntax`, `ztensor/unsupported-version`). Schema: 1.0 section 4, 1.2 section 1
//! (`ztensor/missing-field`, `ztensor/digest`, `ztensor/uncompressed-length`). Types: 1.2 section 2
//! (`ztensor/unknown-dtype`). Sparse indices: 1.2 section 3 (`ztensor/index-dtype`). Ranges, sizes,
//! names and overlaps are checked by [`holdall_core::IndexBuilder`].
//!
//! # Support
//! Writes 0.1, 1.0 and 1.2. Tensors that a version cannot store are refused before a byte is written (`ztensor/layout`,
//! `ztensor/logical-type`, `ztensor/file-attributes`, `ztensor/tensor-attributes`, `ztensor/reserved-field`,
//! `ztensor/one-dtype`, `ztensor/wide-indices`), and so are tensors that no reader would accept (`ztensor/components`,
//! `ztensor/align`, `ztensor/declared`). The same tensors result in the same bytes.
//!
//! Reads all four generations. Version 2 is a separate format; other magic numbers are refused
//! (`ztensor/unsupported-container`). A higher minor version is read with a warning. Unknown fields are ignored,
//! whatever CBOR they contain (`Index::unrepresented` lists them). Tensors with unknown layouts and logical types are kept.
//!
//! # Deviations
//! - 1.0 section 6 requires the manifest to be shorter than the file less 16 bytes, which would refuse the reference
//!   implementation's own empty file. Holdall allows it to be at most as long.
//! - Where the documents require text, a number or a map, tags are ignored, and text may have an indefinite length.
//! - The 0.1 crate reads a manifest length of 0 as a file without tensors; Holdall refuses it, because the document
//!   requires at least 17 bytes. The crate refuses offsets that are not multiples of 64; Holdall warns, as 1.x readers
//!   do.
//! - 0.1 sparse tensors: the crate writes `layout` `sparsecsr` or `sparsecoo` with everything in one component, the
//!   document describes `sparse` and `sparse_format`, with index arrays in the metadata. Both are read. The document
//!   does not say how the arrays are named and nested, so the usual forms are accepted. If `data_endianness` is `big`,
//!   the crate swaps the whole component, including indices, in units of its dtype; so does Holdall.
//! - 0.1 `data_endianness` on compressed data is ignored, as the crate ignores it.
//! - A null is read as the absence of an optional field, as the crates' deserializers do.
//! - 0.1 cannot store a file's attributes. They are written as the custom field `holdall.file_attributes` of the first
//!   tensor and restored on reading.
//! - 0.1 sparse tensors are written in the document's form, with the indices in the manifest, which the 0.1 crate
//!   cannot read. If a 0.1 file has them in one component, this is kept when the file is edited, with the number of
//!   non-zero elements as `nnz`, which is needed for the decoded length of a compressed component.
//! - After 1 MiB of data, there may be up to 4095 zero bytes before the manifest, so that a later edit replaces it
//!   without touching a page that contains data. The documents require only the padding for alignment, but do not limit
//!   padding.
//! - The field `generator` of 1.0 names the program that wrote the file, and is not kept.
//!
//! # Untrusted input
//! The manifest's length is checked against the length of the file and [`holdall_core::Limits::manifest_len`]; counts,
//! lengths and nesting inside it by [`holdall_core::wire::cbor`]; the numbers of dimensions and components of a tensor
//! before memory is allocated. `offset + length` is checked for overflow (`index/bounds`). Memory use is at most a
//! small multiple of the manifest's length.

mod decode;
mod detect;
mod encode;
mod fields;
mod fit;
mod footer;
mod lost_end;
mod manifest;
mod respell;
pub mod rules;
mod stated;
mod v0;
mod v1;

use super::{Format, IndexLocation, writer};

/// zTensor.
pub static FORMAT: Format = Format {
    id: "ztensor",
    name: "zTensor",
    extensions: &["zt"],
    reads: &["1.2", "1.1", "1.0", "0.1"],
    versions: &["1.2", "1.0", "0.1"],
    table: Some(|window, limits| Ok(footer::find(window, limits)?.manifest)),
    encode: writer(encode::encoder),
    ends_in_manifest: true,
    old_ends: Some(footer::old_ends),
    aligns: true,
    padding: Some(padding),
    rules: rules::RULES,
    index_location: IndexLocation::End,
    ..Format::read_by(detect::detect, decode::decode)
};

/// Returns the code of the warning for non-zero padding: 1.0 requires padding to be zero, and 1.2 requires it of
/// writers; 0.1 does not define it.
fn padding(version: &str) -> Option<&'static str> {
    (!version.starts_with("0.")).then_some(rules::warnings::PADDING)
}
