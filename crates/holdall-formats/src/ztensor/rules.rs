//! Every rule of the format, and the codes of its warnings.

holdall_core::error::rules! {
    /// Rules of zTensor.
    pub static RULES;

    /// A container of a generation this version does not read.
    pub UNSUPPORTED_CONTAINER: Unsupported "ztensor/unsupported-container"
        "The file starts with `ZTEN0001` (zTensor 0.1) or `ZTEN1000` (1.0 to 1.2).";
    /// Too short for a footer.
    pub TOO_SHORT: Malformed "ztensor/too-short"
        "A file holds a magic number, a manifest and a footer: at least 17 bytes, or 25 if it ends with a magic number."
        hint "the file was cut short: fetch or write it again";
    /// A manifest that does not fit in the file.
    pub MANIFEST_BOUNDS: Malformed "ztensor/manifest-bounds"
        "The manifest lies between the magic number and the footer."
        hint "the file was cut short or its end overwritten: fetch or write it again"
        remedies [Salvage];
    /// A manifest of no bytes.
    pub EMPTY_MANIFEST: Malformed "ztensor/empty-manifest"
        "The manifest has at least one byte, even in a file without tensors.";
    /// A manifest over the limit.
    pub MANIFEST_LEN: Limit "ztensor/manifest-len"
        "The manifest has at most `Limits::manifest_len` bytes."
        remedies [RaiseLimit { limit: "manifest_len", at_least: None }];
    /// Container and manifest belong to different generations.
    pub CONTAINER: Malformed "ztensor/container"
        "A file that ends with a magic number lists `objects` (1.1 and later); other files list `tensors` (1.0).";
    /// A required field is missing.
    pub MISSING_FIELD: Malformed "ztensor/missing-field"
        "The manifest, every tensor and every component have all the fields that the specification requires.";
    /// A version with invalid syntax.
    pub VERSION_SYNTAX: Malformed "ztensor/version-syntax"
        "`version` is `major.minor` or `major.minor.patch`.";
    /// Another major version.
    pub UNSUPPORTED_VERSION: Unsupported "ztensor/unsupported-version"
        "`version` names major version 1, as the magic number does.";
    /// A dtype outside the closed set.
    pub UNKNOWN_DTYPE: Unsupported "ztensor/unknown-dtype"
        "A dtype is one of the 13 storage types, in the spelling of the file's version.";
    /// An encoding that is neither raw nor zstd.
    pub UNKNOWN_ENCODING: Unsupported "ztensor/unknown-encoding" "An encoding is `raw` or `zstd`.";
    /// 0.1's `data_endianness` is neither little nor big.
    pub UNKNOWN_BYTE_ORDER: Malformed "ztensor/unknown-byte-order"
        "`data_endianness` is `little` or `big`.";
    /// A digest with a value that its algorithm cannot give.
    pub DIGEST: Malformed "ztensor/digest"
        "A crc32c digest is 8 hex digits after an optional `0x`, a sha256 digest 64.";
    /// A raw component with two lengths.
    pub UNCOMPRESSED_LENGTH: Malformed "ztensor/uncompressed-length"
        "`uncompressed_length` of a raw component, if given, is its `length`.";
    /// Sparse indices that are not integers.
    pub INDEX_DTYPE: Malformed "ztensor/index-dtype"
        "`indices`, `indptr` and `coords` are u64 (other integers are read with a warning).";

    /// A layout that the version written lacks.
    pub LAYOUT: Unsupported "ztensor/layout"
        "A tensor to be written has a layout that the version has: 0.1 has dense, sparse_csr, sparse_coo and packed sparse; 1.0 has dense, sparse_csr and sparse_coo; 1.2 also quantized_group, records and blob; all also have any unknown layout, 0.1 with one component."
        remedies [MakeDense, LeaveOut];
    /// A logical type that the version written lacks.
    pub LOGICAL_TYPE: Unsupported "ztensor/logical-type"
        "A component written as 0.1 or 1.0 has no logical type."
        remedies [WriteFormat { format: "ztensor", version: "1.2" }, DropLogicalTypes];
    /// Attributes of the file that the version written cannot hold.
    pub FILE_ATTRIBUTES: Unsupported "ztensor/file-attributes"
        "In version 1.1, a file's attributes are text; in 0.1, the file must have a tensor to hold them."
        remedies [WriteFormat { format: "ztensor", version: "1.2" }, DropAttributes];
    /// Attributes of a tensor that the version written cannot hold.
    pub TENSOR_ATTRIBUTES: Unsupported "ztensor/tensor-attributes"
        "A tensor written as 1.0 has no attributes."
        remedies [WriteFormat { format: "ztensor", version: "1.2" }, DropAttributes];
    /// An attribute with the name of a field of 0.1.
    pub RESERVED_FIELD: Unsupported "ztensor/reserved-field"
        "No attribute of a tensor written as 0.1 has the name of one of 0.1's fields."
        remedies [WriteFormat { format: "ztensor", version: "1.2" }, DropAttributes];
    /// Components of two dtypes in a version that has one dtype per tensor.
    pub ONE_DTYPE: Unsupported "ztensor/one-dtype"
        "The components of a tensor that is written as 1.0 have one dtype, except sparse indices, which are u64."
        remedies [WriteFormat { format: "ztensor", version: "1.2" }, LeaveOut];
    /// Sparse indices to be written that are not u64.
    pub WIDE_INDICES: Unsupported "ztensor/wide-indices"
        "`indices`, `indptr` and `coords` are written as u64."
        remedies [MakeDense, LeaveOut];
    /// A tensor to be written that no decoder would accept.
    pub COMPONENTS: Misuse "ztensor/components"
        "A tensor to be written has the components of its layout, each once, with the lengths that shape and dtype require.";
    /// An alignment that is not allowed.
    pub ALIGN: Misuse "ztensor/align"
        "The requested alignment is a power of two from 64 to 2097152 (2 MiB).";
    /// The components written differ from those declared.
    pub DECLARED: Misuse "ztensor/declared"
        "The tensors written match those declared: unique names, the components of a tensor one after the other, nothing missing.";
}

/// Codes of warnings: for files that are unusual, but valid.
pub mod warnings {
    /// The version is newer than the newest known one, or does not belong to the container's generation.
    pub const VERSION: &str = "ztensor/version";
    /// An offset is not a multiple of 64.
    pub const ALIGNMENT: &str = "ztensor/alignment";
    /// A digest of an unknown algorithm, which cannot be verified.
    pub const UNKNOWN_DIGEST: &str = "ztensor/unknown-digest";
    /// Sparse indices narrower than u64.
    pub const INDEX_DTYPE: &str = "ztensor/index-dtype";
    /// A zstd component of a 1.2 file without `uncompressed_length`.
    pub const UNCOMPRESSED_LENGTH: &str = "ztensor/uncompressed-length";
    /// A 0.1 sparse component whose length does not fit its shape and dtype.
    pub const PACKED_SPARSE: &str = "ztensor/packed-sparse";
    /// A 0.1 `sparse` tensor without a known `sparse_format`.
    pub const SPARSE_FORMAT: &str = "ztensor/sparse-format";
    /// Padding bytes before a component that are not zero.
    pub const PADDING: &str = "ztensor/padding";
    /// A byte order on a compressed 0.1 component, where it has no meaning.
    pub const BYTE_ORDER: &str = "ztensor/byte-order";
}
