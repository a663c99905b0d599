//! Every rule of the format.

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// Something that would run.
    pub GLOBAL: Unsupported "pytorch/global"
        "A pickle imports only what tensors and plain values are made of."
        remedies [SkipUnknown];
    /// A known call with arguments that are not its own.
    pub CALL: Malformed "pytorch/call"
        "What a pickle calls gets the arguments that torch writes for it.";
    /// Nesting.
    pub DEPTH: Limit "pytorch/depth" "Values nest at most `Limits::depth` deep."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// Too many steps.
    pub TOO_MANY: Limit "pytorch/too-many-values"
        "Visiting all values, shared ones each time, takes at most `Limits::attribute_values` steps."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
    /// A key that gives no name.
    pub KEY: Unsupported "pytorch/key" "Keys on the path to a tensor are plain values, or tuples of them.";
    /// An element type that is not known.
    pub DTYPE: Unsupported "pytorch/dtype" "Storages have a known element type.";
    /// A storage that is not as it should be.
    pub STORAGE: Malformed "pytorch/storage"
        "Every storage is in the file, has one type, and is as long as the pickle says."
        remedies [Salvage];
    /// A storage that is compressed.
    pub COMPRESSED: Unsupported "pytorch/compressed" "The entries of storages are stored as they are, or compressed by Deflate.";
    /// A view outside of its storage.
    pub VIEW: Malformed "pytorch/view"
        "A tensor lies inside its storage: offset and strides are not negative, and there is a stride for each dimension.";
    /// A tensor without elements of its own.
    pub NO_ELEMENTS: Unsupported "pytorch/no-elements" "A tensor has a storage in the file.";
    /// The order of bytes.
    pub BYTE_ORDER: Malformed "pytorch/byte-order" "The order of bytes is `little` or `big`.";
    /// The start of a file of before 1.6.
    pub LEGACY: Malformed "pytorch/legacy"
        "A file from before torch 1.6 consists of five pickles, each with what torch writes there, and of storages.";

    /// What an archive of `torch.export` says of its weights.
    pub EXPORT: Malformed "pytorch/export"
        "The configs of a `torch.export` archive are JSON that gives, for each weight, its entry, type, sizes and strides.";
    /// The table of a distributed checkpoint.
    pub CHECKPOINT: Malformed "pytorch/checkpoint"
        "The `.metadata` of a distributed checkpoint says, for each value, which items of which files hold it.";
    /// An item of one.
    pub ITEM: Malformed "pytorch/item"
        "The item of a chunk is what `torch.save` writes for one tensor, with the type and shape that `.metadata` gives.";
    /// Chunks that are not put together.
    pub CHUNKS: Unsupported "pytorch/chunks"
        "The chunks of a tensor cover its shape, each element once, and are stored row by row; if they do not form a grid, there are at most 4096.";
    /// Items that are not stored as they are.
    pub TRANSFORMED: Unsupported "pytorch/transformed"
        "The items of a distributed checkpoint are stored without transforms."
        hint "save the checkpoint without extensions";

    /// A layout that is not written.
    pub LAYOUT: Unsupported "pytorch/layout" "A tensor to be written is dense, or a view with strides."
        remedies [MakeDense];
    /// Elements that torch does not have.
    pub ELEMENT_TYPE: Unsupported "pytorch/element-type"
        "Elements to be written have a type that torch has, with 8 bits or more."
        remedies [LeaveOut];
    /// Not what was declared.
    pub DECLARED: Misuse "pytorch/declared"
        "Tensors are written one after the other, under unique names.";
    /// Compression, or another digest.
    pub ENCODING: Unsupported "pytorch/encoding"
        "Storages are stored raw, with the CRC-32 of the zip." remedies [StoreRaw];
    /// An alignment that cannot be.
    pub ALIGN: Misuse "pytorch/align" "The alignment is a power of two up to 64.";
}
