//! Whether a schema of records says more of values than their kinds do.

use crate::kinds::is_kind;
use crate::refs::children;
use serde_json::{Map, Value};

/// Returns `true` if the schema of a record has standard keywords that refuse values its kinds have: a `minimum`, a `pattern`.
/// What a kind implies (`type`, the `minItems` of a fixed array) and annotations say no more.
pub fn says_more(kind: &Value) -> bool {
    let mut open = vec![kind];
    while let Some(node) = open.pop() {
        let Some(keywords) = node.as_object() else { continue };
        if own_keywords(keywords) {
            return true;
        }
        for (keyword, value) in keywords {
            children(keyword, value, |child| open.push(child));
        }
    }
    false
}

fn own_keywords(node: &Map<String, Value>) -> bool {
    let mut kinds = node.keys().filter_map(|k| k.strip_prefix("TypeDef:"));
    let kind = kinds.find(|name| is_kind(name));
    let is_fixed = node.get("minItems").is_some() && node.get("minItems") == node.get("maxItems");
    node.iter().any(|(keyword, value)| match (keyword.as_str(), kind) {
        // Keywords beside a tensor are about its reference.
        (_, Some("Tensor" | "Blob")) => false,
        ("minItems" | "maxItems", Some("Complex64" | "Complex128")) => false,
        ("minItems" | "maxItems", Some("Array")) => !is_fixed,
        ("enum", Some("Enum")) => false,
        // The values of a record are plain JSON, of which the kind says nothing.
        ("additionalProperties", Some("Record")) => {
            *value != true && *value != Value::Object(Map::new())
        }
        ("additionalProperties", Some("Struct")) => false,
        (keyword, _) => ASSERTIONS.contains(&keyword),
    })
}

const ASSERTIONS: [&str; 30] = [
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "if",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];
