//! Every rule of the format.

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// A version that is not known.
    pub VERSION: Unsupported "gguf/version" "The version is 2 or 3.";
    /// The header ends before it is complete.
    pub HEADER_BOUNDS: Malformed "gguf/header-bounds"
        "The header, with the numbers of key–values and tensors that it states, lies inside the file.";
    /// The header is too long.
    pub HEADER_LIMIT: Limit "gguf/header-limit"
        "The header has at most `Limits::header_len` bytes."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
    /// Too many values.
    pub TOO_MANY_VALUES: Limit "gguf/too-many-values"
        "Key–values hold at most `Limits::attribute_values` values, array items included."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
    /// An invalid key.
    pub KEY: Malformed "gguf/key" "Keys are UTF-8, not empty, and unique.";
    /// A type of values that is not known.
    pub VALUE_TYPE: Malformed "gguf/value-type"
        "The type of a value is one of the 13 of GGUF, and array items are not arrays.";
    /// Text that is too long.
    pub STRING: Malformed "gguf/string"
        "Strings have at most 2^30 bytes, and arrays at most 2^30 items.";
    /// An invalid alignment.
    pub ALIGNMENT: Malformed "gguf/alignment"
        "`general.alignment` is a u32 that is a power of two.";
    /// A name that ggml refuses.
    pub NAME: Malformed "gguf/name" "Names of tensors are UTF-8 and shorter than 128 bytes.";
    /// Too many dimensions.
    pub RANK: Malformed "gguf/rank" "A tensor has at most 4 dimensions, none negative.";
    /// An element type that is not known.
    pub DTYPE: Unsupported "gguf/dtype" "The type of a tensor in a big-endian file is one that ggml defines: for other types, the byte order is unknown.";
    /// Rows that are not whole blocks.
    pub ROWS: Malformed "gguf/rows"
        "The first dimension of a tensor in blocks is a multiple of the block's elements, and the tensor has fewer than 2^63 elements.";
    /// An offset that is not directly after the tensor before.
    pub OFFSET: Malformed "gguf/offset"
        "The offset of a tensor is the sum of the sizes of those before it, each padded to the \
         alignment." remedies [Salvage];
    /// Data that the file lacks.
    pub TRUNCATED: Malformed "gguf/truncated" "The data of every tensor lies inside the file."
        remedies [Salvage];
    /// Blocks of a big-endian file.
    pub BIG_ENDIAN_BLOCKS: Unsupported "gguf/big-endian-blocks"
        "A big-endian file has no IQ2_XXS tensors: ggml does not read them correctly there.";

    /// A layout that the format cannot hold.
    pub LAYOUT: Unsupported "gguf/layout" "A tensor to be written is dense, in blocks, or of a type whose number its layout names (`gguf.type_153`)."
        remedies [MakeDense];
    /// Elements that the format cannot hold.
    pub ELEMENT_TYPE: Unsupported "gguf/element-type"
        "Elements to be written are f64, f32, f16, bf16 or signed integers."
        remedies [LeaveOut];
    /// A tensor that ggml would refuse.
    pub FIT: Unsupported "gguf/fit"
        "A tensor to be written has at most 4 dimensions, and a name shorter than 128 bytes.";
    /// The tensors written differ from those declared.
    pub DECLARED: Misuse "gguf/declared"
        "Tensors are declared before the first byte is written, then written as declared, in order.";
    /// Compression or a digest.
    pub ENCODING: Unsupported "gguf/encoding" "Components are stored raw, without a digest."
        remedies [StoreRaw];
    /// An alignment that is not allowed.
    pub ALIGN: Misuse "gguf/align" "The alignment is a power of two from 8 to 2^26.";
}
