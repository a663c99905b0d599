//! What checking a value against standard keywords may cost. Through `$ref`, a schema of a few lines can say
//! that each of many variants is to be tried for each of many others; so all that are tried are counted.

use crate::error::Result;
use crate::rules::TOO_LARGE;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Value, json};
use std::cell::Cell;

/// The keyword that counts; no schema of a file has it, because it would have no meaning there.
pub(crate) const KEYWORD: &str = "holdall:step";

thread_local! {
    /// Schemas that may still be tried on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Parts of a long list that cost as much as trying a schema.
const LIST: u64 = 16;

/// A schema that counts each time it is tried, and fails at once when that was often enough.
pub(crate) fn counted(schema: Value) -> Value {
    let step = json!({"each": 1u64.saturating_add(lists(&schema) / LIST), "member": patterns(&schema) / 4});
    json!({ "allOf": [{ KEYWORD: step }, schema] })
}

/// Whether what it takes to try a schema once depends on how long lists in it are.
pub(crate) fn is_long(schema: &Value) -> bool {
    lists(schema) >= LIST || patterns(schema) >= 4
}

/// Parts that are gone through each time.
fn lists(schema: &Value) -> u64 {
    let keywords = ["enum", "required", "properties", "dependentRequired", "dependentSchemas"];
    let len = |keyword: &str| match schema.get(keyword) {
        Some(Value::Array(items)) => items.len() as u64,
        Some(Value::Object(members)) => members.len() as u64,
        _ => 0,
    };
    keywords.into_iter().map(len).sum()
}

/// Patterns that are tried on each member.
fn patterns(schema: &Value) -> u64 {
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    patterns.map_or(0, |p| p.len() as u64)
}

/// Runs a check that may try so many schemas. Gives what is left too.
///
/// # Errors
/// `schema/too-large` where it would try more: what it said then is worth nothing.
pub(crate) fn within<T>(most: u64, check: impl FnOnce() -> T) -> Result<(T, u64)> {
    LEFT.set(most);
    let found = check();
    match LEFT.get() {
        0 => {
            let message = format!("checking a value tries {most} parts of its schema, or more");
            Err(TOO_LARGE.broken(message))
        }
        left => Ok((found, left)),
    }
}

/// How many values there are in one.
pub(crate) fn values(value: &Value) -> u64 {
    let (mut count, mut open) = (0u64, vec![value]);
    while let Some(value) = open.pop() {
        count = count.saturating_add(1);
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            _ => {}
        }
    }
    count
}

/// What one try counts for, and what each member of an object does beside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    each: u64,
    member: u64,
}

impl Step {
    /// The keyword with this value.
    pub(crate) fn for_keyword(value: &Value) -> Step {
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        Step { each: number("each").unwrap_or(1), member: number("member").unwrap_or(0) }
    }
}

impl<'i> Keyword<'i> for Step {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        match self.is_valid(value) {
            true => Ok(()),
            false => Err(ValidationError::custom("too much to try")),
        }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        let members = value.as_object().map_or(0, |o| o.len() as u64);
        let cost = self.member.saturating_mul(members).saturating_add(self.each);
        let left = LEFT.get().saturating_sub(cost);
        LEFT.set(left);
        left > 0
    }
}
