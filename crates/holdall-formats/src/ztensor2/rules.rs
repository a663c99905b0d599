//! Every rule of the format.

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
        hint "this is a shard: open the file that has the manifest";
    /// A manifest at an invalid offset.
    pub MANIFEST_BOUNDS: Malformed "ztensor2/manifest-bounds"
        "The manifest starts at a multiple of 4096, not at 0, and ends before the footer.";
    /// A manifest over the limit.
    pub MANIFEST_LEN: Limit "ztensor2/manifest-len"
        "A manifest has at most `Limits::manifest_len` bytes, and never more than 1 GiB."
        remedies [RaiseLimit { limit: "manifest_len", at_least: None }];
    /// A manifest that does not match its digest.
    pub MANIFEST_DIGEST: Integrity "ztensor2/manifest-digest"
        "The manifest has the XXH3 that the footer gives."
        hint "the bytes changed since they were written: fetch or restore the file again";
    /// CBOR that is not deterministic.
    pub DETERMINISTIC: Malformed "ztensor2/deterministic"
        "The manifest is one item of deterministic CBOR: shortest forms, definite lengths, keys sorted by their bytes, no tags, at most 32 levels.";
    /// A field that is missing or invalid.
    pub FIELD: Malformed "ztensor2/field"
        "The fields of the manifest are present, and have the types that the specification gives.";
    /// An invalid name.
    pub NAME: Malformed "ztensor2/name"
        "Names, and keys of attributes, have 1 to 1024 bytes, none of them NUL.";
    /// A blob at an invalid offset.
    pub BLOB: Malformed "ztensor2/blob" "Blobs start at a multiple of 4096, and not at 0.";
    /// An unknown element type.
    pub DTYPE: Unsupported "ztensor2/dtype"
        "Parts have a known storage type, and a logical type that is stored as it.";
    /// An invalid digest.
    pub DIGEST: Malformed "ztensor2/digest"
        "A digest is `xxh3:` and 16 or `sha256:` and 64 lower-case hexadecimal digits.";
    /// An unknown encoding.
    pub ENCODING: Unsupported "ztensor2/encoding" "Parts are raw, or encoded by `zt.zstd-seekable/1`.";
    /// A decoded length that is missing, or given without need.
    pub DECODED_LENGTH: Malformed "ztensor2/decoded-length"
        "A part gives its decoded length if, and only if, it is encoded.";
    /// A part in another file that is not available.
    pub SHARD: Unsupported "ztensor2/shard"
        "The parts of a tensor are in the file itself, or in shards in the same folder that have the size given in the manifest."
        hint "the shard NAME of `model.zt` is `model-NAME.zt` in the same folder: put them there";
    /// An invalid name of a shard, or a shard that the manifest does not list.
    pub SHARD_NAME: Malformed "ztensor2/shard-name"
        "Names of shards have up to 64 letters, digits, `.`, `_` and `-`, and parts name only shards that the manifest lists.";
    /// Invalid parameters of a layout.
    pub LAYOUT: Malformed "ztensor2/layout"
        "A known layout has exactly the attributes that belong to it.";
    /// An unknown layout.
    pub OTHER_LAYOUT: Unsupported "ztensor2/other-layout"
        "A tensor to be written is dense, sparse, in groups that `zt.quant_group/1` or `zt.mx/1` can describe, in GGUF blocks, or has an unknown layout."
        remedies [MakeDense, LeaveOut];
    /// An unknown logical type.
    pub LOGICAL_TYPE: Unsupported "ztensor2/logical-type"
        "A part to be written has a logical type that the format defines, or an unknown one."
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
    /// An alignment that is not allowed.
    pub ALIGN: Misuse "ztensor2/align"
        "The requested alignment is a power of two from 4096 to 2097152 (2 MiB).";
    /// The parts written differ from those declared.
    pub DECLARED: Misuse "ztensor2/declared"
        "The tensors written match those declared: unique names, the components of a tensor one after the other, nothing missing.";
}
