//! A schema made from records: what was seen at each place of them, and the kinds that hold it.
//!
//! Integers become Int64 (Uint64 where they pass it), other numbers Float64, text String, arrays of numbers
//! that always have one length fixed ones, and members that are missing or null anywhere optional.

mod shape;
mod write;

use crate::error::Result;
use crate::path::Path;
use serde_json::Value;
use shape::Shape;

crate::error::rules! {
    /// Every rule of this module.
    pub static RULES;

    /// Records that no one schema describes.
    pub MIXED: Unsupported "infer/mixed"
        "The values at one path have the same type in all records that a schema is inferred from."
        hint "let it be of one type in all records, or write the schema by hand: a `TypeDef:Record` \
              holds any JSON object";
}

/// How much a schema made from records says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct InferOptions {
    /// Which kinds numbers and text get.
    pub width: Width,
    /// Text of at most so many different values becomes an enum; 0 for no enums.
    pub enums: usize,
    /// Members whose text names a file, with the bytes that are meant: they become Bytes.
    pub file_members: Vec<Path>,
}

/// Which kinds numbers and text get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Width {
    /// Numbers of 64 bits, and text as text: later records may hold more than those that were seen.
    #[default]
    Wide,
    /// The narrowest numbers that hold every value seen, and times where text is in their one form.
    Tight,
}

impl InferOptions {
    /// Wide kinds, and no enums.
    pub fn new() -> InferOptions {
        InferOptions::default()
    }

    /// Which kinds numbers and text get.
    pub fn with_width(mut self, width: Width) -> InferOptions {
        self.width = width;
        self
    }

    /// Makes text of at most `most` different values an enum.
    pub fn with_enums(mut self, most: usize) -> InferOptions {
        self.enums = most;
        self
    }

    /// Makes these members, whose text names files, Bytes.
    pub fn with_file_members(mut self, members: impl IntoIterator<Item = Path>) -> InferOptions {
        self.file_members.extend(members);
        self
    }
}

/// What was seen of records so far.
///
/// ```
/// use holdall_schema::{InferOptions, Inference};
/// let mut seen = Inference::new(&InferOptions::new(), 32);
/// seen.text(br#"{"id": 1, "name": "a"}"#, 1)?;
/// seen.text(br#"{"id": 2}"#, 2)?;
/// let schema = seen.schema()?;
/// assert_eq!(schema["TypeDef:Struct"], serde_json::json!(["id", "name"]));
/// assert_eq!(schema["required"], serde_json::json!(["id"]));
/// # Ok::<(), holdall_schema::Error>(())
/// ```
#[derive(Debug)]
pub struct Inference {
    options: InferOptions,
    depth: usize,
    shape: Shape,
}

impl Inference {
    /// Nothing seen yet. JSON of records may nest `depth` deep.
    pub fn new(options: &InferOptions, depth: usize) -> Inference {
        Inference { options: options.clone(), depth, shape: Shape::default() }
    }

    /// Takes the JSON text of a record, and the number of its line, from 1, for errors.
    ///
    /// # Errors
    /// The `json/…` rules; `record/type` for `null` in an array.
    pub fn text(&mut self, json: &[u8], line: u64) -> Result<()> {
        self.shape.see(json, self.depth, line, &self.options)
    }

    /// Takes the columns of the table that the records are rows of: members come in their order, an array has as many
    /// elements as it has columns, and a column of values of several types is one of text.
    pub fn columns(&mut self, columns: &[Path]) {
        self.shape.columns(columns);
    }

    /// The schema of a record that looks like those that were seen.
    ///
    /// # Errors
    /// [`MIXED`].
    pub fn schema(&self) -> Result<Value> {
        write::schema(&self.shape, &self.options)
    }
}
