//! Finds the tensors of a new schema that are missing in a file.

use super::tensors::{Flat, FlatSource, set_type};
use holdall_core::{Result, TensorSpec};
use holdall_formats::stored_as;
use holdall_schema::{Document, Filled, Path, SchemaLimits, TensorType};
use std::sync::Arc;

/// The dense tensors of a schema that are missing in a file.
#[derive(Default)]
pub(crate) struct MissingTensors {
    /// Tensors that are created from their default.
    pub(crate) filled: Vec<Flat>,
    /// The paths and types of optional tensors that remain absent.
    pub(super) absent: Vec<(Path, TensorType)>,
}

/// Finds the tensors of the schema that are missing in a file. `present` are the paths of the file's tensors in the
/// schema.
///
/// # Errors
/// Returns the same errors as [`Document::missing_tensors`].
pub(crate) fn missing(
    schema: &Document,
    present: impl Iterator<Item = String>,
    limits: &SchemaLimits,
) -> Result<MissingTensors> {
    let holdall_schema::MissingTensors { filled, absent } =
        schema.missing_tensors(present, limits)?;
    let filled = filled.into_iter().map(|(path, filled)| from_default(&path, filled)).collect();
    Ok(MissingTensors { filled, absent })
}

/// Creates a tensor from its default.
fn from_default(path: &Path, filled: Filled) -> Flat {
    let (dtype, _) = stored_as(filled.dtype);
    let mut spec = TensorSpec::dense(path.to_string(), dtype, filled.shape.clone());
    set_type(&mut spec, filled.dtype);
    Flat { spec, how: FlatSource::Filled(Arc::new(filled)) }
}
