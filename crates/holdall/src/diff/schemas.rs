//! Two schemas, or those of files, compared.

use crate::convert;
use crate::records::{SchemaOrFile, schema_of_dataset};
use holdall_core::Result;
use holdall_schema::{Change, Document, Root, SchemaLimits, diff};

/// What changed between two schemas.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SchemaDiff {
    /// What was compared: the whole of a side, or the schema of its records.
    pub old: Document,
    /// The same of the other side.
    pub new: Document,
    /// What changed, and what each change means for old files.
    pub changes: Vec<Change>,
}

/// Compares two schemas. Of a file it is the one among its attributes, or otherwise the one that its tensors
/// have. `path` chooses the records of a dataset, where a side is a file or the schema of one; the schema of a
/// record is compared with the records that the other side has.
///
/// # Errors
/// `records/which-dataset`, `schema/unknown-path`; the `schema/…` rules.
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

/// One side: the whole of it, or the records at a path.
fn side(what: SchemaOrFile, path: Option<&str>, limits: &SchemaLimits) -> Result<Document> {
    match (what, path) {
        (SchemaOrFile::Schema(schema), None) => Ok(*schema),
        (SchemaOrFile::Schema(schema), path) => schema.records(path, limits),
        (SchemaOrFile::File(file), None) => convert::schema(&file),
        (SchemaOrFile::File(file), Some(path)) => schema_of_dataset(&file, path),
    }
}
