//! Fields of JSON that other programs print.

use holdall::Value;

/// Returns the member `key` of an object.
pub(crate) fn field<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    let Value::Map(pairs) = value else { return None };
    pairs.iter().find(|(k, _)| k.as_text() == Some(key)).map(|(_, v)| v)
}

/// Returns the text of the member `key`.
pub(crate) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    field(value, key).and_then(Value::as_text)
}

/// Returns the member `key` as a number that is not negative.
pub(crate) fn number(value: &Value, key: &str) -> Option<usize> {
    field(value, key).and_then(Value::as_integer).and_then(|n| usize::try_from(n).ok())
}

/// Returns the values of an array.
pub(crate) fn items(value: Option<&Value>) -> Option<&[Value]> {
    match value? {
        Value::Array(items) => Some(items),
        _ => None,
    }
}
