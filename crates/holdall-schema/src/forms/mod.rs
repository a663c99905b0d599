//! Converts schemas in other forms to that of section 2 (2.8, 2.9): older drafts of JSON Schema, tuples as lists of
//! `items`, and references without a keyword, as the concept document prints them.

mod draft;
mod printed;

use crate::error::{Escape as _, Result};
use crate::refs::{children, children_mut, decode_name, pointer_of, reference};
use draft::Draft;
use printed::Names;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Largest nesting depth to examine; deeper schemas are refused by the compiler.
const DEEPEST: usize = 256;

/// Converts a schema to the form that [`Schema::compile`](crate::Schema::compile) reads. A schema that already has
/// this form is returned unchanged, others are converted to an equivalent one. JSON pointers refer to the returned
/// schema.
///
/// # Errors
/// Returns `schema/draft`, with the draft and the keyword, if a keyword has another meaning in 2020-12.
pub fn normalize(schema: Value) -> Result<Value> {
    let Some(draft) = Draft::declared_by(&schema)? else { return Ok(schema) };
    if !is_other(&schema, draft)? {
        return Ok(schema);
    }
    let names = schema.clone();
    let mut own = schema;
    change(&mut own, draft, &Names::in_schema(&names), &Joined::in_schema(&names))?;
    if let Some(keywords) = own.as_object_mut() {
        if draft < Draft::D2020 {
            keywords.insert("$schema".to_owned(), Draft::D2020.address().into());
        }
        join_definitions(keywords, &Joined::in_schema(&names));
    }
    Ok(own)
}

/// Returns `true` if any part of a schema of this draft needs to be converted.
fn is_other(schema: &Value, draft: Draft) -> Result<bool> {
    let names = Names::in_schema(schema);
    let mut is_other = draft < Draft::D2020 || schema.get("definitions").is_some();
    let mut open = vec![(schema, 1usize)];
    while let Some((node, depth)) = open.pop() {
        let Some(keywords) = node.as_object() else { continue };
        if depth > DEEPEST {
            return Ok(false);
        }
        draft.check(keywords, depth == 1).map_err(|e| placed(e, schema, node))?;
        let is_tuple = is_tuple(keywords);
        is_other |= is_tuple || is_map(keywords) || names.kind_of(keywords).is_some();
        let below = depth.saturating_add(1);
        for (keyword, value) in keywords {
            if let (true, Some(items)) = (is_tuple && keyword == "items", value.as_array()) {
                open.extend(items.iter().map(|item| (item, below)));
            } else if keyword != "mapping" || keywords.contains_key("TypeDef:Union") {
                children(keyword, value, |child| open.push((child, below)));
            }
        }
    }
    Ok(is_other)
}

/// Converts a node and everything below it.
fn change(node: &mut Value, draft: Draft, names: &Names<'_>, joined: &Joined) -> Result<()> {
    let Some(keywords) = node.as_object_mut() else { return Ok(()) };
    if let Some((kind, value)) = names.kind_of(keywords) {
        // The kind replaces these keywords.
        let replaced = ["type", "properties", "required", "additionalProperties"];
        keywords.retain(|keyword, _| !replaced.contains(&keyword.as_str()));
        keywords.insert(kind.to_owned(), value);
    }
    draft.change(keywords);
    if is_tuple(keywords) {
        tuple(keywords);
    }
    if is_map(keywords)
        && let Some(Value::Object(mut all)) = keywords.remove("patternProperties")
        && let Some(values) = ANY_NAME.iter().find_map(|pattern| all.remove(*pattern))
    {
        keywords.insert("additionalProperties".to_owned(), values);
    }
    if let Some(Value::String(target)) = keywords.get_mut("$ref")
        && let Some(name) = target.strip_prefix("#/definitions/")
    {
        *target = joined.reference(name);
    }
    for (keyword, value) in keywords.iter_mut() {
        children_mut(keyword, value, &mut |child| change(child, draft, names, joined))?;
    }
    Ok(())
}

