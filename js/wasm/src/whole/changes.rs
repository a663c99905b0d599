//! What changed from one schema to another.

use crate::Answer;
use crate::json::CALL;
use crate::schema::document;
use holdall_core::Error;
use holdall_schema::{SchemaLimits, changes_json, diff};

/// The schema of a header's references: see [`Document::header_schema`].
pub(crate) fn header_schema(text: &[u8]) -> Result<Answer, Error> {
    Ok(Answer::text(document(text, 2)?.header_schema()?.to_string()))
}

/// The changes from one schema to another, and the step of the version that they ask for.
pub(crate) fn diff_of(input: &[u8], len: usize, reading: u32) -> Result<Answer, Error> {
    let Some((old, new)) = input.split_at_checked(len) else {
        return Err(CALL.broken("the first schema is longer than both"));
    };
    let (old, new) = (document(old, reading)?, document(new, reading)?);
    let changes =
        diff((&old.schema, &old.json), (&new.schema, &new.json), &SchemaLimits::default())?;
    Ok(Answer::text(changes_json(&changes).to_string()))
}
