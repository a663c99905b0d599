//! PyTorch: the files of `torch.save`, which are read without running any code in them.
//!
//! # Contents
//! A file has a pickle, which describes a value (usually dicts of tensors), and storages with the elements. The pickle
//! is parsed as data ([`holdall_core::wire::pickle`]): nothing is imported and nothing is called, and functions that it
//! would call must be in a short list.
//!
//! # Layout
//! ```text
//! since 1.6      a zip with one top folder: data.pkl, byteorder, version, and data/0, data/1, …: the storages
//! torch.export   a zip with one top folder: archive_format, data/weights/…, data/constants/…, and JSON about those
//! a pickle alone one value, with arrays of NumPy in it (`.pkl`)
//! a folder       distributed checkpoints: `.metadata`, a pickle that gives the file of each chunk of a tensor ([`checkpoint`])
//! before         five pickles: a number, a version, a dict about the machine, the value, a list of keys; then for each key
//!                an i64 number of elements, and the elements
//! ```
//! A tensor is a view of a storage: an offset, a shape and strides, in elements.
//!
//! # Specification
//! There is no official one: `docs/spec/pytorch.md` describes the files that torch 2.15 writes and that its
//! `weights_only` reads. [`RULES`] are the rules that are checked.
//!
//! # Support
//! Reads tensors in nested dicts, lists and tuples, named by their keys joined with dots; parameters; views, which have
//! the layout `strided` if they are not in row-major order; tensors that share a storage; sparse tensors; conjugated
//! and negated views; quantized tensors, as integers with their scales in attributes; the Python attributes of tensors,
//! as attributes; NumPy arrays and scalars; the objects and constants of TorchScript. All other values are attributes
//! of the file.
//!
//! Writes a dict of dense, strided and quantized tensors, which `torch.load` can memory-map. Other attributes are in
//! entries added by Holdall.
//!
//! # Deviations
//! torch reads NumPy's values only without `weights_only`. If a file is memory-mapped, torch does not detect storages
//! that are compressed or cut short, and returns wrong elements; here, the former are decompressed, and the latter
//! refused. A tensor of a subclass cannot be read, because the subclass may interpret its elements in another way.
//! Hooks, and the state of objects that are not values, are ignored.
//!
//! # Untrusted input
//! Globals and opcodes that are not in the lists are refused, and named in the error. The number of values, and of
//! steps through shared values, is limited by [`Limits::attribute_values`], and nesting by [`Limits::depth`]. Views are
//! checked against their storages, storages against the file.
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
    often_duplicates_weights: true,
    framework: Some("pt"),
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};

/// Returns `true` if a file is a model, judged by its name. Files of many kinds have the extension `.bin`: of these,
/// only a few names are accepted.
fn is_known_name(name: &str, _all: &[String]) -> bool {
    let is_known = || ["pytorch_model", "adapter_model"].iter().any(|own| name.contains(own));
    !name.ends_with(".bin") || is_known()
}

/// The name of a tensor or a value that is the only one.
const ALONE: &str = "data";

/// The attribute of a tensor that requires a gradient.
const REQUIRES_GRAD: &str = "torch.requires_grad";

/// The attribute of a tensor that has its Python attributes.
const PYTHON_ATTRIBUTES: &str = "torch.attributes";

/// The entries added by Holdall in the top folder: attributes of the file, and those of tensors.
const ATTRIBUTES: &str = "holdall/attributes.json";
const TENSORS: &str = "holdall/tensors.json";