/// Returns `true` if any node of the schema has a list of items, one for each position.
pub(crate) fn has_tuples(schema: &Value) -> bool {
    let mut open = vec![schema];
    while let Some(node) = open.pop() {
        let Some(keywords) = node.as_object() else { continue };
        if is_tuple(keywords) {
            return true;
        }
        for (keyword, value) in keywords {
            children(keyword, value, |child| open.push(child));
        }
    }
    false
}

/// Returns `true` if a node has a list of items, one for each position, which is how drafts before 2020-12 write
/// tuples.
fn is_tuple(node: &Map<String, Value>) -> bool {
    let is_plain =
        !node.contains_key("prefixItems") && !node.keys().any(|k| k.starts_with("TypeDef:"));
    is_plain && node.get("items").is_some_and(Value::is_array)
}

/// The patterns that match any name, as versions of TypeBox write them.
const ANY_NAME: [&str; 2] = ["^(.*)$", "^.*$"];

/// Returns `true` if a node is a map: members of any name, written as one pattern.
fn is_map(node: &Map<String, Value>) -> bool {
    let patterns = node.get("patternProperties").and_then(Value::as_object);
    let has = |k: &str| node.contains_key(k);
    patterns.is_some_and(|p| p.len() == 1 && ANY_NAME.iter().any(|any| p.contains_key(*any)))
        && !(has("properties") || has("additionalProperties"))
}

/// Converts `items: [A, B]`, `additionalItems: C` to `prefixItems: [A, B]`, `items: C`.
fn tuple(node: &mut Map<String, Value>) {
    let Some(prefix_items) = node.remove("items") else { return };
    if prefix_items.as_array().is_some_and(|prefix_items| !prefix_items.is_empty()) {
        node.insert("prefixItems".to_owned(), prefix_items);
    }
    if let Some(others) = node.remove("additionalItems") {
        node.insert("items".to_owned(), others);
    }
}

/// The new names of `definitions` that are moved to `$defs`, for those whose name is already in use there.
struct Joined(BTreeMap<String, String>);

impl Joined {
    fn in_schema(root: &Value) -> Joined {
        let named = |keyword: &str| root.get(keyword).and_then(Value::as_object);
        let (Some(defs), Some(definitions)) = (named("$defs"), named("definitions")) else {
            return Joined(BTreeMap::new());
        };
        let mut joined: BTreeMap<String, String> = BTreeMap::new();
        let is_taken = |name: &String| defs.contains_key(name) || definitions.contains_key(name);
        for name in definitions.keys().filter(|name| defs.contains_key(*name)) {
            // Two definitions never get the same name, because the text before the last `#` is the name of each.
            let mut others = (2u64..).map(|number| format!("{name}#{number}"));
            let other = others.find(|other| !is_taken(other)).unwrap_or_default();
            joined.insert(name.clone(), other);
        }
        Joined(joined)
    }

    /// Returns the name in `$defs` of a definition.
    fn name(&self, name: String) -> String {
        self.0.get(&name).cloned().unwrap_or(name)
    }

    /// Returns the `$ref` to a definition. `end` is the text after `#/definitions/`.
    fn reference(&self, end: &str) -> String {
        match decode_name(end).and_then(|name| self.0.get(&name)) {
            Some(name) => reference(name),
            None => format!("#/$defs/{end}"),
        }
    }
}

/// Moves `definitions` to `$defs`.
fn join_definitions(root: &mut Map<String, Value>, joined: &Joined) {
    let Some(Value::Object(definitions)) = root.remove("definitions") else { return };
    let defs = root.entry("$defs").or_insert_with(|| Value::Object(Map::new()));
    // Compiling refuses `$defs` that is not an object.
    let Some(defs) = defs.as_object_mut() else { return };
    defs.extend(definitions.into_iter().map(|(name, own)| (joined.name(name), own)));
}

#[cold]
fn placed(e: crate::Error, root: &Value, node: &Value) -> crate::Error {
    match pointer_of(root, node) {
        Some(at) if !at.is_empty() => e.within(format!("`{}`", at.escaped())),
        _ => e.within("the root"),
    }
}
