//! Infers a schema from records: tracks the values at each path, and chooses the kinds that can represent them.
//!
//! Integers become Int64 (Uint64 if they exceed its range), other numbers Float64, and text String. Arrays of numbers
//! that always have the same length become fixed arrays. Members that are missing or null in any record become
//! optional.

mod shape;
mod write;

use crate::error::Result;
use crate::path::Path;
use crate::record::RecordInput;
use serde_json::Value;
use shape::Shape;

crate::error::rules! {
    /// Every rule of this module.
    pub static RULES;

    /// Records that no single schema describes.
    pub MIXED: Unsupported "infer/mixed"
        "The values at one path have the same type in all records that a schema is inferred from."
        hint "use one type in all records, or write the schema by hand: a `TypeDef:Record` \
              holds any JSON object";
}

/// Options for inferring a schema.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct InferOptions {
    /// The kinds for numbers and text.
    pub width: Width,
    /// Text with at most this number of distinct values becomes an enum; 0 disables enums.
    pub enums: usize,
    /// Members whose text names a file that contains the actual bytes: they become Bytes.
    pub file_members: Vec<Path>,
}

/// The kinds for numbers and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Width {
    /// 64-bit numbers, and String for all text: later records may contain values that were not seen.
    #[default]
    Wide,
    /// The narrowest numbers that represent every value seen, and Timestamp for text that is always a time in its
    /// canonical form.
    Tight,
}

impl InferOptions {
    /// Returns the default options: wide kinds, no enums.
    pub fn new() -> InferOptions {
        InferOptions::default()
    }

    /// Sets the kinds for numbers and text.
    pub fn with_width(mut self, width: Width) -> InferOptions {
        self.width = width;
        self
    }

    /// Makes text with at most `max_values` distinct values an enum.
    pub fn with_enums(mut self, max_values: usize) -> InferOptions {
        self.enums = max_values;
        self
    }

    /// Makes these members, whose text names files, Bytes.
    pub fn with_file_members(mut self, members: impl IntoIterator<Item = Path>) -> InferOptions {
        self.file_members.extend(members);
        self
    }
}

/// Infers a schema from the records that it has seen.
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
    /// Creates an inference that has seen no records. JSON may be nested `depth` deep.
    pub fn new(options: &InferOptions, depth: usize) -> Inference {
        Inference { options: options.clone(), depth, shape: Shape::default() }
    }

    /// Adds the JSON text of a record, and the number of its line, counted from 1, for errors.
    ///
    /// # Errors
    /// Returns an error of the `json/…` rules; `record/type` for `null` in an array.
    pub fn text(&mut self, json: &[u8], line: u64) -> Result<()> {
        self.shape.see(json, self.depth, line, &self.options)
    }

    /// Adds a record of any source, and the number of its line, counted from 1, for errors.
    ///
    /// # Errors
    /// Returns `record/type` for `null` in an array, and the errors of `input`.
    pub fn input(&mut self, input: &mut impl RecordInput, line: u64) -> Result<()> {
        self.shape.see_input(input, line, &self.options)
    }

    /// Adds the columns of the table that contains the records. Members are in the order of their columns, an array has
    /// as many elements as it has columns, and a column with values of several types becomes text.
    pub fn columns(&mut self, columns: &[Path]) {
        self.shape.columns(columns);
    }

    /// Returns a schema of the records that were added.
    ///
    /// # Errors
    /// Returns [`MIXED`] if the values at one path have different types.
    pub fn schema(&self) -> Result<Value> {
        write::schema(&self.shape, &self.options)
    }
}
