//! Every rule of the format.

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// A version that is not known.
    pub VERSION: Unsupported "hdf5/version"
        "Superblocks have version 0 to 3, and all other structures have a known version.";
    /// A superblock that is not valid.
    pub SUPERBLOCK: Malformed "hdf5/superblock"
        "A superblock is complete, has addresses and lengths of 2, 4 or 8 bytes, and gives the address of the root group.";
    /// The file is cut.
    pub TRUNCATED: Malformed "hdf5/truncated" "The file has the length that its superblock gives."
        remedies [Salvage];
    /// An address outside of the file.
    pub BOUNDS: Malformed "hdf5/bounds" "Every block that the file refers to lies inside the file.";
    /// A block or message that differs from the specification.
    pub STRUCTURE: Malformed "hdf5/structure"
        "Blocks and messages have the signatures, types and lengths of the specification.";
    /// A checksum that does not match.
    pub CHECKSUM: Integrity "hdf5/checksum" "Every block matches the checksum that follows it."
        hint "the bytes changed since they were written: fetch or restore the file again";
    /// A block that refers to itself.
    pub LOOP: Malformed "hdf5/loop" "No block of a header, a tree or a table contains itself, no virtual dataset is made of itself, and blocks are not shared so often that reading them takes more than 64 times the bytes of the file.";
    /// Groups are nested too deep.
    pub DEPTH: Limit "hdf5/depth" "Groups nest at most `Limits::depth` deep."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// Too many values of attributes.
    pub TOO_MANY: Limit "hdf5/too-many-values"
        "All attributes together have at most `Limits::attribute_values` values; values of variable length and virtual datasets take at most `Limits::header_len` bytes in memory."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
    /// An invalid name of a link.
    pub NAME: Malformed "hdf5/name" "Links have UTF-8 names that are not empty, contain no `/`, and are unique in their group.";
    /// An element type that is not supported.
    pub DTYPE: Unsupported "hdf5/dtype"
        "Elements are integers, floats, complex numbers, booleans, strings, bytes, or references to objects; or arrays, compounds or sequences of these.";
    /// A layout of data that is not supported.
    pub LAYOUT: Unsupported "hdf5/layout" "Data is contiguous, compact or chunked, or of blocks of other datasets of the file, which have the same type."
        hint "copy the virtual dataset to a plain dataset with the program that wrote it";
    /// Data in other files.
    pub EXTERNAL: Unsupported "hdf5/external" "The data of a dataset is in the file itself."
        hint "the program that wrote it can write the dataset without external storage";
    /// A filter that is not supported.
    pub FILTER: Unsupported "hdf5/filter"
        "Chunks are filtered by deflate, shuffle, fletcher32, LZF or scaleoffset only."
        hint "`h5repack` writes the file with other filters";
    /// A link that leads out of the file.
    pub LINK: Unsupported "hdf5/link" "Links and references lead to objects in the file.";
    /// A shared message in an unsupported place.
    pub SHARED: Unsupported "hdf5/shared"
        "A shared message is in an object header, or in the header of a named type.";
    /// An invalid chunk.
    pub CHUNK: Malformed "hdf5/chunk"
        "A chunk has elements, as many dimensions as the dataset, and a position in it that no other chunk has.";
    /// Weights of Keras that are compressed.
    pub COMPRESSED: Unsupported "hdf5/compressed" "The weights in a `.keras` file are stored uncompressed.";

    /// A layout that the format cannot hold.
    pub FORM: Unsupported "hdf5/form" "A tensor to be written is dense, or a dataset whose records are structs of fixed size."
        remedies [MakeDense];
    /// Elements that the format cannot hold.
    pub ELEMENT_TYPE: Unsupported "hdf5/element-type"
        "Elements to be written are numbers, complex numbers or booleans with 8 bits or more."
        remedies [DropLogicalTypes];
    /// A tensor that cannot be a dataset.
    pub FIT: Unsupported "hdf5/fit"
        "A tensor to be written has at most 32 dimensions, and a name of parts separated by `/` that is not also a group.";
    /// The tensors written differ from those declared.
    pub DECLARED: Misuse "hdf5/declared"
        "Tensors are declared before the first byte is written, then written as declared, in order.";
    /// Compression or a digest.
    pub ENCODING: Unsupported "hdf5/encoding" "Components are stored raw, without a digest."
        remedies [StoreRaw];
    /// An alignment that is not allowed.
    pub ALIGN: Misuse "hdf5/align" "The alignment is a power of two up to 2^26.";
}
