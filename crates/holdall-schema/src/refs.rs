//! `$ref` and `$defs`: checks of the whole schema before its kinds are examined.

use crate::error::{Escape as _, Result};
use crate::limits::SchemaLimits;
use crate::rules::{CYCLE, DEPTH, INVALID, MISSING_REF, REF_SIBLINGS, REMOTE_REF, TOO_LARGE};
pub(crate) use percent::decode_name;
use serde_json::{Map, Value};

/// The keywords that are allowed next to `$ref` (section 2.4).
const REF_SIBLINGS_ALLOWED: [&str; 10] = [
    "$ref",
    "title",
    "description",
    "$comment",
    "default",
    "examples",
    "deprecated",
    "$defs",
    "$schema",
    "$id",
];

/// Keywords whose value is a schema.
pub(crate) const ONE: [&str; 12] = [
    "additionalProperties",
    "items",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
    "additionalItems",
];
/// Keywords whose value is an array of schemas.
pub(crate) const MANY: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas.
pub(crate) const NAMED: [&str; 6] =
    ["properties", "$defs", "patternProperties", "dependentSchemas", "definitions", "mapping"];

/// Returns the name in `$defs` that a `$ref` refers to: the unescaped text after `#/$defs/`.
pub fn def_name(target: &str) -> Option<String> {
    target.strip_prefix("#/$defs/").and_then(decode_name)
}

/// Returns the `$ref` to this name in `$defs`.
pub fn reference(name: &str) -> String {
    let pointer =
        name.replace('~', "~0").replace('/', "~1").replace('%', "%25").replace('#', "%23");
    format!("#/$defs/{pointer}")
}

/// The `$defs` of a schema all of whose references are valid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defs<'v> {
    defs: Option<&'v Map<String, Value>>,
    max_hops: usize,
}

impl<'v> Defs<'v> {
    /// Checks each `$ref`, the nesting depth and the number of nodes of the schema, in one pass without recursion.
    pub(crate) fn checked(root: &'v Value, limits: &SchemaLimits) -> Result<Defs<'v>> {
        let defs = match root.get("$defs") {
            None => None,
            Some(Value::Object(defs)) => Some(defs),
            Some(_) => {
                return Err(INVALID.broken("expected an object of schemas").within("`/$defs`"));
            }
        };
        let found = Defs { defs, max_hops: limits.max_depth() };
        let mut nodes = 0u64;
        let mut open: Vec<(&Value, usize)> = vec![(root, 1)];
        while let Some((node, depth)) = open.pop() {
            nodes = nodes.saturating_add(1);
            if nodes > limits.max_nodes() {
                let most = limits.max_nodes();
                return Err(TOO_LARGE.broken(format!("the schema has more than {most} nodes")));
            }
            if depth > limits.max_depth() {
                let most = limits.max_depth();
                return Err(DEPTH.broken(format!("the schema nests more than {most} levels deep")));
            }
            match node {
                Value::Object(node) => {
                    found.check_ref(node)?;
                    let below = depth.saturating_add(1);
                    for (keyword, value) in node {
                        // In nodes that are not unions, `mapping` can be the name of anything.
                        if keyword != "mapping" || node.contains_key("TypeDef:Union") {
                            children(keyword, value, |child| open.push((child, below)));
                        }
                    }
                }
                Value::Bool(_) => {}
                _ => {
                    let e = INVALID.broken("a schema is neither an object nor a boolean");
                    return Err(match pointer_of(root, node) {
                        Some(at) if at.is_empty() => e.within("the root"),
                        Some(at) => e.within(format!("`{}`", at.escaped())),
                        None => e,
                    });
                }
            }
        }
        Ok(found)
    }

    /// Returns all `$defs`.
    #[cfg(feature = "validate")]
    pub(crate) fn all(&self) -> Option<&'v Map<String, Value>> {
        self.defs
    }

    /// Returns `true` if a node, or the target of its `$ref`, has a `default`.
    #[cfg(feature = "validate")]
    pub(crate) fn has_default(&self, node: &Value) -> Result<bool> {
        if node.get("default").is_some() {
            return Ok(true);
        }
        let name = node.get("$ref").and_then(Value::as_str).and_then(def_name);
        match name.and_then(|n| self.defs?.get(&n)) {
            Some(target) => Ok(self.resolve(target)?.default.is_some()),
            None => Ok(false),
        }
    }

    fn check_ref(&self, node: &Map<String, Value>) -> Result<()> {
        let Some(target) = node.get("$ref") else { return Ok(()) };
        let Some(text) = target.as_str() else {
            return Err(REMOTE_REF.broken("`$ref` is not a string"));
        };
        if let Some(key) = node.keys().find(|k| !REF_SIBLINGS_ALLOWED.contains(&k.as_str())) {
            let message = format!(
                "`{}` is not allowed next to `$ref` to `{}`",
                key.escaped(),
                text.escaped()
            );
            return Err(REF_SIBLINGS.broken(message));
        }
        let Some(name) = def_name(text) else {
            let message =
                format!("expected `#/$defs/` and a name in `$ref`, found `{}`", text.escaped());
            return Err(REMOTE_REF.broken(message));
        };
        match self.defs.and_then(|d| d.get(&name)) {
            Some(_) => Ok(()),
            None => {
                let message = format!("`$defs` has no `{}`", name.escaped());
                Err(MISSING_REF.broken(message))
            }
        }
    }

