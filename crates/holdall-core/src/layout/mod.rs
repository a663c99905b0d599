//! What components mean together: dense elements, sparse matrices, quantized groups.

pub mod dense;
pub mod float;
pub mod quantized;
pub mod sparse;

use crate::error::Rule;

/// Every rule of the layouts.
pub static RULES: &[&Rule] = &[];
