//! Finds schemas: as JSON in a file, and in the attributes of files and tensors.

use super::rows::{MARK, RecordForm};
use super::rules::{SCHEMA_LEN, WHICH_DATASET};
use holdall_core::{Layout, Limits, Result, Value};
use holdall_io::error::io;
use holdall_io::{File, Tensor};
use holdall_io::{Location, OpenOptions};
use holdall_schema::{Document, Reading, Root, SCHEMA_ATTRIBUTE, TENSOR_SCHEMA_ATTRIBUTE};
use std::io::Read as _;
use std::path::Path;

/// A schema, or a tensor file that can contain one: the two kinds of file that an argument for a schema can name.
#[derive(Debug, Clone)]
pub enum SchemaOrFile {
    /// The JSON of a schema.
    Schema(Box<Document>),
    /// A tensor file, which may have a schema in its attributes.
    File(File),
}

impl SchemaOrFile {
    /// Returns the name to use in errors: the path of the file.
    pub fn name(&self) -> &str {
        match self {
            SchemaOrFile::Schema(schema) => &schema.name,
            SchemaOrFile::File(file) => file.name(),
        }
    }

    /// Opens the JSON of a schema or a tensor file. Which of the two it is depends on the content.
    ///
    /// # Errors
    /// Returns `input/schema-len` if the JSON is too long; an error of the `json/…` and `schema/…` rules if it is not a
    /// valid schema; and the errors of [`OpenOptions::open`].
    pub fn open(
        path: impl AsRef<Path>,
        reading: Reading,
        options: &OpenOptions,
        limits: &Limits,
    ) -> Result<SchemaOrFile> {
        let path = path.as_ref();
        let location = Location::new(path);
        if location.as_path().is_none() {
            return SchemaOrFile::open_location(&location, reading, options, limits);
        }
        let Ok(file) = std::fs::File::open(path) else {
            // Opening a missing file returns the right error.
            return Ok(SchemaOrFile::File(options.open(path)?));
        };
        let failed = |e| io(e, "reading").in_source(path.display());
        let is_pipe = !file.metadata().map_err(failed)?.is_file();
        let most = limits.header_len;
        let mut text = Vec::new();
        let mut reader = file.take(START);
        let begun = reader.read_to_end(&mut text);
        let named = path.extension().is_some_and(|e| e == "json");
        if !(is_pipe || begun.is_ok() && (named || is_json(&text))) {
            return Ok(SchemaOrFile::File(options.open(path)?));
        }
        reader.set_limit(if is_pipe { u64::MAX } else { most });
        begun.and_then(|_| reader.read_to_end(&mut text)).map_err(failed)?;
        match named || is_json(&text) {
            true => parse(&text, &path.display().to_string(), reading, limits),
            false => Ok(SchemaOrFile::File(options.open_bytes(text, path.display().to_string())?)),
        }
    }

    /// Does the same for a location outside of the file system.
    fn open_location(
        location: &Location,
        reading: Reading,
        options: &OpenOptions,
        limits: &Limits,
    ) -> Result<SchemaOrFile> {
        // Not every location has bytes: a model's folder, for example, does not.
        if let Ok((source, _)) = options.source_at(location) {
            let start = source.read_range(0..source.len().min(START))?;
            if is_json(&start) || location.file_name().ends_with(".json") && !start.is_empty() {
                // Reads one byte more than is allowed, so that a text that is too long is detected.
                let len = source.len().min(limits.header_len.saturating_add(4));
                let (source, name) = options.checked_source_at(location)?;
                return parse(&source.read_range(0..len)?, &name, reading, limits);
            }
        }
        Ok(SchemaOrFile::File(options.open_location(location)?))
    }

    /// Parses the bytes of a schema or a tensor file. `name` is used in errors.
    ///
    /// # Errors
    /// Returns the same errors as [`SchemaOrFile::open`].
    pub fn from_bytes(
        bytes: Vec<u8>,
        name: &str,
        reading: Reading,
        options: &OpenOptions,
        limits: &Limits,
    ) -> Result<SchemaOrFile> {
        match is_json(&bytes) {
            true => parse(&bytes, name, reading, limits),
            false => Ok(SchemaOrFile::File(options.open_bytes(bytes, name.to_owned())?)),
        }
    }
}

