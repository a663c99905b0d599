//! Cartons: a model packed with its description, tests and hashes, in a zip or a folder.

pub mod compare;
mod contents;
pub mod description;
mod fields;
mod fit;
pub mod links;
pub mod manifest;
pub mod onnx;
mod parse;
pub mod paths;
pub mod rules;
pub mod signature;
mod symlinks;
pub mod tensors;
pub mod value;
pub mod write;
mod zipped;

pub use compare::{Comparison, compare};
pub use contents::{Contents, Found, PackedFile, Texts, sha256, wrong_hash};
pub use description::{
    Description, DimSpec, Example, OptionValue, Reference, Runner, SelfTest, ShapeSpec, TensorSpec,
    Tolerance,
};
pub use links::Links;
pub use manifest::Manifest;
pub use rules::{RULES, warnings};
pub use tensors::{TensorKind, TensorRow};
pub use value::{Value, ValueType};
pub use zipped::read as read_zip;

/// The file that describes the package.
pub const CARTON_TOML: &str = "carton.toml";
/// The file that lists all others.
pub const MANIFEST_NAME: &str = "MANIFEST";
/// The file that says where missing ones are.
pub const LINKS_NAME: &str = "LINKS";
/// The folder of tensors.
pub const TENSOR_DATA: &str = "tensor_data";
/// The table of the tensors in that folder.
pub const TENSOR_INDEX: &str = "tensor_data/index.toml";
