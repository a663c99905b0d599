//! Tokenizers: the files of a Hugging Face folder as the metadata of GGUF, and back.

/// The rules of this module.
pub static RULES: &[&holdall_core::error::Rule] = &[];
