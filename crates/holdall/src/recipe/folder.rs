//! The texts in a model's folder: its configuration, and the files of its tokenizer.

use crate::error::io;
use holdall_core::limits::Limits;
use holdall_core::{Bytes, Result, Value};
use holdall_json::UTF8;
use holdall_models::recipe::CONFIG_LENGTH;
use holdall_models::tokenizer::{TOKENIZER_FILES, TokenizerFiles};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

const CONFIG: &str = "config.json";

/// The configuration of a model.
pub(super) struct ModelTexts {
    pub(super) config: Value,
}

impl ModelTexts {
    /// Reads the configuration of the model in a folder.
    ///
    /// # Errors
    /// Io if the folder lacks it, and the errors of JSON.
    pub(super) fn read(folder: &Path, limits: &Limits) -> Result<ModelTexts> {
        Ok(ModelTexts { config: json(&folder.join(CONFIG), limits)? })
    }

    /// Returns `true` if the configuration says which architecture the model has.
    pub(super) fn names_architecture(&self) -> bool {
        let Value::Map(pairs) = &self.config else { return false };
        let named = |key: &Value| matches!(key.as_text(), Some("architectures" | "model_type"));
        pairs.iter().any(|(key, value)| named(key) && *value != Value::Null)
    }

    /// Reads those of the JSON files that the folder has.
    ///
    /// # Errors
    /// Io, and the errors of JSON.
    pub(super) fn files<'a>(
        &self,
        folder: &Path,
        paths: impl Iterator<Item = &'a str>,
        limits: &Limits,
    ) -> Result<Vec<(String, Value)>> {
        let mut out = Vec::new();
        for name in paths {
            let path = folder.join(name);
            if let Some(bytes) = read(&path, limits)? {
                let value = parse(&bytes, limits).map_err(|e| e.in_source(path.display()))?;
                out.push((name.to_owned(), value));
            }
        }
        Ok(out)
    }
}

/// Reads a file of JSON.
///
/// # Errors
/// Io if it does not exist, and the errors of JSON.
pub(super) fn json(path: &Path, limits: &Limits) -> Result<Value> {
    let bytes = read(path, limits)?.ok_or_else(|| {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        io(missing, "opening the configuration").in_source(path.display())
    })?;
    parse(&bytes, limits).map_err(|e| e.in_source(path.display()))
}

/// Reads the files of the tokenizer that the folder has.
///
/// # Errors
/// Io; Limit if a file is too long.
pub(super) fn tokenizer_files(folder: &Path, limits: &Limits) -> Result<TokenizerFiles> {
    let mut out = TokenizerFiles::new();
    for name in TOKENIZER_FILES {
        if let Some(bytes) = read(&folder.join(name), limits)? {
            out.insert(name, bytes);
        }
    }
    let templates = folder.join("additional_chat_templates");
    let Ok(entries) = std::fs::read_dir(&templates) else { return Ok(out) };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.retain(|name| name.ends_with(".jinja"));
    names.sort();
    for name in names {
        if let Some(bytes) = read(&templates.join(&name), limits)? {
            out.insert(format!("additional_chat_templates/{name}"), bytes);
        }
    }
    Ok(out)
}

/// Returns the name of the folder, also if the path is `.`.
pub(super) fn name(folder: &Path) -> String {
    let whole = folder.canonicalize();
    let whole = whole.as_deref().unwrap_or(folder);
    whole.file_name().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Returns a model's name as the start of a file's name: without characters that separate folders or that systems refuse.
pub(super) fn file_stem(name: &str) -> String {
    let is_refused = |c: char| c.is_control() || "/\\:*?\"<>|".contains(c);
    let name: String = name.chars().map(|c| if is_refused(c) { '-' } else { c }).collect();
    match name.trim_matches(|c: char| c == '.' || c.is_whitespace()) {
        "" => "model".to_owned(),
        name => name.to_owned(),
    }
}

/// Reads a file, if it exists.
fn read(path: &Path, limits: &Limits) -> Result<Option<Bytes>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io(e, "opening").in_source(path.display())),
    };
    let most = limits.header_len;
    let mut bytes = Vec::new();
    let taken = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
    taken.map_err(|e| io(e, "reading").in_source(path.display()))?;
    if bytes.len() as u64 > most {
        let e = CONFIG_LENGTH.broken(format!("the file has more than {most} bytes"));
        return Err(e.in_source(path.display()));
    }
    Ok(Some(bytes.into()))
}

/// Parses JSON as Python writes it: with `NaN` and infinities, which become null.
fn parse(bytes: &[u8], limits: &Limits) -> Result<Value> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| UTF8.broken(format!("byte {} is not UTF-8", e.valid_up_to())))?;
    Value::from_json(&holdall_io::without_infinities(text), limits.depth)
}
