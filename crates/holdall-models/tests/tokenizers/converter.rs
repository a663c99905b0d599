//! Folders of tokenizers whose key–values are known, from llama.cpp's converter.
//!
//! A folder in `corpus/tokenizers` has the files of a tokenizer, and `expected.txt` with a line for each key–value: the
//! key, the type in GGUF and the value as JSON, with tabs between them. The name of the pre-tokenizer is one of several
//! that mean the same, or `*`.

use super::json;
use holdall_core::Limits;
use holdall_core::model::Value;
use holdall_models::tokenizer::{TokenizerFiles, TokenizerMetadata, TokenizerOptions};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub(super) const EXPECTED: &str = "expected.txt";

/// Returns the folders of the corpus, and those in the folder that `HOLDALL_TOKENIZERS` names.
pub(super) fn folders() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tokenizers");
    let more = std::env::var_os("HOLDALL_TOKENIZERS").map(PathBuf::from);
    let mut out = Vec::new();
    for root in std::iter::once(corpus).chain(more) {
        for entry in std::fs::read_dir(&root).unwrap() {
            let path = entry.unwrap().path();
            if path.join(EXPECTED).exists() {
                out.push(path);
            }
        }
    }
    out.sort();
    out
}

pub(super) fn files_of(folder: &Path) -> TokenizerFiles {
    let mut files = TokenizerFiles::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_file() && name != EXPECTED {
            files.insert(name, std::fs::read(path).unwrap());
        }
    }
    files
}

/// Returns the type that the encoder of GGUF gives the value.
fn type_of(metadata: &TokenizerMetadata, key: &str, value: &Value) -> String {
    if let Some((_, name)) = metadata.types.iter().find(|(own, _)| own == key) {
        return name.clone();
    }
    let one = |value: &Value| match value {
        Value::Bool(_) => "bool",
        Value::Float(_) => "f32",
        Value::Text(_) => "string",
        Value::Integer(_) => "u32",
        _ => panic!("{value:?}"),
    };
    match value {
        Value::Array(items) if matches!(items[0], Value::Integer(_)) => "[i32]".to_owned(),
        Value::Array(items) => format!("[{}]", one(&items[0])),
        one_value => one(one_value).to_owned(),
    }
}

/// Returns the key–values as lines, without the name of the pre-tokenizer.
fn lines(metadata: &TokenizerMetadata) -> Vec<String> {
    let mut out = Vec::new();
    for (key, value) in metadata.attributes.iter() {
        let mut line = String::new();
        let kind = type_of(metadata, key, value);
        write!(line, "{key}\t{kind}\t{}", json(value)).unwrap();
        out.push(line);
    }
    out
}

/// Returns the first name of those with the same rules.
fn pre_group(name: &str) -> &str {
    match name {
        "olmo" | "mpt" | "phi-2" | "gpt-2" => "gpt-2",
        "smollm" | "refact" | "starcoder" | "command-r" => "starcoder",
        other => other,
    }
}

#[test]
fn key_values_are_those_of_the_converter() {
    let mut wrong = Vec::new();
    let folders = folders();
    assert!(!folders.is_empty());
    for folder in &folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let found = TokenizerMetadata::from_files(
            &files_of(folder),
            &TokenizerOptions::new(),
            &Limits::default(),
        );
        let found = match found {
            Ok(found) => found,
            Err(e) => {
                wrong.push(format!("{name}: {e}"));
                continue;
            }
        };
        let expected = std::fs::read_to_string(folder.join(EXPECTED)).unwrap();
        let (expected, found): (Vec<&str>, Vec<String>) =
            (expected.lines().collect(), lines(&found));
        for at in 0..expected.len().max(found.len()) {
            let (a, b) = (expected.get(at).copied().unwrap_or(""), found.get(at).map_or("", |l| l));
            let pre = "tokenizer.ggml.pre\tstring\t";
            let (pre_a, pre_b) = (a.strip_prefix(pre), b.strip_prefix(pre));
            let same_pre = match (pre_a, pre_b) {
                (Some(a), Some(b)) => {
                    a == "\"*\"" || pre_group(a.trim_matches('"')) == pre_group(b.trim_matches('"'))
                }
                _ => false,
            };
            if a != b && !same_pre {
                let at =
                    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count().saturating_sub(40);
                let part = |text: &str| {
                    text.chars().skip(at.min(text.chars().count())).take(160).collect::<String>()
                };
                wrong.push(format!("{name}\n  expected {}\n  found    {}", part(a), part(b)));
            } else if pre_a.is_some() && a != b {
                println!("{name}: {} for {}", pre_b.unwrap(), pre_a.unwrap());
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), folders.len(), wrong.join("\n"));
}
