//! HDF5, as far as it holds arrays: what h5py, Keras and others keep weights in.
//!
//! # What
//! Groups, as folders are, of datasets: arrays with attributes. A dataset is a tensor under its path. Keras's `.keras` is a
//! zip, whose `model.weights.h5` is read.
//!
//! # Layout
//! ```text
//! superblock     at byte 0, 512, 1024, …: how long addresses are, where the root is
//! object header  of a group or a dataset: messages (type, shape, where the data is, attributes, links), in one block or more
//! groups         version 1: a B-tree of symbol tables, names in a heap; later: links as messages, or in a fractal heap with a B-tree of version 2
//! data           contiguous, in the object header, or in chunks, which a tree or an array leads to
//! ```
//!
//! # Specification
//! HDF5 File Format Specification, versions 1.0 to 3.0 and 4.0: `docs/spec/hdf5.md`. By [`RULES`].
//!
//! # Support
//! Reads superblocks 0 to 3, object headers 1 and 2, groups and attributes of both generations, all layouts of data but virtual ones,
//! all indexes of chunks, the filters deflate, shuffle, fletcher32, LZF and scaleoffset, integers, floats, enumerations, complex numbers,
//! arrays of those, and compounds of all of that and of texts of one length, which are records. Attributes of the root and of groups are attributes of the file, those of datasets of their tensors. Writes what every
//! reader knows: superblock 0, headers of version 1, symbol tables, contiguous data behind all of that; datasets whose records are structs of fixed size are compounds.
//!
//! # Deviations
//! A group that several links lead to is read under the first. Types of elements without a counterpart here, filters, virtual datasets
//! and data in other files are the fault of the one tensor.
//!
//! # Untrusted input
//! Every address is checked against the file, every block with a checksum against it, no block is followed twice, and what
//! blocks share is read in all no more than 64 times the file. The stored length of a chunk is compared
//! with the densest that its filters allow before memory is taken, datasets with [`Limits::decoded_len`], values of attributes and the members of
//! compounds with [`Limits::attribute_values`].
//!
//! [`Limits::decoded_len`]: holdall_core::Limits::decoded_len
//! [`Limits::attribute_values`]: holdall_core::Limits::attribute_values

mod attribute;
mod blocks;
mod chunks;
mod dataset;
mod datatype;
mod decode;
mod encode;
mod fractal;
mod group;
mod header;
mod reader;
mod superblock;
mod tree;
mod values;

use super::{Format, writer};

/// HDF5.
pub static FORMAT: Format = Format {
    id: "hdf5",
    name: "HDF5",
    extensions: &["h5", "hdf5"],
    encode: writer(encode::encoder),
    aligns: true,
    // What the file says of a group is in the first file that has it.
    merges_attributes: true,
    rules: RULES,
    ..Format::read_by(superblock::detect, decode::plain)
};

/// A zip with one in it, beside what Keras says of the model. Of that nothing is known where weights come from elsewhere, so
/// it is not written: Keras loads weights alone from `.weights.h5`.
pub static KERAS: Format = Format {
    id: "keras",
    name: "Keras",
    extensions: &["keras"],
    ..Format::read_by(superblock::is_keras, decode::keras)
};

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// A version that is not known.
    pub VERSION: Unsupported "hdf5/version"
        "Superblocks have version 0 to 3, and all other structures a version that is known.";
    /// The superblock.
    pub SUPERBLOCK: Malformed "hdf5/superblock"
        "A superblock is whole, has addresses and lengths of 2, 4 or 8 bytes, and says where the root is.";
    /// The file is cut.
    pub TRUNCATED: Malformed "hdf5/truncated" "The file is as long as its superblock says."
        remedies [Salvage];
    /// An address.
    pub BOUNDS: Malformed "hdf5/bounds" "Every block that the file leads to lies inside it.";
    /// Something else than it should be.
    pub STRUCTURE: Malformed "hdf5/structure"
        "Blocks and messages have the signatures, types and lengths of the specification.";
    /// A checksum.
    pub CHECKSUM: Integrity "hdf5/checksum" "Every block matches the checksum that follows it."
        hint "the bytes changed since they were written: fetch or restore the file again";
    /// A block that leads to itself.
    pub LOOP: Malformed "hdf5/loop" "No block of a header, a tree or a table contains itself, and blocks are not shared so often that reading them takes more than 64 times the bytes of the file.";
    /// Nesting.
    pub DEPTH: Limit "hdf5/depth" "Groups nest at most `Limits::depth` deep."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// Values of attributes.
    pub TOO_MANY: Limit "hdf5/too-many-values"
        "All attributes together have at most `Limits::attribute_values` values."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
    /// A name.
    pub NAME: Malformed "hdf5/name" "Links have UTF-8 names that are not empty, contain no `/`, and are unique in their group.";
    /// An element type.
    pub DTYPE: Unsupported "hdf5/dtype"
        "Elements are integers, floats, complex numbers, booleans, or texts and bytes of a fixed length; or arrays or compounds of these.";
    /// A layout of data.
    pub LAYOUT: Unsupported "hdf5/layout" "Data is contiguous, compact or chunked."
        hint "a virtual dataset is copied into one of its own by the program that wrote it";
    /// Data elsewhere.
    pub EXTERNAL: Unsupported "hdf5/external" "The data of a dataset is in the file itself."
        hint "the program that wrote it can write the dataset without external storage";
    /// A filter.
    pub FILTER: Unsupported "hdf5/filter"
        "Chunks are filtered by deflate, shuffle, fletcher32, LZF or scaleoffset only."
        hint "`h5repack` writes the file with other filters";
    /// A link.
    pub LINK: Unsupported "hdf5/link" "Links lead to objects in the file.";
    /// A message that is kept elsewhere.
    pub SHARED: Unsupported "hdf5/shared"
        "A shared message is in an object header, or in the header of a named type.";
    /// A chunk.
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
    /// Not what was declared.
    pub DECLARED: Misuse "hdf5/declared"
        "Tensors are declared before the first byte is written, then written as declared, in order.";
    /// Compression or a digest.
    pub ENCODING: Unsupported "hdf5/encoding" "Components are stored raw, without a digest."
        remedies [StoreRaw];
    /// An alignment that cannot be.
    pub ALIGN: Misuse "hdf5/align" "The alignment is a power of two up to 2^26.";
}

/// The attribute by which a dataset says what its elements are, where their type does not: Keras's.
const MARK: &str = "dtype";
