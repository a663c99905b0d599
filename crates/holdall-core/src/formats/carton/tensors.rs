//! `tensor_data/index.toml`: tensors for self-tests and examples.

use super::value::ValueType;

/// A row of `tensor_data/index.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorRow {
    /// Unique in the file.
    pub name: String,
    /// What it is.
    pub kind: TensorKind,
}

/// What a row of `tensor_data/index.toml` stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TensorKind {
    /// A file of numbers (`.bin`) or of texts (`.toml`).
    Plain {
        /// Type of its elements.
        ty: ValueType,
        /// Elements along each dimension; empty for a scalar.
        shape: Vec<u64>,
        /// Name of a file in `tensor_data`.
        file: String,
    },
    /// Tensors of one type and rank, by name.
    Nested {
        /// Names of plain tensors of the file.
        inner: Vec<String>,
    },
}