fn parse(text: &[u8], name: &str, reading: Reading, limits: &Limits) -> Result<SchemaOrFile> {
    let text = text.strip_prefix(MARK).unwrap_or(text);
    if text.len() as u64 > limits.header_len {
        let message = format!("the schema has more than {} bytes", limits.header_len);
        return Err(SCHEMA_LEN.broken(message).in_source(name));
    }
    let schema = Document::parse(text, name, reading, &limits.schema_limits())?;
    Ok(SchemaOrFile::Schema(Box::new(schema)))
}

/// Number of first bytes that distinguish a schema from a tensor file.
const START: u64 = 64;

/// Returns `true` if the bytes are JSON text: they start with a brace and contain only text. No tensor file starts like
/// this, because the header length is followed by control bytes.
fn is_json(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(MARK).unwrap_or(bytes);
    let is_space = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r');
    let first = bytes.iter().find(|b| !is_space(b));
    let is_text = bytes.iter().take(8).all(|b| *b >= 0x20 || is_space(b));
    matches!(first, Some(b'{' | b'[')) && is_text
}

/// Returns `true` if the file can be read, starts with something other than text, as all tensor files do, and is not a
/// Parquet or Arrow file. `options` apply to locations outside of the file system.
pub fn is_binary(path: impl AsRef<Path>, options: &OpenOptions) -> bool {
    let path = path.as_ref();
    let location = Location::new(path);
    let start = match location.as_path() {
        Some(path) => start_of(path),
        None => options.source_at(&location).ok().and_then(|(source, _)| {
            let start = source.read_range(0..source.len().min(START)).ok()?;
            Some(start.to_vec())
        }),
    };
    let is_text = |b: &u8| *b >= 0x20 || matches!(b, b'\t' | b'\n' | b'\r');
    start.is_some_and(|start| !start.iter().all(is_text) && RecordForm::of_bytes(&start).is_none())
}

/// Returns the first bytes of a regular file. Returns `None` for a pipe, which cannot be read a second time.
fn start_of(path: &Path) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).ok()?;
    let is_file = file.metadata().is_ok_and(|m| m.is_file());
    let mut start = Vec::new();
    (is_file && file.take(START).read_to_end(&mut start).is_ok()).then_some(start)
}

/// Returns the schema in the attributes of a file.
///
/// # Errors
/// Returns an error of the `json/…` and `schema/…` rules if the schema is invalid.
pub fn schema_of_file(file: &File) -> Result<Option<Document>> {
    match file.attributes().get(SCHEMA_ATTRIBUTE) {
        Some(Value::Text(text)) => parsed(text, file, Reading::File).map(Some),
        _ => Ok(None),
    }
}

/// Returns the schema in the attributes of a dataset or a blob, and `None` for other tensors.
///
/// # Errors
/// Returns an error of the `json/…` and `schema/…` rules if the schema is invalid.
pub fn schema_of_tensor(tensor: &Tensor) -> Result<Option<Document>> {
    let reading = match tensor.layout() {
        Layout::Records => Reading::Record,
        Layout::Blob => Reading::File,
        _ => return Ok(None),
    };
    let Some(Value::Text(text)) = tensor.attributes().get(TENSOR_SCHEMA_ATTRIBUTE) else {
        return Ok(None);
    };
    parsed(text, tensor.file(), reading).map(Some).map_err(|e| e.in_tensor(tensor.name()))
}

/// Returns the schema of the records in the dataset called `name`.
///
/// # Errors
/// Returns `file/no-tensor` if the file has no tensor of that name, `records/which-dataset` if the tensor is not a
/// dataset, and the errors of [`schema_of_tensor`].
pub fn schema_of_dataset(file: &File, name: &str) -> Result<Document> {
    match schema_of_tensor(&file.tensor(name)?)? {
        Some(found) if matches!(found.schema.root(), Root::Record(_)) => Ok(found),
        _ => {
            let e = WHICH_DATASET.broken("this is not a dataset of records");
            Err(e.in_tensor(name).in_source(file.name()))
        }
    }
}

fn parsed(text: &str, file: &File, reading: Reading) -> Result<Document> {
    Document::parse(text.as_bytes(), file.name(), reading, &file.limits().schema_limits())
}
