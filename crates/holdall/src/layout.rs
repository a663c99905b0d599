//! The layouts of tensors (dense, sparse, quantized, described), and their elements as numbers.
//!
//! An open file's [`Tensor`](crate::Tensor) returns these views; they can also be created from bytes in
//! memory.

pub use holdall_core::layout::blocks::{Blocks, can_quantize, grid, quantize};
pub use holdall_core::layout::dense::{Dense, Element, row_range};
pub use holdall_core::layout::described::{Described, Description};
pub use holdall_core::layout::float::{decode_f32, decode_f64, into_f32};
pub use holdall_core::layout::number::NumberClass;
pub use holdall_core::layout::quantized::{Grouping, Packing, Quantized, QuantizedParts, Scheme};
pub use holdall_core::layout::sparse::{Coo, CooEntry, Csr, CsrEntry, Indices, Tiles};
pub use holdall_core::layout::strided::Strided;
pub use holdall_core::layout::{Computed, Decoded};

/// Rules of layouts that callers compare errors with.
pub mod rules {
    pub use holdall_core::layout::quantized::COUNTS as QUANTIZED_COUNTS;
    pub use holdall_core::layout::{LENGTH, NOT_A_NUMBER, UNKNOWN_TYPE};
}
