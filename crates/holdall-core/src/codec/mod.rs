//! Stored bytes to decoded bytes and back, always under [`crate::Limits`].

#[cfg(feature = "carton")]
pub mod deflate;
pub mod zstd;

use crate::error::Rule;

/// Every rule of decompression.
pub static RULES: &[&Rule] = zstd::RULES;
