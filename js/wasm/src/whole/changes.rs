//! Differences between schemas.

use crate::Answer;
use crate::json::CALL;
use crate::schema::document;
use holdall_core::Error;
use holdall_schema::{SchemaLimits, changes_json, diff};

/// Returns the schema of a header's references: see [`Document::header_schema`].
pub(crate) fn header_schema(text: &[u8]) -> Result<Answer, Error> {
    Ok(Answer::text(document(text, 2)?.header_schema()?.to_string()))
}

/// Returns the changes between two schemas, and the version step that they require.
pub(crate) fn diff_of(input: &[u8], len: usize, reading: u32) -> Result<Answer, Error> {
    let Some((old, new)) = input.split_at_checked(len) else {
        return Err(CALL.broken("the first schema is longer than the input"));
    };
    let (old, new) = (document(old, reading)?, document(new, reading)?);
    let changes =
        diff((&old.schema, &old.json), (&new.schema, &new.json), &SchemaLimits::default())?;
    Ok(Answer::text(changes_json(&changes).to_string()))
}
