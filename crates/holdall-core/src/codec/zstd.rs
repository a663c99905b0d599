//! Zstandard.
pub static RULES: &[&crate::error::Rule] = &[];
