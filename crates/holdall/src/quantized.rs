//! Quantized weights: weights that a model stores as several tensors.
//!
//! [`File::quantized_weights`](crate::File::quantized_weights) lists them, and
//! [`File::dequantized`](crate::File::dequantized) returns the model with each of them as one tensor.
//! `docs/spec/quantized.md` describes the kinds.

pub use holdall_models::quantized::{Companion, KINDS, Kind, QuantizedWeight, WeightValues};
