//! The meaning of sets of tensors as models: which tensors are together one quantized weight, how the tensors of one
//! convention become those of another, and what the files of a tokenizer say.
//!
//! Everything here works on names, shapes, texts and bytes that the caller supplies. It does no I/O.
//!
//! - [`quantized`]: weights that are stored as packed words with scales in further tensors.
//! - [`recipe`]: descriptions, in TOML, of how one set of tensors becomes another.
//! - [`tokenizer`]: the files of a tokenizer as the metadata of GGUF, and back.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::dbg_macro,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]

pub mod quantized;
pub mod recipe;
pub mod tokenizer;

use holdall_core::error::Rule;

/// The tables of rules of this crate.
static TABLES: &[&[&Rule]] = &[quantized::RULES, recipe::RULES, tokenizer::RULES];

/// Returns the rules of this crate.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().copied().flatten().copied()
}
