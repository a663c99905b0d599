//! zTensor 2.
//!
//! # Contents
//! Parts of tensors as page-aligned blobs and, at the end, a manifest in deterministic CBOR that describes them. It has
//! only the name and the extension in common with the earlier generations.
//!
//! # Layout
//! ```text
//! 0            8    magic
//! 4096 · n     …    blobs; the manifest is one
//! len - 40     8    offset of the manifest
//! len - 32     8    length of the manifest
//! len - 24     8    XXH3 of the manifest
//! len - 16     4    2, the version
//! len - 12     4    not used
//! len - 8      8    the magic again
//! ```
//!
//! # Specification
//! “Draft 4”, as `ztensor` 2.1 implements it: `docs/spec/ztensor2.md`.
//! [`RULES`] are the rules that are checked.
//!
//! # Support
//! Reads dense tensors, both sparse layouts, quantized groups, MX and GGUF blocks with their meaning, and all other
//! layouts as parts; raw parts and parts in seekable zstd; digests over decoded bytes, and of whole shards. Writes the
//! same, also a model in shards. At an alignment of 65536, with raw parts and equal parts shared, the file is in the
//! canonical form.
//!
//! # Deviations
//! Parts in unavailable shards are a fault of their tensors. Files in the canonical form are not distinguished from
//! others.
//!
//! # Untrusted input
//! The location and length of the manifest are checked against the length of the file and [`Limits::manifest_len`], and
//! its digest is verified before it is parsed. Names have at most 1024 bytes, tensors at most 64 dimensions.
//!
//! [`Limits::manifest_len`]: holdall_core::Limits::manifest_len

mod content;
mod decode;
mod detect;
mod deterministic;
mod encode;
mod fit;
mod groups;
mod manifest;
mod root;
mod rules;

pub use rules::{
    ALIGN, ATTRIBUTE, BLOB, COMPONENTS, CONTAINER, DATA_SHARD, DECLARED, DECODED_LENGTH,
    DETERMINISTIC, DIGEST, DTYPE, ENCODING, FIELD, LAYOUT, LOGICAL_TYPE, MANIFEST_BOUNDS,
    MANIFEST_DIGEST, MANIFEST_LEN, NAME, OTHER_LAYOUT, RULES, SHARD, SHARD_NAME, TENSOR_NAME,
    VERSION,
};

pub use root::{Root, ShardObjects, shard_objects};

use super::{ExternalFiles, Format, IndexLocation, Shards, writer};
use holdall_core::model::block::BlockType;
use holdall_core::model::{Algorithm, Digest, Hasher, Layout, element_count};

/// zTensor 2.
pub static FORMAT: Format = Format {
    id: "ztensor2",
    name: "zTensor 2",
    extensions: &["zt"],
    reads: &["2"],
    versions: &["2"],
    encode: writer(encode::encoder),
    aligns: true,
    shards: Some(Shards::Root),
    external_files: Some(ExternalFiles {
        missing: &SHARD,
        outside: &SHARD_NAME,
        names: decode::shards,
        path: shard_path,
        decode: decode::decode_with,
    }),
    content: Some(content::digest),
    rules: RULES,
    index_location: IndexLocation::End,
    ..Format::read_by(detect::detect, decode::decode)
};

const MAGIC: &[u8; 8] = b"\x89ZT2\r\n\x1a\n";
/// The length of the footer, in bytes.
const FOOTER: u64 = 40;
/// The alignment of blobs, in bytes.
const PAGE: u64 = 4096;
/// The maximum length of a manifest in the specification.
const MAX_MANIFEST: u64 = 1 << 30;
const SEEKABLE: &str = "zt.zstd-seekable/1";
const SPARSE_CSR: &str = "zt.sparse_csr/1";
const SPARSE_COO: &str = "zt.sparse_coo/1";
/// The type of a dense tensor of `f4_e2m1` whose last byte has one element: bytes of an unknown logical type.
const ODD_F4: &str = "zt.f4_e2m1";
/// Attributes of blocks.
const BLOCK_ELEMENTS: &str = "elems_per_block";
const BLOCK_BYTES: &str = "block_bytes";

/// Returns the layout with this name. Unknown layouts keep their name.
fn layout_of(text: &str) -> Layout {
    match text {
        "dense" => Layout::Dense,
        SPARSE_CSR => Layout::SparseCsr,
        SPARSE_COO => Layout::SparseCoo,
        _ => match text.strip_suffix("/1").and_then(BlockType::by_layout) {
            Some(block_type) => Layout::Blocks(block_type),
            None => Layout::Other(text.into()),
        },
    }
}

/// Returns `true` if `len` bytes are a tensor with two elements in each byte except the last.
fn is_odd(shape: &[u64], layout: &Layout, len: u64) -> bool {
    let count = element_count(shape).filter(|count| !count.is_multiple_of(2));
    *layout == Layout::Dense && count.is_some_and(|count| count.div_ceil(2) == len)
}

/// Returns `true` if a tensor, a part or an attribute may have this name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 1024 && !name.contains('\0')
}

/// Returns the path of a shard: `model-NAME.zt` for `model.zt`.
fn shard_path(file: &str, name: &str) -> String {
    let stem = match file.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => file,
    };
    format!("{stem}-{name}.zt")
}

/// Returns the digest of a manifest.
fn xxh3(bytes: &[u8]) -> u64 {
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    hasher.update(bytes);
    match hasher.finish() {
        Digest::Xxh3(sum) => sum,
        _ => 0,
    }
}
