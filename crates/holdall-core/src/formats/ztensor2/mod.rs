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
//! “Draft 4”, as `ztensor` 2.1 implements it: `docs/spec/ztensor-2.md`. By [`RULES`].
//!
//! # Support
//! Reads dense tensors, both sparse layouts and blocks of GGUF as what they are, all others by their parts; raw parts and those of frames of
//! zstd; digests over decoded bytes. Does not write.
//!
//! # Deviations
//! Parts that lie in shards are the fault of their tensors. The canonical form is not told from others.
//!
//! # Untrusted input
//! The manifest's place and length are checked against the file and [`Limits::manifest_len`], its digest before it is parsed. Names are at
//! most 1024 bytes, dimensions at most 64.
//!
//! [`Limits::manifest_len`]: crate::Limits::manifest_len

mod decode;
mod deterministic;

use super::Format;

/// zTensor 2.
pub static FORMAT: Format = Format {
    id: "ztensor2",
    name: "zTensor 2",
    extensions: &["zt"],
    reads: &["2"],
    versions: &[],
    detect: decode::detect,
    decode: decode::decode,
    encode: None,
    ends_in_manifest: false,
    old_ends: None,
    aligns: false,
    has_schema: false,
    has_graph: false,
    shards: None,
    gaps: None,
    padding: None,
    rules: RULES,
};

crate::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// The container is cut or damaged.
    pub CONTAINER: Malformed "ztensor2/container"
        "A file has 48 bytes at least, the last of which are a footer with the magic number.";
    /// Another version.
    pub VERSION: Unsupported "ztensor2/version" "The footer says version 2.";
    /// A file without a manifest.
    pub DATA_SHARD: Unsupported "ztensor2/data-shard" "A file that is opened has a manifest."
        hint "this is a shard: open the file that it belongs to";
    /// The manifest's place.
    pub MANIFEST_BOUNDS: Malformed "ztensor2/manifest-bounds"
        "The manifest starts at a multiple of 4096, not 0, and ends before the footer.";
    /// The manifest's length.
    pub MANIFEST_LEN: Limit "ztensor2/manifest-len"
        "A manifest has at most `Limits::manifest_len` bytes, and never more than 1 GiB.";
    /// The manifest's digest.
    pub MANIFEST_DIGEST: Integrity "ztensor2/manifest-digest"
        "The manifest has the XXH3 that the footer says."
        hint "the bytes changed since they were written: fetch or restore the file again";
    /// CBOR that is not deterministic.
    pub DETERMINISTIC: Malformed "ztensor2/deterministic"
        "The manifest is one item of deterministic CBOR: shortest forms, lengths, keys in the order of their bytes, no tags, 32 levels.";
    /// A field that is missing, or not what it should be.
    pub FIELD: Malformed "ztensor2/field"
        "Fields of the manifest are there, and of the kind that the specification gives them.";
    /// A name.
    pub NAME: Malformed "ztensor2/name"
        "Names and keys of attributes have 1 to 1024 bytes, none of them 0.";
    /// A blob's place.
    pub BLOB: Malformed "ztensor2/blob" "Blobs start at a multiple of 4096, not 0.";
    /// An element type.
    pub DTYPE: Unsupported "ztensor2/dtype"
        "Parts have a storage type that is known, and a type beyond it that is stored so.";
    /// A digest.
    pub DIGEST: Malformed "ztensor2/digest"
        "A digest is `xxh3:` and 16 or `sha256:` and 64 lower-case hexadecimal digits.";
    /// An encoding.
    pub ENCODING: Unsupported "ztensor2/encoding" "Parts are raw, or encoded by `zt.zstd-seekable/1`.";
    /// The decoded length.
    pub DECODED_LENGTH: Malformed "ztensor2/decoded-length"
        "Parts that are encoded, and no others, say how long they are decoded.";
    /// A part in another file.
    pub SHARD: Unsupported "ztensor2/shard" "The parts of a tensor are in the file itself."
        hint "the package that wrote it can write the model as one file";
    /// A shard's name or what is said of it.
    pub SHARD_NAME: Malformed "ztensor2/shard-name"
        "Shards have names of up to 64 letters, digits, `.`, `_` and `-`, and parts name those that the manifest lists.";
    /// Parameters of a layout.
    pub LAYOUT: Malformed "ztensor2/layout"
        "Attributes of a layout that is known are those that it has.";
}
