//! PyTorch: what `torch.save` writes, read without running any of it.
//!
//! # What
//! A pickle, which describes a value (dicts of tensors, as a rule), and storages, which hold the elements. The pickle is
//! read as data ([`holdall_core::wire::pickle`]): nothing is imported and nothing is called, and what it would call must be in a short list.
//!
//! # Layout
//! ```text
//! since 1.6      a zip with one top folder: data.pkl, byteorder, version, and data/0, data/1, …: the storages
//! torch.export   a zip with one top folder: archive_format, data/weights/…, data/constants/…, and JSON about those
//! a pickle alone one value, with arrays of NumPy in it (`.pkl`)
//! a folder       distributed checkpoints: `.metadata`, a pickle that says which chunk of which tensor lies in which file ([`checkpoint`])
//! before         five pickles: a number, a version, a dict about the machine, the value, a list of keys; then for each key
//!                i64 how many elements, and they
//! ```
//! A tensor is a view of a storage: an offset, a shape and strides, in elements.
//!
//! # Specification
//! There is none: `docs/spec/pytorch.md` says what torch 2.15 writes and what its `weights_only` reads. By [`RULES`].
//!
//! # Support
//! Reads tensors at any depth of dicts, lists and tuples, under their keys with dots between; parameters; views, of which those that are
//! not row by row have the layout `strided`; tensors that share a storage; sparse tensors; views whose signs are turned; quantized ones, as integers
//! with their scales in attributes; the Python attributes of tensors, as attributes; NumPy arrays and scalars; the objects and constants of TorchScript. All other values are attributes of the file.
//! Writes a dict of dense, strided and quantized tensors, which `torch.load` maps; attributes in entries of our own.
//!
//! # Deviations
//! torch reads NumPy's values only without `weights_only`. It reads compressed and cut storages of mapped files as whatever
//! lies there; here the first are decompressed, and the others refused. A tensor of a subclass cannot be read: the subclass may give its
//! elements another meaning. Hooks, and the state of an object that is not a value, are passed over.
//!
//! # Untrusted input
//! A global that is not in the list, an opcode that is not: refused, named. The number of values, and of steps over values that
//! are shared, is bounded by [`Limits::attribute_values`], and nesting by [`Limits::depth`]. Views are held against their
//! storages, storages against the file.
//!
//! [`Limits::attribute_values`]: holdall_core::Limits::attribute_values
//! [`Limits::depth`]: holdall_core::Limits::depth

pub mod checkpoint;
mod decode;
mod detect;
mod encode;
mod numpy;
mod object;
mod pt2;
mod quantizer;
mod rules;
mod walk;

pub use rules::{
    ALIGN, BYTE_ORDER, CALL, CHECKPOINT, CHUNKS, COMPRESSED, DECLARED, DEPTH, DTYPE, ELEMENT_TYPE,
    ENCODING, EXPORT, GLOBAL, ITEM, KEY, LAYOUT, LEGACY, NO_ELEMENTS, RULES, STORAGE, TOO_MANY,
    TRANSFORMED, VIEW,
};

pub(crate) use super::named::is_dtype;

use super::{Format, writer};

/// PyTorch.
pub static FORMAT: Format = Format {
    id: "pytorch",
    name: "PyTorch",
    extensions: &["pt", "pth", "ckpt", "bin"],
    encode: writer(encode::encoder),
    is_model_file: is_known_name,
    attributes_are_values: true,
    stands_beside_weights: true,
    framework: Some("pt"),
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};

/// Returns whether a file is a model by its name. Files of many kinds are called `.bin`: of these, a few names are known.
fn is_known_name(name: &str, _all: &[String]) -> bool {
    let is_known = || ["pytorch_model", "adapter_model"].iter().any(|own| name.contains(own));
    !name.ends_with(".bin") || is_known()
}

/// The name of a tensor, or of a value, that stands alone.
const ALONE: &str = "data";

/// The attribute of a tensor whose gradient is wanted.
const REQUIRES_GRAD: &str = "torch.requires_grad";

/// The attribute of a tensor that has its Python attributes.
const PYTHON_ATTRIBUTES: &str = "torch.attributes";

/// Our entries in the top folder: attributes of the file, and those of tensors.
const ATTRIBUTES: &str = "holdall/attributes.json";
const TENSORS: &str = "holdall/tensors.json";
