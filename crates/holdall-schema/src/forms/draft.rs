//! Converts the keywords of older drafts of JSON Schema to 2020-12.

use crate::error::{Escape as _, Result};
use crate::rules::DRAFT;
use serde_json::{Map, Value};

/// A draft of JSON Schema, ordered by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    D4,
    D6,
    D7,
    D2019,
    D2020,
}

/// Keywords that have no meaning before a draft.
const SINCE: [(&str, Draft); 13] = [
    ("const", Draft::D6),
    ("contains", Draft::D6),
    ("propertyNames", Draft::D6),
    ("if", Draft::D7),
    ("then", Draft::D7),
    ("else", Draft::D7),
    ("dependentRequired", Draft::D2019),
    ("dependentSchemas", Draft::D2019),
    ("maxContains", Draft::D2019),
    ("minContains", Draft::D2019),
    ("unevaluatedItems", Draft::D2019),
    ("unevaluatedProperties", Draft::D2019),
    ("prefixItems", Draft::D2020),
];

impl Draft {
    const ALL: [Draft; 5] = [Draft::D4, Draft::D6, Draft::D7, Draft::D2019, Draft::D2020];

    fn name(self) -> &'static str {
        match self {
            Draft::D4 => "4",
            Draft::D6 => "6",
            Draft::D7 => "7",
            Draft::D2019 => "2019-09",
            Draft::D2020 => "2020-12",
        }
    }

    /// Returns the value of `$schema` for this draft.
    pub(super) fn address(self) -> &'static str {
        match self {
            Draft::D4 => "http://json-schema.org/draft-04/schema#",
            Draft::D6 => "http://json-schema.org/draft-06/schema#",
            Draft::D7 => "http://json-schema.org/draft-07/schema#",
            Draft::D2019 => "https://json-schema.org/draft/2019-09/schema",
            Draft::D2020 => "https://json-schema.org/draft/2020-12/schema",
        }
    }

    /// Returns the draft that a schema declares. The default, also for a custom meta-schema, is 2020-12. Returns `None`
    /// if the schema is not an object.
    pub(super) fn declared_by(schema: &Value) -> Result<Option<Draft>> {
        let Some(keywords) = schema.as_object() else { return Ok(None) };
        match keywords.get("$schema").and_then(Value::as_str) {
            Some(address) => Draft::named(address).map(|draft| Some(draft.unwrap_or(Draft::D2020))),
            None => Ok(Some(Draft::D2020)),
        }
    }

    fn named(address: &str) -> Result<Option<Draft>> {
        let plain = |address: &'static str| bare(address);
        let found = Draft::ALL.into_iter().find(|d| plain(d.address()) == bare(address));
        if found.is_none() && bare(address).starts_with("json-schema.org/") {
            let message =
                format!("`$schema` is `{}`, a draft that is not supported", address.escaped());
            return Err(DRAFT.broken(message).within("the root"));
        }
        Ok(found)
    }

    /// Checks that the keywords of a node have an equivalent in 2020-12.
    pub(super) fn check(self, node: &Map<String, Value>, is_root: bool) -> Result<()> {
        if let (false, Some(address)) = (is_root, node.get("$schema").and_then(Value::as_str))
            && Draft::named(address)?.is_some_and(|own| own != self)
        {
            let message = format!(
                "`$schema` is `{}` inside a schema of draft {}",
                address.escaped(),
                self.name()
            );
            return Err(DRAFT.broken(message));
        }
        if self == Draft::D2020 {
            return Ok(());
        }
        for (keyword, since) in SINCE {
            if self < since && node.contains_key(keyword) {
                return Err(self.other(keyword, "has no meaning in that draft"));
            }
        }
        for keyword in ["$recursiveRef", "$recursiveAnchor"] {
            if self == Draft::D2019 && node.contains_key(keyword) {
                return Err(self.other(keyword, "is not a keyword of 2020-12"));
            }
        }
        if node.contains_key("unevaluatedItems") && node.contains_key("contains") {
            return Err(self.other(
                "unevaluatedItems",
                "treats the items that `contains` matches differently than in 2020-12",
            ));
        }
        if self < Draft::D2019 && node.contains_key("$ref") && node.contains_key("default") {
            return Err(self.other("default", "is ignored next to `$ref` in that draft"));
        }
        Ok(())
    }

    /// Converts the keywords of a node to 2020-12.
    pub(super) fn change(self, node: &mut Map<String, Value>) {
        if self == Draft::D4 {
            exclusive(node, "minimum", "exclusiveMinimum");
            exclusive(node, "maximum", "exclusiveMaximum");
        }
        if self < Draft::D2020 && !node.get("items").is_some_and(Value::is_array) {
            // It applies only to the items after a list of items.
            node.remove("additionalItems");
        }
        if self < Draft::D2019
            && let Some(Value::Object(all)) = node.remove("dependencies")
        {
            let (names, schemas): (Map<_, _>, Map<_, _>) =
                all.into_iter().partition(|(_, value)| value.is_array());
            for (keyword, found) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
                if !found.is_empty() {
                    node.insert(keyword.to_owned(), found.into());
                }
            }
        }
    }

    #[cold]
    fn other(self, keyword: &str, why: &str) -> crate::Error {
        let message = format!("`$schema` is draft {}, but `{keyword}` {why}", self.name());
        DRAFT.broken(message)
    }
}

/// Returns an address without the parts in which two addresses of the same draft may differ.
fn bare(address: &str) -> &str {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    rest.unwrap_or(address).trim_end_matches('#')
}

/// Converts the boolean of draft 4 that makes a bound exclusive.
fn exclusive(node: &mut Map<String, Value>, bound: &str, keyword: &str) {
    let Some(Value::Bool(is_outside)) = node.get(keyword) else { return };
    let is_outside = *is_outside;
    node.remove(keyword);
    if let (true, Some(value)) = (is_outside, node.get(bound).cloned()) {
        node.remove(bound);
        node.insert(keyword.to_owned(), value);
    }
}
