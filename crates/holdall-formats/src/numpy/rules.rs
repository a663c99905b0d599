//! Every rule of the format.

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// A name that leads out of a folder.
    pub NAME: Malformed "npz/name"
        "The name of an entry has no part `..`, and no backslash.";
    /// A compression method that NumPy does not support.
    pub METHOD: Unsupported "npz/method"
        "The entry of an array is stored, or compressed by Deflate.";

    /// A layout that the format cannot hold.
    pub LAYOUT: Unsupported "npz/layout"
        "A tensor to be written is dense, by rows or by columns, or a dataset whose records are structs of fixed size."
        remedies [MakeDense];
    /// Elements that the format cannot hold.
    pub ELEMENT_TYPE: Unsupported "npz/element-type"
        "Elements to be written have a type that NumPy supports, or have 8 or 16 bits."
        remedies [LeaveOut];
    /// A name that a zip entry cannot have.
    pub FIT: Unsupported "npz/fit"
        "The name of a tensor to be written has at most 65,000 bytes, no NUL, no backslash, and no part `..`."
        remedies [RenameTensor];
    /// The tensors written differ from those declared.
    pub DECLARED: Misuse "npz/declared"
        "Tensors are written one after the other, under unique names.";
    /// Compression, or another digest.
    pub ENCODING: Unsupported "npz/encoding"
        "Components are stored raw, with the CRC-32 of the zip." remedies [StoreRaw];
    /// An alignment that is not allowed.
    pub ALIGN: Misuse "npz/align" "The alignment is a power of two up to 64.";
}
