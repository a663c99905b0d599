//! What the new schema has and a file has not.

use super::tensors::{Flat, FlatSource, set_type};
use holdall_core::{Result, TensorSpec};
use holdall_formats::stored_as;
use holdall_schema::{Document, Filled, Path, SchemaLimits, TensorType};
use std::sync::Arc;

/// The flat tensors of a schema that a file lacks.
#[derive(Default)]
pub(crate) struct Lacking {
    /// Those that a default makes.
    pub(crate) filled: Vec<Flat>,
    /// Where there are none, and what they would be.
    pub(super) absent: Vec<(Path, TensorType)>,
}

/// The tensors that the schema has and a file lacks, whose tensors stand at `present` under it.
///
/// # Errors
/// As [`Document::lacking`].
pub(crate) fn missing(
    schema: &Document,
    present: impl Iterator<Item = String>,
    limits: &SchemaLimits,
) -> Result<Lacking> {
    let holdall_schema::Lacking { filled, absent } = schema.lacking(present, limits)?;
    let filled = filled.into_iter().map(|(path, filled)| default(&path, filled)).collect();
    Ok(Lacking { filled, absent })
}

/// The tensor that a default is.
fn default(path: &Path, filled: Filled) -> Flat {
    let (dtype, _) = stored_as(filled.dtype);
    let mut spec = TensorSpec::dense(path.to_string(), dtype, filled.shape.clone());
    set_type(&mut spec, filled.dtype);
    Flat { spec, how: FlatSource::Filled(Arc::new(filled)) }
}
