//! Finds tensors that the new schema has and a file does not have.

use super::tensors::{Flat, FlatSource, set_type};
use holdall_core::{Result, TensorSpec};
use holdall_formats::stored_as;
use holdall_schema::{Document, Filled, Path, SchemaLimits, TensorType};
use std::sync::Arc;

/// The dense tensors of a schema that a file does not have.
#[derive(Default)]
pub(crate) struct Lacking {
    /// Tensors that are created from their default.
    pub(crate) filled: Vec<Flat>,
    /// The paths and types of optional tensors that remain absent.
    pub(super) absent: Vec<(Path, TensorType)>,
}

/// Finds the tensors that the schema has and a file does not have. `present` are the paths of the file's tensors under
/// the schema.
///
/// # Errors
/// Returns the same errors as [`Document::lacking`].
pub(crate) fn missing(
    schema: &Document,
    present: impl Iterator<Item = String>,
    limits: &SchemaLimits,
) -> Result<Lacking> {
    let holdall_schema::Lacking { filled, absent } = schema.lacking(present, limits)?;
    let filled = filled.into_iter().map(|(path, filled)| default(&path, filled)).collect();
    Ok(Lacking { filled, absent })
}

/// Creates a tensor from its default.
fn default(path: &Path, filled: Filled) -> Flat {
    let (dtype, _) = stored_as(filled.dtype);
    let mut spec = TensorSpec::dense(path.to_string(), dtype, filled.shape.clone());
    set_type(&mut spec, filled.dtype);
    Flat { spec, how: FlatSource::Filled(Arc::new(filled)) }
}
