//! zTensor 0.1, 1.0, 1.1 and 1.2.
//!
//! # What
//! A flat run of aligned components and, at the end, a manifest in CBOR that says what they are. The
//! four generations share the extension `.zt`; which one a file is shows in its bytes.
//!
//! # Layout
//! ```text
//! 0            8    magic: `ZTEN0001` (0.1) or `ZTEN1000` (1.0 to 1.2)
//! 64 · n       …    components, each at a multiple of 64, zero padding between
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
//! Writes 0.1, 1.0 and 1.2: what a version cannot hold is refused before a byte is written
//! (`ztensor/layout`, `ztensor/logical-type`, `ztensor/file-attributes`,
//! `ztensor/tensor-attributes`, `ztensor/reserved-field`, `ztensor/one-dtype`,
//! `ztensor/wide-indices`), and so is what no reader would take (`ztensor/components`,
//! `ztensor/align`, `ztensor/declared`). The same tensors give the same bytes.
//!
//! Reads all four generations. Version 2 is a format of its own; other magic numbers are refused
//! (`ztensor/unsupported-container`). A higher minor version is read with a warning; unknown fields
//! are ignored, whatever CBOR they are (`Index::unkept` names them); unknown layouts and logical types are kept whole.
//!
//! # Deviations
//! - 1.0 section 6 wants the manifest smaller than the file less 16 bytes, which refuses the
//!   reference implementation's own empty file. We take "at most".
//! - Where the documents want text, a number or a map, tags are passed over, and text may be of indefinite length.
//! - The 0.1 crate reads a manifest length of 0 as a file without tensors; we refuse it, for the
//!   document has 17 bytes there. It refuses offsets that are not multiples of 64; we warn, as 1.x
//!   readers do.
//! - 0.1 sparse tensors: the crate writes `layout` `sparsecsr` or `sparsecoo` and all in one component, the
//!   document says `sparse` and `sparse_format`, with index arrays in the metadata. Both are read; how
//!   the arrays are named and nested is not said there, so the usual ways are taken. Where `data_endianness` is `big`, the crate swaps
//!   the whole component in units of its dtype, indices too; so do we.
//! - 0.1 `data_endianness` on compressed data is ignored, as the crate ignores it.
//! - A null is read as the absence of an optional field, as the crates' deserializers do.
//! - 0.1 cannot hold a file's attributes. They are written as the custom field
//!   `holdall.file_attributes` of the first tensor and restored on reading.
//! - 0.1 sparse tensors are written as the document has them, their indices in the manifest. The 0.1 crate knows no such
//!   layout. Those that a 0.1 file has in one component stay in one, with the number of non-zero elements as
//!   `nnz`, which alone tells what a compressed one decodes to.
//! - Past 1 MiB of data there may be up to 4095 zero bytes before the manifest, so that a later edit
//!   replaces it without touching a page that holds data. The documents ask for no more padding than
//!   alignment takes, and bound none.
//! - 1.0's `generator` names the program that wrote the file and is not kept.
//!
//! # Untrusted input
//! The manifest's length is checked against the file and [`holdall_core::Limits::manifest_len`]; counts,
//! lengths and nesting inside it by [`holdall_core::wire::cbor`]; dimensions and components of a tensor
//! before they are collected. `offset + length` is added with a check (`index/bounds`). Memory stays
//! within a small multiple of the manifest.

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

/// 1.0 wants padding to be zero, and 1.2 wants writers to make it so; in 0.1 it is not defined.
fn padding(version: &str) -> Option<&'static str> {
    (!version.starts_with("0.")).then_some(rules::warnings::PADDING)
}
