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
mod detect;
mod encode;
mod fractal;
mod group;
mod header;
mod reader;
mod rules;
mod superblock;
mod tree;
mod values;

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
    // What the file says of a group is in the first file that has it.
    merges_attributes: true,
    rules: RULES,
    ..Format::read_by(detect::detect, decode::plain)
};

/// A zip with one in it, beside what Keras says of the model. Of that nothing is known where weights come from elsewhere, so
/// it is not written: Keras loads weights alone from `.weights.h5`.
pub static KERAS: Format = Format {
    id: "keras",
    name: "Keras",
    extensions: &["keras"],
    ..Format::read_by(detect::is_keras, decode::keras)
};

/// The attribute by which a dataset says what its elements are, where their type does not: Keras's.
const MARK: &str = "dtype";
