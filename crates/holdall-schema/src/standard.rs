//! Whether a schema of records has constraints beyond its kinds.

use crate::kinds::is_kind;
use crate::refs::children;
use serde_json::{Map, Value};

/// Returns `true` if the schema of a record has standard keywords that exclude values of its kinds, such as `minimum`
/// or `pattern`. Annotations, and keywords that the kind implies (`type`, the `minItems` of a fixed array), do not
/// count.
pub fn has_value_constraints(kind: &Value) -> bool {
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
        // Keywords next to a tensor constrain its reference in the header.
        (_, Some("Tensor" | "Blob")) => false,
        ("minItems" | "maxItems", Some("Complex64" | "Complex128")) => false,
        ("minItems" | "maxItems", Some("Array")) => !is_fixed,
        ("enum", Some("Enum")) => false,
        // The values of a `Record` are plain JSON, which the kind does not constrain.
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
