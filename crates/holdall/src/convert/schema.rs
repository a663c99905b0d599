//! The schema of a file that has none of its own: made from its tensors.

use super::{Convert, plan};
use crate::records::rules::NO_METATENSOR;
use holdall_core::{Attributes, Result, TensorSpec};
use holdall_io::File;
use holdall_io::WriteOptions;
use holdall_schema::{Document, Reading};
use serde_json::Value;

/// The schema that a file has among its attributes, or otherwise the one that [`infer_schema`] makes.
///
/// # Errors
/// The `json/…` and `schema/…` rules; as [`infer_schema`].
pub fn schema(file: &File) -> Result<Document> {
    if let Some(own) = crate::records::schema_of_file(file)? {
        return Ok(own);
    }
    Document::new(infer_schema(file)?, file.name(), Reading::File, &file.limits().of_schemas())
}

/// The schema that a file would get as Metatensor if it had none of its own; sparse and quantized tensors as
/// dense ones, types that Metatensor lacks as what they are stored as.
///
/// # Errors
/// `records/no-metatensor` in a build without that format; as [`plan`].
pub fn infer_schema(file: &File) -> Result<Value> {
    let format = holdall_formats::with_schema().ok_or_else(no_metatensor)?;
    // Those of the file stand elsewhere; those of tensors say what records are.
    let options = Convert::new(WriteOptions::new().with_format(format))
        .with_attributes(Attributes::new())
        .with_dense()
        .with_raw_types();
    schema_of_tensors(&plan(file, "-", &options)?.0)
}

/// The schema that these tensors get where there is none: objects from names with dots, each tensor with its
/// dtype and shape.
///
/// # Errors
/// `records/no-metatensor` in a build without that format; Unsupported for what Metatensor cannot hold.
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
