//! Recipes: how the tensors and the metadata of one convention become those of another.

/// The rules of this module.
pub static RULES: &[&holdall_core::error::Rule] = &[];
