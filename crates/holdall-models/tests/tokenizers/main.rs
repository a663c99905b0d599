//! Tests of tokenizers through the public API.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod back;
mod converter;
mod kinds;
mod random;
mod refused;

use holdall_core::Limits;
use holdall_core::error::Result;
use holdall_core::model::Value;
use holdall_models::tokenizer::{TokenizerFiles, TokenizerMetadata, TokenizerOptions};

/// Returns a set of files with these texts.
fn files(texts: &[(&str, &str)]) -> TokenizerFiles {
    texts.iter().fold(TokenizerFiles::new(), |files, (name, text)| {
        files.with_file(*name, text.as_bytes().to_vec())
    })
}

/// Returns the key–values of files with these texts.
fn read(texts: &[(&str, &str)]) -> Result<TokenizerMetadata> {
    TokenizerMetadata::from_files(&files(texts), &TokenizerOptions::new(), &Limits::default())
}

/// Returns the value of a key as JSON, or `none`.
fn value(metadata: &TokenizerMetadata, key: &str) -> String {
    metadata.attributes.get(key).map_or("none".to_owned(), json)
}

/// Returns a value as JSON, without a space.
fn json(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(json).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_json(),
    }
}
