//! Weight updates: how training frameworks send changed weights to engines that serve a model, step by step.
//!
//! Two layouts are in use. In [`bytes`], a version is a folder: for each changed tensor there is a zstd frame of the XOR of the old
//! and new bytes, or of the positions and values of the changed bytes, and a checksum of the new bytes; [`VersionIndex`] reads the
//! index of the folder. In [`sparse`], a step is a safetensors file: for each changed tensor the indices of the changed elements, and
//! their new values.
//!
//! `docs/spec/updates.md` describes both. Everything here is logic over bytes in memory: crates above this one find and read the files.

pub mod bytes;
mod checksum;
mod index;
pub mod sparse;

pub use checksum::ChecksumKind;
pub use index::{
    DeltaIndex, VersionIndex, step_of_file, step_text, version_folder, version_of_folder,
};

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The index of a version is damaged or incomplete.
    pub INDEX: Malformed "delta/index"
        "The index of a version is a JSON object: `weight_map` names the file of each tensor, and `metadata` has the texts `version`, `base_version`, `delta_encoding`, `compression_format` and `checksum_format`.";
    /// An encoding is unknown.
    pub ENCODING: Unsupported "delta/encoding"
        "A weight update has the `delta_encoding` xor or overwrite with the `compression_format` zstd, or the index encoding raw or gap_delta.";
    /// The kind of the checksums is unknown.
    pub CHECKSUM_FORMAT: Unsupported "delta/checksum-format"
        "The checksums of a weight update are xxh3-128, blake3 or adler32.";
    /// A tensor lacks a checksum.
    pub CHECKSUM: Malformed "delta/checksum"
        "Every changed tensor of a version has a checksum in the metadata of its file, and every checksum a tensor.";
    /// A difference does not have the length of its tensor.
    pub DIFF_LENGTH: Malformed "delta/diff-length"
        "The difference of a tensor is one zstd frame in a one-dimensional tensor of bytes. It decodes to as many bytes as the tensor has (xor), or to a count, as many positions and as many bytes (overwrite).";
    /// A position is outside its tensor, or out of order.
    pub POSITION: Malformed "delta/position"
        "Positions of changed bytes or elements ascend and lie in their tensor.";
    /// The metadata of a sparse update is incomplete.
    pub SPARSE_HEAD: Malformed "delta/sparse-metadata"
        "A file of the format sparse_weight_patch has version 1, `sparse` True or False, `model_version`, and the counts `num_changed_params`, `total_changed_elements` and `total_elements`, which agree with its tensors.";
    /// The tensors of a sparse update are not pairs of indices and values.
    pub PAIR: Malformed "delta/pair"
        "Each changed tensor of a sparse update has indices (NAME.indices or NAME.idx) and as many values (NAME.values or NAME.val), in one dimension.";
}
