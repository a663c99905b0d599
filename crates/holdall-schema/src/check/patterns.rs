//! Removes patterns that cannot be compiled: regular expressions of ECMA-262 may look ahead and back, which can take
//! time that is not bounded in proportion to the text.

use super::built;
use crate::refs::{children, children_mut};
use crate::vocabulary::Vocabulary;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The name for patterns in `$defs`, which any part may refer to.
pub(super) const SHARED: &str = "$defs";

/// Removes the patterns that cannot be compiled from a schema. Returns them, each with the name of the member of
/// `properties` at the root that contains it, or [`SHARED`].
pub(super) fn without_uncompiled(mut schema: Value) -> (Value, Vec<(String, String)>) {
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut open = vec![&schema];
    while let Some(node) = open.pop() {
        let Some(keywords) = node.as_object() else { continue };
        let named = keywords.get("patternProperties").and_then(Value::as_object);
        let own = keywords.get("pattern").and_then(Value::as_str);
        for pattern in named.into_iter().flat_map(Map::keys).map(String::as_str).chain(own) {
            known.insert(pattern.to_owned());
        }
        for (keyword, value) in keywords {
            children(keyword, value, |child| open.push(child));
        }
    }
    // Texts that are not regular expressions at all are left for the validator to refuse.
    known.retain(|pattern| {
        let schema = json!({ "pattern": pattern });
        let looks_around = || jsonschema::options().offline().build(&schema).is_ok();
        built(&schema, &Vocabulary::default()).is_err() && looks_around()
    });
    let mut found = Vec::new();
    if known.is_empty() {
        return (schema, found);
    }
    if let Some(Value::Object(parts)) = schema.get_mut("properties") {
        for (name, part) in parts.iter_mut() {
            let mut taken = Vec::new();
            take(part, &known, &mut taken);
            found.extend(taken.into_iter().map(|pattern| (name.clone(), pattern)));
        }
    }
    let mut taken = Vec::new();
    take(&mut schema, &known, &mut taken);
    found.extend(taken.into_iter().map(|pattern| (SHARED.to_owned(), pattern)));
    (schema, found)
}

/// Removes the patterns from a node and everything below it. The recursion is bounded by the parser of the schema.
fn take(node: &mut Value, patterns: &BTreeSet<String>, taken: &mut Vec<String>) {
    let Some(keywords) = node.as_object_mut() else { return };
    let own = keywords.get("pattern").and_then(Value::as_str).map(str::to_owned);
    if let Some(own) = own.filter(|own| patterns.contains(own)) {
        keywords.remove("pattern");
        taken.push(own);
    }
    if let Some(Value::Object(named)) = keywords.get_mut("patternProperties") {
        let before = taken.len();
        named.retain(|pattern, _| {
            let stays = !patterns.contains(pattern);
            if !stays {
                taken.push(pattern.clone());
            }
            stays
        });
        if taken.len() > before {
            // It is not known which names the removed pattern matches, so these keywords are removed too.
            keywords.remove("additionalProperties");
            keywords.remove("unevaluatedProperties");
        }
    }
    for (keyword, value) in keywords.iter_mut() {
        let each = &mut |child: &mut Value| {
            take(child, patterns, taken);
            Ok(())
        };
        // It never fails.
        let _ = children_mut(keyword, value, each);
    }
}
