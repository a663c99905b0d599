//! NumPy's files: one array, and zips of them.
//!
//! # What
//! `.npy` is a header and the elements of one array ([`holdall_core::wire::npy`]). `.npz` is a zip whose entries are such files, stored
//! as they are or by Deflate; what NumPy calls `savez` and `savez_compressed`.
//!
//! # Layout
//! ```text
//! w.npy           an entry of the zip: the tensor `w`
//! layers/0/w.npy  the tensor `layers/0/w`
//! holdall/…       ours, where there is something that NumPy has no place for
//! ```
//! The directory at the zip's end is read first, then the header of each array, from the start of its entry. Of a
//! compressed one as much is decoded as its header takes, and the elements follow in the stream.
//!
//! # Specification
//! NEP 1, the documentation of `numpy.lib.format` and `numpy.savez`. By [`RULES`].
//!
//! # Support
//! All versions, both byte orders, both element orders. Times, texts and opaque bytes are what they are made of, and the
//! attribute `numpy.descr` names their type, so that they are written again as they were. Structured arrays are datasets. Written are `.npz`
//! files: entries stored as they are, elements at multiples of 64. Elements of `bf16` and of floats of 8 bits are
//! opaque bytes to NumPy; which they are stands in the entry `holdall/tensors.json`, as attributes of tensors do, and
//! those of the file in `holdall/attributes.json`.
//!
//! # Deviations
//! NumPy takes any entry of a zip for an array or for bytes; here entries that are not named `.npy` are passed over. It runs
//! the pickles of object arrays when it is told to; nothing here does.
//!
//! # Untrusted input
//! The zip is held to [`holdall_core::wire::zip`]. Headers are at most [`HEADER_MAX`](holdall_core::wire::npy::HEADER_MAX) long, decoded ones too. What an entry decodes to
//! is known from the directory, and compared with the shape, with what Deflate can express, and with
//! [`Limits`](holdall_core::Limits). What is wrong with one array is its fault.

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
    stands_beside_weights: true,
    rules: RULES,
    ..Format::read_by(detect::is_zip_of_arrays, decode::arrays)
};

/// What the names of arrays end in.
const EXTENSION: &str = ".npy";
/// Our entries: attributes of the file, and those of tensors.
const ATTRIBUTES: &str = "holdall/attributes.json";
const TENSORS: &str = "holdall/tensors.json";
/// Among the latter, what opaque bytes are.
const TYPE: &str = "holdall.dtype";

/// Whether an entry of the zip may have that name.
fn is_name(name: &str) -> bool {
    !name.contains(['\\', '\0']) && name.split('/').all(|part| part != "..")
}
