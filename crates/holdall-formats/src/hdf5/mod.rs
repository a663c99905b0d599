//! HDF5, as far as it contains arrays: the format in which h5py, Keras and others store weights.
//!
//! # Contents
//! Groups, which are like folders, contain datasets, which are arrays with attributes. A dataset is a tensor whose name
//! is its path. A `.keras` file is a zip, of which `model.weights.h5` is read.
//!
//! # Layout
//! ```text
//! superblock     at offset 0, 512, 1024, …: the length of addresses, the address of the root group
//! object header  of a group or a dataset: messages (type, shape, location of data, attributes, links), in one or more blocks
//! groups         version 1: a B-tree of symbol tables, names in a heap; later: links as messages, or in a fractal heap with a B-tree of version 2
//! data           contiguous, in the object header, or in chunks, which are found by a tree or an array
//! ```
//!
//! # Specification
//! HDF5 File Format Specification, versions 1.0 to 3.0 and 4.0: `docs/spec/hdf5.md`.
//! [`RULES`] are the rules that are checked.
//!
//! # Support
//! Reads superblocks 0 to 3, object headers 1 and 2, groups and attributes of both generations, all layouts of data, all
//! types of chunk indexes, the filters deflate, shuffle, fletcher32, LZF and scaleoffset, integers, floats,
//! enumerations, complex numbers, arrays of these, and compounds of all of these and of fixed-length strings, which
//! become records. Strings and sequences of variable length, references to objects and compounds with these become
//! records with a heap, which the index contains. Virtual datasets are read if their parts are in the same file.
//! Attributes of the root and of groups are attributes of the file, those of datasets are attributes of the tensors.
//!
//! Writes structures that every reader supports: superblock 0, headers of version 1, symbol tables, and contiguous data
//! after all of these. Datasets whose records are structs of fixed size are written as compounds.
//!
//! # Deviations
//! A group that several links refer to is read under the first. Element types without a counterpart, unknown filters,
//! and data in other files are a fault of their tensor only.
//!
//! # Untrusted input
//! Every address is checked against the length of the file, every block that has a checksum against its checksum, and
//! no block is followed twice. Reading all blocks, including shared ones, takes at most 64 times the length of the
//! file. Before memory is allocated, the stored length of a chunk is compared with the maximum compression of its
//! filters. Datasets are limited by [`Limits::decoded_len`], values of attributes and members of compounds by
//! [`Limits::attribute_values`], and values of variable length and virtual datasets, which are in memory, together by
//! [`Limits::header_len`]. A value that many elements refer to is converted once; types nest at most 16 deep.
//!
//! [`Limits::header_len`]: holdall_core::Limits::header_len
//! [`Limits::decoded_len`]: holdall_core::Limits::decoded_len
//! [`Limits::attribute_values`]: holdall_core::Limits::attribute_values

mod attribute;
mod blocks;
mod chunks;
mod dataset;
mod datatype;
mod decode;
mod detect;
mod encode;
mod group;
mod header;
mod heaps;
mod mapping;
mod reader;
mod resolve;
mod rules;
mod superblock;
mod tree;
mod values;
mod variable_length;

pub use rules::{
    ALIGN, BOUNDS, CHECKSUM, CHUNK, COMPRESSED, DECLARED, DEPTH, DTYPE, ELEMENT_TYPE, ENCODING,
    EXTERNAL, FILTER, FIT, FORM, LAYOUT, LINK, LOOP, NAME, RULES, SHARED, STRUCTURE, SUPERBLOCK,
    TOO_MANY, TRUNCATED, VERSION,
};

use super::{Format, writer};

/// HDF5.
pub static FORMAT: Format = Format {
    id: "hdf5",
    name: "HDF5",
    extensions: &["h5", "hdf5"],
    encode: writer(encode::encoder),
    aligns: true,
    // The attributes of a group are in the first file that has the group.
    merges_attributes: true,
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode_hdf5)
};

/// A zip that contains an HDF5 file and Keras's description of the model. It cannot be written, because the description
/// is unknown if the weights come from another file. Keras also loads weights alone, from `.weights.h5`.
pub static KERAS: Format = Format {
    id: "keras",
    name: "Keras",
    extensions: &["keras"],
    ..Format::read_by(detect::is_keras, decode::decode_keras)
};

/// The attribute with which Keras names the element type of a dataset, if the datatype does not.
const MARK: &str = "dtype";
