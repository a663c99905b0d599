//! Files of a model's folder other than tensors, as the Hugging Face hub lays models out: `config.json`, and the files
//! of a tokenizer.

use crate::shards::{contain_model, files};
use holdall_core::{Attributes, Limits, Result, Value, Warning};
use std::borrow::Cow;
use std::fs;
use std::io::Read as _;
use std::path::Path;

/// Information from the files next to a model's tensors.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelFolder {
    /// The main entries of `config.json`: model type, sizes, quantization. For a model with several parts, entries that
    /// are only in its text part are included.
    pub config: Attributes,
    /// The names of the tokenizer's files, sorted.
    pub tokenizer: Vec<String>,
    /// Warnings, such as a `config.json` that cannot be read.
    pub warnings: Vec<Warning>,
}

const CONFIG: &str = "config.json";
/// The code of the warning about an unreadable `config.json`.
const UNREADABLE: &str = "folder/config";
/// The keys of `config.json` that are reported.
const FACTS: [&str; 14] = [
    "model_type",
    "architectures",
    "torch_dtype",
    "dtype",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "num_local_experts",
    "vocab_size",
    "max_position_embeddings",
    "tie_word_embeddings",
    "quantization_config",
];
/// The key under which a model with several parts has the configuration of its text part.
const TEXT_PART: &str = "text_config";
/// Files of tokenizers, besides those whose names begin with `tokenizer`.
const TOKENIZER: [&str; 7] = [
    "added_tokens.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "vocab.json",
    "vocab.txt",
];

impl ModelFolder {
    /// Reads the folder of a model. Returns `None` for any other folder.
    ///
    /// # Errors
    /// Returns an `Io` error if the folder cannot be listed.
    pub fn detect(path: impl AsRef<Path>, limits: &Limits) -> Result<Option<ModelFolder>> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Ok(None);
        }
        let all = files(path)?;
        if !contain_model(path, &all) {
            return Ok(None);
        }
        let mut folder = ModelFolder::default();
        for name in all {
            if name.starts_with("tokenizer") || TOKENIZER.contains(&&*name) {
                folder.tokenizer.push(name);
            } else if name == CONFIG {
                match facts(&path.join(name), limits) {
                    Ok(config) => folder.config = config,
                    Err(what) => {
                        let message = format!("`{CONFIG}` cannot be read: {what}");
                        folder.warnings.push(Warning::new(UNREADABLE, message));
                    }
                }
            }
        }
        Ok(Some(folder))
    }
}

/// Returns the main entries of a `config.json`, or a message why it cannot be read.
fn facts(path: &Path, limits: &Limits) -> std::result::Result<Attributes, String> {
    let mut bytes = Vec::new();
    let most = limits.text_len;
    let file = fs::File::open(path).map_err(|e| e.to_string())?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > most {
        return Err(format!("it has more than {most} bytes"));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let text = without_infinities(text);
    let all = Attributes::from_json(&text, limits.depth).map_err(|e| e.to_string())?;
    let part = match all.get(TEXT_PART) {
        Some(Value::Map(pairs)) => &pairs[..],
        _ => &[],
    };
    let of_part = |key: &str| {
        let own = part.iter().find(|(name, _)| name.as_text() == Some(key));
        own.map(|(_, value)| value)
    };
    let mut facts = Attributes::new();
    for key in FACTS {
        match all.get(key).or_else(|| of_part(key)) {
            Some(Value::Null) | None => {}
            Some(value) => facts.push(key, value.clone()),
        }
    }
    Ok(facts)
}

/// Replaces the numbers that Python writes but JSON does not have (`NaN`, `Infinity` and `-Infinity`) by `null`, except
/// in strings.
pub fn without_infinities(text: &str) -> Cow<'_, str> {
    if !["NaN", "Infinity"].iter().any(|word| text.contains(word)) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    // Alternates between text outside strings and strings. An escaped quote does not end a string.
    let mut rest = text;
    while let Some(quote) = rest.find('"') {
        let (outside, string) = rest.split_at(quote);
        let end = end_of_string(string);
        out.push_str(&replaced(outside));
        out.push_str(&string[..end]);
        rest = &string[end..];
    }
    out.push_str(&replaced(rest));
    out.into()
}

fn replaced(outside: &str) -> String {
    ["-Infinity", "Infinity", "NaN"]
        .iter()
        .fold(outside.to_owned(), |text, word| text.replace(word, "null"))
}

/// Returns the offset after the string that begins at the start of `text`, which must be a quote.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}