    /// Returns the node itself, or the final target of its `$ref`.
    pub(crate) fn resolve(&self, node: &'v Value) -> Result<Resolved<'v>> {
        let mut found = Resolved { node, default: node.get("default"), name: None };
        for _ in 0..=self.max_hops {
            let Some(target) = found.node.get("$ref").and_then(Value::as_str) else {
                return Ok(found);
            };
            let name = def_name(target);
            let next = name.as_ref().and_then(|n| self.defs?.get(n));
            let Some(next) = next else {
                return Err(MISSING_REF.broken(format!("`{}`", target.escaped())));
            };
            if std::ptr::eq(next, node) {
                let message = format!("`$ref` to `{}` refers to itself", target.escaped());
                return Err(CYCLE.broken(message));
            }
            found.node = next;
            found.default = found.default.or_else(|| next.get("default"));
            found.name = name;
        }
        // Follows the references once around, to distinguish a cycle that does not include the node from a long chain.
        let mut at = found.node;
        for _ in 0..self.defs.map_or(0, Map::len) {
            let target = at.get("$ref").and_then(Value::as_str);
            let name = target.and_then(def_name);
            let Some(next) = name.and_then(|n| self.defs?.get(&n)) else {
                let most = self.max_hops;
                return Err(DEPTH.broken(format!("a chain of `$ref` is longer than {most}")));
            };
            at = next;
        }
        Err(CYCLE.broken("`$ref` refers to itself"))
    }
}

/// Returns the JSON pointer from a value to one of its parts.
#[cold]
pub(crate) fn pointer_of(root: &Value, wanted: &Value) -> Option<String> {
    let mut open = vec![(root, String::new())];
    while let Some((value, at)) = open.pop() {
        if std::ptr::eq(value, wanted) {
            return Some(at);
        }
        match value {
            Value::Array(items) => {
                open.extend(items.iter().enumerate().map(|(n, item)| (item, format!("{at}/{n}"))));
            }
            Value::Object(members) => open.extend(members.iter().map(|(key, item)| {
                (item, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")))
            })),
            _ => {}
        }
    }
    None
}

/// A node after following the references to it.
#[derive(Debug, Clone)]
pub(crate) struct Resolved<'v> {
    /// The node itself.
    pub(crate) node: &'v Value,
    /// The `default` that is nearest to the node where the node is used.
    pub(crate) default: Option<&'v Value>,
    /// The name in `$defs`, if a `$ref` led to the schema. Other references may lead to it too.
    pub(crate) name: Option<String>,
}

/// Calls `each` with the schemas directly in one keyword of a node.
pub(crate) fn children<'v>(keyword: &str, value: &'v Value, mut each: impl FnMut(&'v Value)) {
    if ONE.contains(&keyword) {
        each(value);
    } else if MANY.contains(&keyword) {
        value.as_array().into_iter().flatten().for_each(each);
    } else if NAMED.contains(&keyword) {
        value.as_object().into_iter().flat_map(Map::values).for_each(each);
    }
}

/// Calls `each` with the schemas directly in one keyword of a node, like [`children`], as mutable references.
pub(crate) fn children_mut(
    keyword: &str,
    value: &mut Value,
    each: &mut impl FnMut(&mut Value) -> Result<()>,
) -> Result<()> {
    if ONE.contains(&keyword) {
        each(value)
    } else if MANY.contains(&keyword) {
        value.as_array_mut().into_iter().flatten().try_for_each(each)
    } else if NAMED.contains(&keyword) {
        value.as_object_mut().into_iter().flat_map(Map::values_mut).try_for_each(each)
    } else {
        Ok(())
    }
}

mod percent {
    use holdall_json::percent_decoded;

    /// Decodes the name at the end of a `$ref`: `%` and two digits are a byte, `~1` is `/`, `~0` is `~`. Returns `None`
    /// if it is more than one name, or none.
    pub(crate) fn decode_name(text: &str) -> Option<String> {
        if !text.contains(['%', '~', '/']) {
            return Some(text.to_owned());
        }
        let pointer = percent_decoded(text)?;
        let mut name = String::with_capacity(pointer.len());
        let mut rest = pointer.chars();
        while let Some(c) = rest.next() {
            name.push(match c {
                '/' => return None,
                '~' => match rest.next()? {
                    '0' => '~',
                    '1' => '/',
                    _ => return None,
                },
                _ => c,
            });
        }
        Some(name)
    }
}
