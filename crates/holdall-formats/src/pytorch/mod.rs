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
//! with their scales in attributes; NumPy arrays and scalars; the objects and constants of TorchScript. All other values are attributes of the file.
//! Writes a dict of dense and strided tensors, which `torch.load` maps; attributes in entries of our own.
//!
//! # Deviations
//! torch reads NumPy's values only without `weights_only`. It reads compressed and cut storages of mapped files as whatever
//! lies there; both are refused here. A hook, a subclass and the state of an object that is not a value are passed over.
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
mod encode;
mod numpy;
mod object;
mod pt2;
mod walk;

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
    ..Format::read_by(decode::detect, decode::decode)
};

/// Returns whether a file is a model by its name. Files of many kinds are called `.bin`: of these, a few names are known.
fn is_known_name(name: &str, _all: &[String]) -> bool {
    let is_known = || ["pytorch_model", "adapter_model"].iter().any(|own| name.contains(own));
    !name.ends_with(".bin") || is_known()
}

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// Something that would run.
    pub GLOBAL: Unsupported "pytorch/global"
        "A pickle imports only what tensors and plain values are made of."
        remedies [SkipUnknown];
    /// A known call with arguments that are not its own.
    pub CALL: Malformed "pytorch/call"
        "What a pickle calls gets the arguments that torch writes for it.";
    /// Nesting.
    pub DEPTH: Limit "pytorch/depth" "Values nest at most `Limits::depth` deep."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// Too many steps.
    pub TOO_MANY: Limit "pytorch/too-many-values"
        "Visiting all values, shared ones each time, takes at most `Limits::attribute_values` steps."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
    /// A key that gives no name.
    pub KEY: Unsupported "pytorch/key" "Keys on the path to a tensor are plain values, or tuples of them.";
    /// An element type that is not known.
    pub DTYPE: Unsupported "pytorch/dtype" "Storages have a known element type.";
    /// A storage that is not as it should be.
    pub STORAGE: Malformed "pytorch/storage"
        "Every storage is in the file, has one type, and is as long as the pickle says.";
    /// A storage that is compressed.
    pub COMPRESSED: Unsupported "pytorch/compressed" "The entries of storages are stored uncompressed.";
    /// A view outside of its storage.
    pub VIEW: Malformed "pytorch/view"
        "A tensor lies inside its storage: offset and strides are not negative, and there is a stride for each dimension.";
    /// A tensor without elements of its own.
    pub NO_ELEMENTS: Unsupported "pytorch/no-elements" "A tensor has a storage in the file.";
    /// The order of bytes.
    pub BYTE_ORDER: Malformed "pytorch/byte-order" "The order of bytes is `little` or `big`.";
    /// The start of a file of before 1.6.
    pub LEGACY: Malformed "pytorch/legacy"
        "A file from before torch 1.6 consists of five pickles, each with what torch writes there, and of storages.";

    /// What an archive of `torch.export` says of its weights.
    pub EXPORT: Malformed "pytorch/export"
        "The configs of a `torch.export` archive are JSON that gives, for each weight, its entry, type, sizes and strides.";
    /// The table of a distributed checkpoint.
    pub CHECKPOINT: Malformed "pytorch/checkpoint"
        "The `.metadata` of a distributed checkpoint says, for each value, which items of which files hold it.";
    /// An item of one.
    pub ITEM: Malformed "pytorch/item"
        "The item of a chunk is what `torch.save` writes for one tensor, with the type and shape that `.metadata` gives.";
    /// Chunks that are not put together.
    pub CHUNKS: Unsupported "pytorch/chunks"
        "The chunks of a tensor cover its shape, each element once, and are stored row by row; if they do not form a grid, there are at most 4096.";
    /// Items that are not stored as they are.
    pub TRANSFORMED: Unsupported "pytorch/transformed"
        "The items of a distributed checkpoint are stored without transforms."
        hint "save the checkpoint without extensions";

    /// A layout that is not written.
    pub LAYOUT: Unsupported "pytorch/layout" "A tensor to be written is dense, or a view with strides."
        remedies [MakeDense];
    /// Elements that torch does not have.
    pub ELEMENT_TYPE: Unsupported "pytorch/element-type"
        "Elements to be written have a type that torch has, with 8 bits or more."
        remedies [LeaveOut];
    /// Not what was declared.
    pub DECLARED: Misuse "pytorch/declared"
        "Tensors are written one after the other, under unique names.";
    /// Compression, or another digest.
    pub ENCODING: Unsupported "pytorch/encoding"
        "Storages are stored raw, with the CRC-32 of the zip." remedies [StoreRaw];
    /// An alignment that cannot be.
    pub ALIGN: Misuse "pytorch/align" "The alignment is a power of two up to 64.";
}

/// The name of a tensor, or of a value, that stands alone.
const ALONE: &str = "data";

/// The attribute of a tensor whose gradient is wanted.
const REQUIRES_GRAD: &str = "torch.requires_grad";

/// Our entries in the top folder: attributes of the file, and those of tensors.
const ATTRIBUTES: &str = "holdall/attributes.json";
const TENSORS: &str = "holdall/tensors.json";
