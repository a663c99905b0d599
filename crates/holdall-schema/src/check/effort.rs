//! Limits the work of checking a value against standard keywords. Through `$ref`, a short schema can demand that each
//! of many variants is tried for each of many others, so every schema that is tried is counted.

use crate::error::Result;
use crate::rules::TOO_LARGE;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Value, json};
use std::cell::Cell;

/// The keyword that counts. No schema of a file contains it, because it has no meaning there.
pub(crate) const KEYWORD: &str = "holdall:step";

thread_local! {
    /// Number of schemas that may still be tried on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Number of entries of a long list that cost as much as trying a schema.
const LIST: u64 = 16;

/// Wraps a schema so that each try is counted, and fails at once when the limit is exceeded.
pub(crate) fn counted(schema: Value) -> Value {
    let step = json!({"each": 1u64.saturating_add(lists(&schema) / LIST), "member": patterns(&schema) / 4});
    json!({ "allOf": [{ KEYWORD: step }, schema] })
}

/// Returns `true` if the cost of trying a schema depends on the length of lists in it.
pub(crate) fn is_long(schema: &Value) -> bool {
    lists(schema) >= LIST || patterns(schema) >= 4
}

/// Returns the number of list entries that each try goes through.
fn lists(schema: &Value) -> u64 {
    let keywords = ["enum", "required", "properties", "dependentRequired", "dependentSchemas"];
    let len = |keyword: &str| match schema.get(keyword) {
        Some(Value::Array(items)) => items.len() as u64,
        Some(Value::Object(members)) => members.len() as u64,
        _ => 0,
    };
    keywords.into_iter().map(len).sum()
}

/// Returns the number of patterns that are tried on each member.
fn patterns(schema: &Value) -> u64 {
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    patterns.map_or(0, |p| p.len() as u64)
}

/// Runs a check that may try at most `most` schemas. Also returns how many of these are left.
///
/// # Errors
/// Returns `schema/too-large` if the check would try more; its result is not valid then.
pub(crate) fn with_budget<T>(most: u64, check: impl FnOnce() -> T) -> Result<(T, u64)> {
    LEFT.set(most);
    let found = check();
    match LEFT.get() {
        0 => {
            let message = format!("checking a value tries at least {most} parts of its schema");
            Err(TOO_LARGE.broken(message))
        }
        left => Ok((found, left)),
    }
}

/// Returns the number of values in a value, including itself.
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

/// The cost of one try, and the additional cost of each member of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    each: u64,
    member: u64,
}

impl Step {
    /// Reads the costs from the value of the keyword.
    pub(crate) fn for_keyword(value: &Value) -> Step {
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        Step { each: number("each").unwrap_or(1), member: number("member").unwrap_or(0) }
    }
}

impl<'i> Keyword<'i> for Step {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        match self.is_valid(value) {
            true => Ok(()),
            false => Err(ValidationError::custom("too many parts of the schema were tried")),
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
