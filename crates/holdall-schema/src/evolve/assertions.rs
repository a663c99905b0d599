//! Decides whether a changed standard keyword still accepts every value that the old one accepts (8.1.5).

use serde_json::Value;
use std::cmp::Ordering;

/// Returns `true` if the new keyword accepts every value that the old one accepts, with all other keywords unchanged.
/// Returns `false` if that is not certain.
pub(super) fn loosens(key: &str, old: Option<&Value>, new: Option<&Value>) -> bool {
    // The validator ignores other keywords.
    if !ALONE.contains(&key) && !BESIDE_OTHERS.contains(&key) {
        return true;
    }
    match (old, new) {
        (_, Some(new)) if says_nothing(key, new) => true,
        (Some(_), None) => ALONE.contains(&key),
        (Some(old), Some(new)) => holds(key, old, new),
        (None, None) => true,
        (None, Some(_)) => false,
    }
}

/// Returns `true` if a keyword restricts the value of numbers.
pub(super) fn is_numeric(key: &str) -> bool {
    OF_NUMBERS.contains(&key) || APPLIED.contains(&key)
}

/// Keywords that restrict the value of numbers.
const OF_NUMBERS: [&str; 7] =
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "const", "enum"];

/// Keywords with schemas that apply to the value itself.
const APPLIED: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];

/// Keywords whose removal accepts more values, whichever other keywords there are.
const ALONE: [&str; 29] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "const",
    "enum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "required",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "additionalProperties",
];

/// The other assertion keywords of draft 2020-12: which values they accept depends on the keywords next to them.
const BESIDE_OTHERS: [&str; 9] = [
    "minContains",
    "dependencies",
    "items",
    "prefixItems",
    "properties",
    "patternProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
];

/// Returns `true` if a keyword with this value accepts everything.
fn says_nothing(key: &str, value: &Value) -> bool {
    match key {
        "minLength" | "minItems" | "minProperties" => value.as_u64() == Some(0),
        "uniqueItems" => *value == Value::Bool(false),
        "required" => value.as_array().is_some_and(Vec::is_empty),
        "additionalProperties" | "items" | "propertyNames" => *value == Value::Bool(true),
        _ => false,
    }
}

/// Returns `true` if the new value of a keyword accepts everything that its old value accepts.
fn holds(key: &str, old: &Value, new: &Value) -> bool {
    let has_all = |all: &Value, some: &Value| match (all.as_array(), some.as_array()) {
        (Some(all), Some(some)) => some.iter().all(|x| all.contains(x)),
        _ => false,
    };
    match key {
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties"
        | "minContains" => order(new, old).is_some_and(Ordering::is_le),
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties"
        | "maxContains" => order(new, old).is_some_and(Ordering::is_ge),
        "multipleOf" => match (old.as_u64(), new.as_u64()) {
            (Some(old), Some(new)) => old.checked_rem(new) == Some(0),
            _ => false,
        },
        "enum" => has_all(new, old),
        "required" => has_all(old, new),
        _ => false,
    }
}

/// Compares two numbers. Returns `None` if the result is not certain.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    let whole = |x: &Value| x.as_i64().map(i128::from).or_else(|| x.as_u64().map(i128::from));
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        return Some(a.cmp(&b));
    }
    match a.as_f64()?.partial_cmp(&b.as_f64()?)? {
        // Different numbers can become equal by rounding.
        Ordering::Equal if a != b => None,
        order => Some(order),
    }
}

#[cfg(test)]
mod tests {
    use super::loosens;
    use serde_json::json;

    #[test]
    fn widening_is_distinguished_from_narrowing() {
        for (key, narrow, wide) in [
            ("minimum", json!(1), json!(0.5)),
            ("maximum", json!(u64::MAX - 1), json!(u64::MAX)),
            ("exclusiveMinimum", json!(3), json!(-3)),
            ("exclusiveMaximum", json!(2.5), json!(3)),
            ("multipleOf", json!(6), json!(3)),
            ("minLength", json!(2), json!(1)),
            ("maxLength", json!(2), json!(3)),
            ("enum", json!([1, 2]), json!([3, 2, 1])),
            ("required", json!(["a", "b"]), json!(["b"])),
        ] {
            assert!(loosens(key, Some(&narrow), Some(&wide)), "{key}");
            assert!(!loosens(key, Some(&wide), Some(&narrow)), "{key}");
            assert!(
                loosens(key, Some(&narrow), None) && !loosens(key, None, Some(&narrow)),
                "{key}"
            );
        }
        // Whether one pattern accepts all texts of another is not decidable here.
        assert!(!loosens("pattern", Some(&json!("a")), Some(&json!("a|b"))));
        assert!(!loosens("properties", Some(&json!({"a": {}})), None));
        for (key, value) in
            [("format", json!("date")), ("x-unit", json!("m")), ("minItems", json!(0))]
        {
            assert!(loosens(key, None, Some(&value)), "{key}");
        }
    }
}
