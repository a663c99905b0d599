//! Infers the schema of a file without one from its tensors.

use super::{Convert, plan};
use crate::records::rules::NO_METATENSOR;
use holdall_core::{Attributes, Result, TensorSpec};
use holdall_io::File;
use holdall_io::WriteOptions;
use holdall_schema::{Document, Reading};
use serde_json::Value;

/// Returns the schema among the file's attributes, otherwise the one that [`infer_schema`] makes.
///
/// # Errors
/// Returns the `json/…` and `schema/…` rules; the same as [`infer_schema`].
pub fn schema(file: &File) -> Result<Document> {
    if let Some(own) = crate::records::schema_of_file(file)? {
        return Ok(own);
    }
    Document::new(infer_schema(file)?, file.name(), Reading::File, &file.limits().schema_limits())
}

/// Returns the schema that the file would get as Metatensor if it had no schema of its own. Sparse and
/// quantized tensors become dense ones; types that Metatensor lacks become their storage types.
///
/// # Errors
/// Returns `records/no-metatensor` in a build without that format; the same as [`plan`].
pub fn infer_schema(file: &File) -> Result<Value> {
    let format = holdall_formats::with_schema().ok_or_else(no_metatensor)?;
    // File attributes are not part of the schema; tensor attributes give the schema of records.
    let options = Convert::new(WriteOptions::new().with_format(format))
        .with_attributes(Attributes::new())
        .with_dense()
        .with_raw_types();
    schema_of_tensors(&plan(file, "-", &options)?.0)
}

/// Returns a schema for these tensors: names with dots become nested objects, and each tensor has its dtype
/// and shape.
///
/// # Errors
/// Returns `records/no-metatensor` in a build without that format; an `Unsupported` error if Metatensor cannot hold a tensor.
#[cfg(feature = "metatensor")]
pub fn schema_of_tensors(tensors: &[TensorSpec]) -> Result<Value> {
    let text = holdall_formats::metatensor::infer(tensors, None)?;
    holdall_json::parse(text.as_bytes(), holdall_core::Limits::default().depth)
}

#[cfg(not(feature = "metatensor"))]
#[allow(missing_docs)]
pub fn schema_of_tensors(_: &[TensorSpec]) -> Result<Value> {
    Err(no_metatensor())
}

#[cold]
fn no_metatensor() -> holdall_core::Error {
    NO_METATENSOR.broken("this build has no Metatensor")
}
