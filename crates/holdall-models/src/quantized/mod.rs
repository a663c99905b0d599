//! Quantised weights: the tensors that belong together, and their values.

/// The rules of this module.
pub static RULES: &[&holdall_core::error::Rule] = &[];
