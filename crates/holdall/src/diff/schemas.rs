//! Compares two schemas, given as schemas or as files.

use crate::convert;
use crate::records::{SchemaOrFile, schema_of_dataset};
use holdall_core::Result;
use holdall_schema::{Change, Document, Root, SchemaLimits, diff};

/// The differences between two schemas.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SchemaDiff {
    /// The old side that was compared: the whole schema, or the schema of its records.
    pub old: Document,
    /// The new side that was compared.
    pub new: Document,
    /// The changes, and what each means for old files.
    pub changes: Vec<Change>,
}

/// Compares two schemas. The schema of a file is the one among its attributes, otherwise the one inferred
/// from its tensors. `path` selects the records of a dataset if a side is a file or a file's schema; the
/// schema of a record is compared with the selected records of the other side.
///
/// # Errors
/// Returns `records/which-dataset`, `schema/unknown-path`; the `schema/…` rules.
pub fn diff_schemas(
    old: SchemaOrFile,
    new: SchemaOrFile,
    path: Option<&str>,
    limits: &SchemaLimits,
) -> Result<SchemaDiff> {
    let mut old = side(old, path, limits)?;
    let mut new = side(new, path, limits)?;
    match (old.schema.root(), new.schema.root()) {
        (Root::Record(_), Root::References(_)) => new = new.records(path, limits)?,
        (Root::References(_), Root::Record(_)) => old = old.records(path, limits)?,
        _ => {}
    }
    let changes = diff((&old.schema, &old.json), (&new.schema, &new.json), limits)?;
    Ok(SchemaDiff { old, new, changes })
}

/// Returns one side: the whole schema, or the schema of the records at `path`.
fn side(what: SchemaOrFile, path: Option<&str>, limits: &SchemaLimits) -> Result<Document> {
    match (what, path) {
        (SchemaOrFile::Schema(schema), None) => Ok(*schema),
        (SchemaOrFile::Schema(schema), path) => schema.records(path, limits),
        (SchemaOrFile::File(file), None) => convert::schema(&file),
        (SchemaOrFile::File(file), Some(path)) => schema_of_dataset(&file, path),
    }
}
