//! NumPy's files: one array, and zips of arrays.
//!
//! # Contents
//! `.npy` is a header and the elements of one array ([`holdall_core::wire::npy`]). `.npz` is a zip whose entries are
//! such files, stored or compressed by Deflate, as `numpy.savez` and `numpy.savez_compressed` write them.
//!
//! # Layout
//! ```text
//! w.npy           an entry of the zip: the tensor `w`
//! layers/0/w.npy  the tensor `layers/0/w`
//! holdall/…       added by Holdall, for attributes and types that NumPy cannot store
//! ```
//! The directory at the zip's end is read first, then the header of each array, at the start of its entry. A compressed
//! entry is decoded only as far as its header; the elements follow in the stream.
//!
//! # Specification
//! NEP 1, the documentation of `numpy.lib.format` and `numpy.savez`.
//! [`RULES`] are the rules that are checked.
//!
//! # Support
//! Reads all versions, both byte orders, both element orders. Times, strings and opaque bytes become tensors of numbers
//! with the attribute `numpy.descr`, which names their type, so that they are written as they were. Structured arrays
//! are datasets.
//!
//! Writes `.npz` files with uncompressed entries, and elements at multiples of 64. NumPy reads elements of `bf16` and
//! of 8-bit floats as opaque bytes; their type is in the entry `holdall/tensors.json`, with the attributes of tensors.
//! The attributes of the file are in `holdall/attributes.json`.
//!
//! # Deviations
//! NumPy reads other entries of a zip as bytes; here, entries whose name does not end in `.npy` are ignored. On
//! request, NumPy runs the pickles of object arrays; Holdall never does.
//!
//! # Untrusted input
//! The zip is checked by [`holdall_core::wire::zip`]. Headers have at most
//! [`HEADER_MAX`](holdall_core::wire::npy::HEADER_MAX) bytes, also after decoding. The decoded length of an entry is
//! known from the directory, and compared with the shape, with the maximum compression of Deflate, and with
//! [`Limits`](holdall_core::Limits). Errors in one array are a fault of this tensor only.

mod decode;
mod detect;
mod encode;
mod rules;

pub use rules::{ALIGN, DECLARED, ELEMENT_TYPE, ENCODING, FIT, LAYOUT, METHOD, NAME, RULES};

use super::{Format, IndexLocation, writer};

/// One array.
pub static NPY: Format = Format {
    id: "npy",
    name: "NumPy array",
    extensions: &["npy"],
    index_location: IndexLocation::Start,
    // A single array is not a model.
    is_model_file: |_, _| false,
    ..Format::read_by(detect::is_array, decode::array)
};

/// A zip of arrays.
pub static NPZ: Format = Format {
    id: "npz",
    name: "NumPy",
    extensions: &["npz"],
    encode: writer(encode::encoder),
    often_duplicates_weights: true,
    rules: RULES,
    ..Format::read_by(detect::is_zip_of_arrays, decode::arrays)
};

/// The extension of arrays.
const EXTENSION: &str = ".npy";
/// The entries added by Holdall: attributes of the file, and those of tensors.
const ATTRIBUTES: &str = "holdall/attributes.json";
const TENSORS: &str = "holdall/tensors.json";
/// The attribute of a tensor that names the type of opaque bytes.
const TYPE: &str = "holdall.dtype";

/// Returns `true` if an entry of the zip may have this name.
fn is_name(name: &str) -> bool {
    !name.contains(['\\', '\0']) && name.split('/').all(|part| part != "..")
}
