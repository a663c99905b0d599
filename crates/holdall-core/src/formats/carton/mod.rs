//! Cartons: a model packed with its description, tests and hashes, in a zip or a folder.

pub mod compare;
pub mod description;
pub mod links;
pub mod manifest;
pub mod signature;
pub mod tensors;
pub mod value;
pub mod write;

pub use compare::{Comparison, compare};
pub use description::{
    Description, DimSpec, Example, OptionValue, Reference, Runner, SelfTest, ShapeSpec, TensorSpec,
    Tolerance,
};
pub use links::Links;
pub use manifest::Manifest;
pub use tensors::{TensorKind, TensorRow};
pub use value::{Value, ValueType};
