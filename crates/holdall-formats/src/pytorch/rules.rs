//! Every rule of the format.

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// A call or import that could run code.
    pub GLOBAL: Unsupported "pytorch/global"
        "A pickle imports only functions and classes for tensors and plain values."
        remedies [SkipUnknown];
    /// A known function with unexpected arguments.
    pub CALL: Malformed "pytorch/call"
        "A function called by a pickle has the arguments that torch writes for it.";
    /// Values are nested too deep.
    pub DEPTH: Limit "pytorch/depth" "Values nest at most `Limits::depth` deep."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// Too many steps.
    pub TOO_MANY: Limit "pytorch/too-many-values"
        "Visiting all values, shared ones each time, takes at most `Limits::attribute_values` steps."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
    /// A key that cannot be a part of a name.
    pub KEY: Unsupported "pytorch/key" "Keys on the path to a tensor are plain values, or tuples of them.";
    /// An element type that is not known.
    pub DTYPE: Unsupported "pytorch/dtype" "Storages have a known element type.";
    /// A storage that is missing, or of the wrong type or length.
    pub STORAGE: Malformed "pytorch/storage"
        "Every storage is in the file, has one type, and is as long as the pickle says."
        remedies [Salvage];
    /// A storage that is compressed by another method than Deflate.
    pub COMPRESSED: Unsupported "pytorch/compressed" "The entries of storages are stored as they are, or compressed by Deflate.";
    /// A view outside of its storage.
    pub VIEW: Malformed "pytorch/view"
        "A tensor lies inside its storage: offset and strides are not negative, and there is a stride for each dimension.";
    /// A tensor without elements.
    pub NO_ELEMENTS: Unsupported "pytorch/no-elements" "A tensor has a storage in the file.";
    /// An unknown byte order.
    pub BYTE_ORDER: Malformed "pytorch/byte-order" "The byte order is `little` or `big`.";
    /// An invalid start of a file from before torch 1.6.
    pub LEGACY: Malformed "pytorch/legacy"
        "A file from before torch 1.6 consists of five pickles with the contents that torch writes, followed by storages.";

    /// An invalid description of the weights in an archive of `torch.export`.
    pub EXPORT: Malformed "pytorch/export"
        "The configs of a `torch.export` archive are JSON that gives, for each weight, its entry, type, sizes and strides.";
    /// An invalid table of a distributed checkpoint.
    pub CHECKPOINT: Malformed "pytorch/checkpoint"
        "The `.metadata` of a distributed checkpoint gives, for each value, the items and files that contain it.";
    /// An invalid item of a distributed checkpoint.
    pub ITEM: Malformed "pytorch/item"
        "The item of a chunk is what `torch.save` writes for one tensor, with the type and shape that `.metadata` gives.";
    /// Chunks that cannot be joined.
    pub CHUNKS: Unsupported "pytorch/chunks"
        "The chunks of a tensor cover its shape, each element once, and are stored in row-major order; if they do not form a grid, there are at most 4096.";
    /// Items that are stored with transforms.
    pub TRANSFORMED: Unsupported "pytorch/transformed"
        "The items of a distributed checkpoint are stored without transforms."
        hint "save the checkpoint without extensions";

    /// A layout that is not written.
    pub LAYOUT: Unsupported "pytorch/layout" "A tensor to be written is dense, or a view with strides."
        remedies [MakeDense];
    /// Elements that torch does not have.
    pub ELEMENT_TYPE: Unsupported "pytorch/element-type"
        "Elements to be written have a type that torch supports, with 8 bits or more."
        remedies [LeaveOut];
    /// The tensors written differ from those declared.
    pub DECLARED: Misuse "pytorch/declared"
        "Tensors are written one after the other, under unique names.";
    /// Compression, or an unsupported digest.
    pub ENCODING: Unsupported "pytorch/encoding"
        "Storages are stored raw, with the CRC-32 of the zip." remedies [StoreRaw];
    /// An alignment that is not allowed.
    pub ALIGN: Misuse "pytorch/align" "The alignment is a power of two up to 64.";
}
