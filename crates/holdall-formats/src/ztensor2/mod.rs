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
mod deterministic;
mod encode;
mod fit;
mod groups;
mod manifest;
mod root;

pub use root::{Objects, Root, objects_of};

use super::{Beside, Format, IndexLocation, Shards, writer};
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
    beside: Some(Beside {
        away: &SHARD,
        outside: &SHARD_NAME,
        names: decode::shards,
        path: shard_path,
        decode: decode::decode_with,
    }),
    content: Some(content::digest),
    rules: RULES,
    index_location: IndexLocation::End,
    ..Format::read_by(decode::detect, decode::decode)
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

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// The container is cut or damaged.
    pub CONTAINER: Malformed "ztensor2/container"
        "A file has at least 48 bytes; the last 48 are a footer with the magic number.";
    /// Another version.
    pub VERSION: Unsupported "ztensor2/version" "The footer gives version 2.";
    /// A file without a manifest.
    pub DATA_SHARD: Unsupported "ztensor2/data-shard" "A file to be opened has a manifest."
        hint "this is a shard: open the file that it belongs to";
    /// The manifest's place.
    pub MANIFEST_BOUNDS: Malformed "ztensor2/manifest-bounds"
        "The manifest starts at a multiple of 4096, not at 0, and ends before the footer.";
    /// The manifest's length.
    pub MANIFEST_LEN: Limit "ztensor2/manifest-len"
        "A manifest has at most `Limits::manifest_len` bytes, and never more than 1 GiB."
        remedies [RaiseLimit { limit: "manifest_len", at_least: None }];
    /// The manifest's digest.
    pub MANIFEST_DIGEST: Integrity "ztensor2/manifest-digest"
        "The manifest has the XXH3 that the footer gives."
        hint "the bytes changed since they were written: fetch or restore the file again";
    /// CBOR that is not deterministic.
    pub DETERMINISTIC: Malformed "ztensor2/deterministic"
        "The manifest is one item of deterministic CBOR: shortest forms, definite lengths, keys sorted by their bytes, no tags, at most 32 levels.";
    /// A field that is missing, or not what it should be.
    pub FIELD: Malformed "ztensor2/field"
        "The fields of the manifest are present, and have the types that the specification gives.";
    /// A name.
    pub NAME: Malformed "ztensor2/name"
        "Names, and keys of attributes, have 1 to 1024 bytes, none of them NUL.";
    /// A blob's place.
    pub BLOB: Malformed "ztensor2/blob" "Blobs start at a multiple of 4096, and not at 0.";
    /// An element type.
    pub DTYPE: Unsupported "ztensor2/dtype"
        "Parts have a known storage type, and a logical type that is stored as it.";
    /// A digest.
    pub DIGEST: Malformed "ztensor2/digest"
        "A digest is `xxh3:` and 16 or `sha256:` and 64 lower-case hexadecimal digits.";
    /// An encoding.
    pub ENCODING: Unsupported "ztensor2/encoding" "Parts are raw, or encoded by `zt.zstd-seekable/1`.";
    /// The decoded length.
    pub DECODED_LENGTH: Malformed "ztensor2/decoded-length"
        "A part gives its decoded length if, and only if, it is encoded.";
    /// A part in another file.
    pub SHARD: Unsupported "ztensor2/shard"
        "The parts of a tensor are in the file itself, or in shards beside it that have the size given in the manifest."
        hint "the shard NAME of `model.zt` is `model-NAME.zt` in the same folder: put them there";
    /// A shard's name, or what the manifest states of it.
    pub SHARD_NAME: Malformed "ztensor2/shard-name"
        "Shards have names of up to 64 letters, digits, `.`, `_` and `-`, and parts name only shards that the manifest lists.";
    /// Parameters of a layout.
    pub LAYOUT: Malformed "ztensor2/layout"
        "A known layout has exactly the attributes that belong to it.";
    /// An unknown layout.
    pub OTHER_LAYOUT: Unsupported "ztensor2/other-layout"
        "A tensor to be written is dense, sparse, in groups that `zt.quant_group/1` or `zt.mx/1` can describe, in GGUF blocks, or has an unknown layout."
        remedies [MakeDense, LeaveOut];
    /// An unknown logical type.
    pub LOGICAL_TYPE: Unsupported "ztensor2/logical-type"
        "A part to be written has one of the logical types that the format has, or an unknown one."
        remedies [WriteFormat { format: "ztensor", version: "1.2" }, DropLogicalTypes];
    /// An attribute that cannot be kept.
    pub ATTRIBUTE: Unsupported "ztensor2/attribute"
        "Attributes to be written have names of 1 to 1024 bytes without NUL, and values that deterministic CBOR can hold without tags: at most 32 levels in the manifest, scalar keys, one NaN. The attributes of blocks are not named like the format's own."
        remedies [WriteFormat { format: "ztensor", version: "1.2" }, DropAttributes];
    /// A tensor's name that cannot be written.
    pub TENSOR_NAME: Unsupported "ztensor2/tensor-name"
        "The name of a tensor to be written has 1 to 1024 bytes, none of them NUL."
        remedies [RenameTensor];
    /// A tensor to be written that no decoder would accept.
    pub COMPONENTS: Misuse "ztensor2/components"
        "A tensor to be written has the components of its layout, each once, with the types and lengths that the layout requires."
        remedies [LeaveOut];
    /// An alignment that is not one.
    pub ALIGN: Misuse "ztensor2/align"
        "The requested alignment is a power of two from 4096 to 2097152 (2 MiB).";
    /// The encoder was not told the truth.
    pub DECLARED: Misuse "ztensor2/declared"
        "What is written matches what was declared: unique names, the components of a tensor one after the other, nothing missing.";
}
