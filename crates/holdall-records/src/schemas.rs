//! Schemas where they are found: as JSON in a file, and among the attributes of files and tensors.

use super::rows::{MARK, RecordForm};
use super::rules::{SCHEMA_LEN, WHICH_DATASET};
use holdall_core::{Layout, Limits, Result, Value};
use holdall_io::error::io;
use holdall_io::{File, Tensor};
use holdall_io::{Location, OpenOptions};
use holdall_schema::{Document, KIND_ATTRIBUTE, Reading, Root, SCHEMA_ATTRIBUTE};
use std::io::Read as _;
use std::path::Path;

/// What a name stands for where a schema is wanted.
#[derive(Debug, Clone)]
pub enum SchemaOrFile {
    /// The JSON of a schema.
    Schema(Box<Document>),
    /// A tensor file, which may have a schema among its attributes.
    File(File),
}

impl SchemaOrFile {
    /// What errors call it: the path of its file.
    pub fn name(&self) -> &str {
        match self {
            SchemaOrFile::Schema(schema) => &schema.name,
            SchemaOrFile::File(file) => file.name(),
        }
    }

    /// Opens the JSON of a schema, or a tensor file, told apart by their content.
    ///
    /// # Errors
    /// `input/schema-len`; the `json/…` and `schema/…` rules; as [`OpenOptions::open`].
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
            // What is missing is told of by opening it.
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

    /// The same of what is not in the file system.
    fn open_location(
        location: &Location,
        reading: Reading,
        options: &OpenOptions,
        limits: &Limits,
    ) -> Result<SchemaOrFile> {
        // A folder of a model, for example, has no bytes of its own.
        if let Ok((source, _)) = options.source_at(location) {
            let start = source.read_range(0..source.len().min(START))?;
            if is_json(&start) || location.file_name().ends_with(".json") && !start.is_empty() {
                // One byte more than may be there, so that what is too long is found to be.
                let len = source.len().min(limits.header_len.saturating_add(4));
                let (source, name) = options.checked_source_at(location)?;
                return parse(&source.read_range(0..len)?, &name, reading, limits);
            }
        }
        Ok(SchemaOrFile::File(options.open_location(location)?))
    }

    /// The schema, or the tensor file, that these bytes are; `name` is what errors call them.
    ///
    /// # Errors
    /// As [`SchemaOrFile::open`].
    pub fn of_bytes(
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
        let message = format!("there are more than {} bytes", limits.header_len);
        return Err(SCHEMA_LEN.broken(message).in_source(name));
    }
    let schema = Document::parse(text, name, reading, &limits.of_schemas())?;
    Ok(SchemaOrFile::Schema(Box::new(schema)))
}

/// Bytes that tell a schema from a tensor file.
const START: u64 = 64;

/// Whether bytes are JSON text: a brace first, and nothing but text. No tensor file starts like this: in a
/// header's length, control bytes follow.
fn is_json(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(MARK).unwrap_or(bytes);
    let is_space = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r');
    let first = bytes.iter().find(|b| !is_space(b));
    let is_text = bytes.iter().take(8).all(|b| *b >= 0x20 || is_space(b));
    matches!(first, Some(b'{' | b'[')) && is_text
}

/// Whether a file can be read and starts with something other than text, as all tensor files do, and is no Parquet or Arrow file.
/// What is not in the file system is opened under these options.
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

/// Returns the first bytes of a file. A pipe could not be read a second time.
fn start_of(path: &Path) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).ok()?;
    let is_file = file.metadata().is_ok_and(|m| m.is_file());
    let mut start = Vec::new();
    (is_file && file.take(START).read_to_end(&mut start).is_ok()).then_some(start)
}

/// The schema that a file has among its attributes.
///
/// # Errors
/// The `json/…` and `schema/…` rules.
pub fn schema_of_file(file: &File) -> Result<Option<Document>> {
    match file.attributes().get(SCHEMA_ATTRIBUTE) {
        Some(Value::Text(text)) => parsed(text, file, Reading::File).map(Some),
        _ => Ok(None),
    }
}

/// The schema that a dataset or a blob has among its attributes; `None` for other tensors.
///
/// # Errors
/// The `json/…` and `schema/…` rules.
pub fn schema_of_tensor(tensor: &Tensor) -> Result<Option<Document>> {
    let reading = match tensor.layout() {
        Layout::Records => Reading::Record,
        Layout::Blob => Reading::File,
        _ => return Ok(None),
    };
    let Some(Value::Text(text)) = tensor.attributes().get(KIND_ATTRIBUTE) else { return Ok(None) };
    parsed(text, tensor.file(), reading).map(Some).map_err(|e| e.in_tensor(tensor.name()))
}

/// The schema of the records in the dataset of that name.
///
/// # Errors
/// `file/no-tensor`; `records/which-dataset` where it is not a dataset; as [`schema_of_tensor`].
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
    Document::parse(text.as_bytes(), file.name(), reading, &file.limits().of_schemas())
}
