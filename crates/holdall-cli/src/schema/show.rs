//! Formatting of schemas for people.

use crate::output::as_json;
use holdall::plain::Plain;
use serde_json::Value;

/// Maximum width of a line, in columns.
const WIDTH: usize = 96;

/// Formats a schema on several lines, with members in the order of their bytes.
pub(super) fn pretty(schema: &Value) -> String {
    let mut out = String::new();
    write(schema, None, 0, 0, &mut out);
    out
}

/// Writes a value, after `used` columns of the line. If it is the `properties` of a struct, `order` is the order of its
/// members.
fn write(value: &Value, order: Option<&Value>, indent: usize, used: usize, out: &mut String) {
    let start = out.len();
    line(value, order, out);
    // A comma may follow.
    if used + crate::output::text::columns(&out[start..]) < WIDTH {
        return;
    }
    out.truncate(start);
    let inner = indent + 2;
    let next = |at: usize, out: &mut String| {
        out.push_str(if at > 0 { ",\n" } else { "\n" });
        out.push_str(&" ".repeat(inner));
    };
    match value {
        Value::Object(_) => {
            out.push('{');
            for (at, (key, value, order)) in members(value, order).into_iter().enumerate() {
                next(at, out);
                let start = out.len();
                out.push_str(&as_json(&Plain::from(key)));
                out.push_str(": ");
                let used = inner + crate::output::text::columns(&out[start..]);
                write(value, order, inner, used, out);
            }
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                next(at, out);
                write(item, None, inner, inner, out);
            }
        }
        _ => return line(value, None, out),
    }
    out.push('\n');
    out.push_str(&" ".repeat(indent));
    out.push(if value.is_object() { '}' } else { ']' });
}

/// Writes a value on one line. The depth limit of schemas bounds the recursion.
fn line(value: &Value, order: Option<&Value>, out: &mut String) {
    match value {
        Value::Object(_) => {
            out.push('{');
            for (at, (key, value, order)) in members(value, order).into_iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(&as_json(&Plain::from(key)));
                out.push_str(": ");
                line(value, order, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                line(item, None, out);
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

/// Returns the members of an object in a readable order, each with the order of its own members.
fn members<'v>(
    value: &'v Value,
    order: Option<&'v Value>,
) -> Vec<(&'v str, &'v Value, Option<&'v Value>)> {
    let Value::Object(object) = value else { return Vec::new() };
    let listed = object.get("TypeDef:Struct");
    let listed_key = |key: &String| if key == "properties" { listed } else { None };
    let mut all: Vec<_> = object.iter().map(|(k, v)| (k.as_str(), v, listed_key(k))).collect();
    let order_of = |key: &str| match order.and_then(Value::as_array) {
        Some(order) => order.iter().position(|name| name == key).unwrap_or(usize::MAX),
        None => match key {
            "$schema" | "$id" | "$ref" => 0,
            "title" | "description" => 1,
            "type" | "enum" => 2,
            "$defs" => 3,
            _ if key.starts_with("TypeDef:") => 5,
            "required" => 6,
            "properties" | "mapping" | "items" => 7,
            _ => 4,
        },
    };
    all.sort_by_key(|(key, ..)| order_of(key));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_are_written_for_people() {
        let number = json!({"TypeDef:Int32": true, "type": "integer"});
        let long =
            "a description that is long enough for a line of its own, and then some more words";
        let text = json!({"TypeDef:String": true, "type": "string", "description": long});
        let schema = json!({
            "properties": {"a": text, "b": number}, "TypeDef:Struct": ["b", "a"], "type": "object",
        });
        let expected = format!(
            "{{\n  \"type\": \"object\",\n  \"TypeDef:Struct\": [\"b\", \"a\"],\n  \"properties\": {{\n    \
             \"b\": {{\"type\": \"integer\", \"TypeDef:Int32\": true}},\n    \"a\": {{\n      \
             \"description\": \"{long}\",\n      \"type\": \"string\",\n      \
             \"TypeDef:String\": true\n    }}\n  }}\n}}"
        );
        assert_eq!(pretty(&schema), expected);
        assert_eq!(serde_json::from_str::<Value>(&pretty(&schema)).unwrap(), schema);
        assert_eq!(pretty(&json!({"TypeDef:Int8": true})), "{\"TypeDef:Int8\": true}");
    }
}
