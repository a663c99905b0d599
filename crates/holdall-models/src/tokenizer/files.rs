//! The files of a tokenizer, as bytes.

use super::rules::{FILE_LENGTH, JSON, MISSING_FILE, TEXT};
use holdall_core::error::{Error, Remedy, Result};
use holdall_core::{Bytes, Limits};
use holdall_json::{Value, parse};

/// The names of the files that a tokenizer may have in its folder. Further chat templates are in the folder
/// `additional_chat_templates`, with names that end in `.jinja`.
pub const TOKENIZER_FILES: [&str; 14] = [
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
];

/// The files of a tokenizer that are in its folder, by name.
#[derive(Debug, Clone, Default)]
pub struct TokenizerFiles {
    files: Vec<(String, Bytes)>,
}

impl TokenizerFiles {
    /// Creates an empty set of files.
    pub fn new() -> TokenizerFiles {
        TokenizerFiles::default()
    }

    /// Adds a file. Its name is the path in the folder, with `/`. A file with the same name is replaced.
    #[must_use]
    pub fn with_file(mut self, name: impl Into<String>, bytes: impl Into<Bytes>) -> TokenizerFiles {
        self.insert(name, bytes);
        self
    }

    /// Adds a file, as [`TokenizerFiles::with_file`] does.
    pub fn insert(&mut self, name: impl Into<String>, bytes: impl Into<Bytes>) {
        let name = name.into();
        self.files.retain(|(own, _)| *own != name);
        self.files.push((name, bytes.into()));
    }

    /// Returns the names of the files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the bytes of a file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(own, _)| own == name).map(|(_, bytes)| &**bytes)
    }

    /// Returns `true` if there is a file of this name.
    pub fn has(&self, name: &str) -> bool {
        self.file(name).is_some()
    }
}

/// The files, and the limits under which they are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) files: &'a TokenizerFiles,
    pub(super) limits: &'a Limits,
}

impl<'a> Source<'a> {
    /// Returns the bytes of a file if there is one, after checking their number.
    pub(super) fn bytes(self, name: &str) -> Result<Option<&'a [u8]>> {
        let Some(bytes) = self.files.file(name) else { return Ok(None) };
        let (len, most) = (bytes.len() as u64, self.limits.header_len);
        if len > most {
            let e = FILE_LENGTH.broken(format!("it has {len} bytes, at most {most} are allowed"));
            let remedy = Remedy::RaiseLimit { limit: "header_len", at_least: Some(len) };
            return Err(e.with_remedy(remedy).in_source(name));
        }
        Ok(Some(bytes))
    }

    /// Returns the text of a file if there is one.
    pub(super) fn text(self, name: &str) -> Result<Option<&'a str>> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        let text = std::str::from_utf8(bytes).map_err(|e| {
            let at = e.valid_up_to() as u64;
            TEXT.broken(format!("byte {at} is not UTF-8"))
                .at(at..at.saturating_add(1))
                .in_source(name)
        })?;
        Ok(Some(text))
    }

    /// Returns the value in a JSON file if there is one.
    pub(super) fn json(self, name: &str) -> Result<Option<Value>> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        parse(bytes, self.limits.depth).map(Some).map_err(|e| not_json(e, name))
    }
}

/// Returns the error for a JSON file that cannot be read.
pub(super) fn not_json(e: Error, name: &str) -> Error {
    e.with_rule(&JSON).in_source(name)
}

/// Returns the error for a file that the tokenizer needs.
pub(super) fn missing_file(names: &str) -> Error {
    MISSING_FILE.broken(format!("there is no {names}"))
}
