//! Every rule of the format.

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
    /// `__metadata__` is not an object of strings.
    pub METADATA: Malformed "safetensors/metadata"
        "`__metadata__` is an object whose values are strings.";
    /// A duplicate key.
    pub DUPLICATE_KEY: Malformed "safetensors/duplicate-key"
        "Keys are unique in `__metadata__` and in a tensor's entry, and there is one \
         `__metadata__`." remedies [Salvage];
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
        "Tensors fill the data without gaps: the first starts at 0, each other where the one before it ends."
        remedies [Salvage];
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
        "The file ends where its last tensor ends." remedies [Salvage];
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
    /// The name that is reserved for the metadata.
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
    /// An alignment that is not allowed.
    pub ALIGN: Misuse "safetensors/align" "An alignment is a power of two, at most 2^26.";
    /// The bytes written differ from those declared.
    pub DECLARED: Misuse "safetensors/declared"
        "The tensors written match those declared: unique names, these sizes, in this order, nothing missing.";
}
