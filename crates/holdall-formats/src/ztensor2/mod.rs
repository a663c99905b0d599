//! zTensor 2.
//!
//! # What
//! Parts of tensors as blobs on pages of their own, and at the end a manifest in deterministic CBOR that says what they are. It shares
//! nothing with the generations before but its name and extension.
//!
//! # Layout
//! ```text
//! 0            8    magic
//! 4096 · n     …    blobs; the manifest is one
//! len - 40     8    offset of the manifest
//! len - 32     8    its length
//! len - 24     8    its XXH3
//! len - 16     4    2, the version
//! len - 12     4    not used
//! len - 8      8    the magic again
//! ```
//!
//! # Specification
//! “Draft 4”, as `ztensor` 2.1 implements it: `docs/spec/ztensor2.md`. By [`RULES`].
//!
//! # Support
//! Reads dense tensors, both sparse layouts, quantized groups, MX and blocks of GGUF as what they are, all others by their parts; raw parts and those of frames of
//! zstd; digests over decoded bytes, and of whole shards. Writes the same, a model in shards too; at an alignment of 65536, raw, with equal parts shared, in the canonical form.
//!
//! # Deviations
//! Parts in shards that are not at hand are the fault of their tensors. The canonical form is not told from others.
//!
//! # Untrusted input
//! The manifest's place and length are checked against the file and [`Limits::manifest_len`], its digest before it is parsed. Names are at
//! most 1024 bytes, dimensions at most 64.
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

pub use root::{Objects, Root, objects_of};

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
    beside: Some(ExternalFiles {
        away: &SHARD,
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
/// Bytes of the footer.
const FOOTER: u64 = 40;
/// What offsets are multiples of.
const PAGE: u64 = 4096;
/// The specification's own cap of a manifest.
const MOST_MANIFEST: u64 = 1 << 30;
const SEEKABLE: &str = "zt.zstd-seekable/1";
const SPARSE_CSR: &str = "zt.sparse_csr/1";
const SPARSE_COO: &str = "zt.sparse_coo/1";
/// The type here of a dense tensor of `f4_e2m1` whose last byte has one element: bytes of a type that is not known.
const ODD_F4: &str = "zt.f4_e2m1";
/// Attributes of blocks.
const BLOCK_ELEMENTS: &str = "elems_per_block";
const BLOCK_BYTES: &str = "block_bytes";

/// The layout of a name; those that are not known here keep theirs.
fn layout_of(text: &str) -> Layout {
    match text {
        "dense" => Layout::Dense,
        SPARSE_CSR => Layout::SparseCsr,
        SPARSE_COO => Layout::SparseCoo,
        _ => match text.strip_suffix("/1").and_then(BlockType::by_layout) {
            Some(of) => Layout::Blocks(of),
            None => Layout::Other(text.into()),
        },
    }
}

/// Whether `len` bytes are a tensor of two elements a byte but for the last.
fn is_odd(shape: &[u64], layout: &Layout, len: u64) -> bool {
    let count = element_count(shape).filter(|count| !count.is_multiple_of(2));
    *layout == Layout::Dense && count.is_some_and(|count| count.div_ceil(2) == len)
}

/// Whether a tensor, a part or an attribute may have this name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 1024 && !name.contains('\0')
}

/// The file of a shard: `model-NAME.zt` beside `model.zt`.
fn shard_path(file: &str, name: &str) -> String {
    let stem = match file.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => file,
    };
    format!("{stem}-{name}.zt")
}

/// The digest of a manifest.
fn xxh3(bytes: &[u8]) -> u64 {
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    hasher.update(bytes);
    match hasher.finish() {
        Digest::Xxh3(sum) => sum,
        _ => 0,
    }
}
