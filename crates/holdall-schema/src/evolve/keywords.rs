//! Compares what only the JSON of a schema contains: annotations, and keywords that the validator uses.

use super::assertions;
use super::change::{ChangeKind, Verdict};
use super::diff::{Budget, Found, Local, Sites};
use super::show;
use crate::error::Result;
use crate::limits::SchemaLimits;
use crate::refs::{Defs, MANY, NAMED, ONE};
use holdall_collections::{HashMap, HashSet};
use serde_json::{Map, Value};
use std::cell::RefCell;

/// Keywords that do not constrain values; `default` is compared separately.
const ANNOTATIONS: [&str; 8] = [
    "title",
    "description",
    "$comment",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentMediaType",
];

/// The validator's use of the keywords of a node; it only checks values in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The keywords constrain the values.
    Asserted,
    /// The node is a float that was widened, so its shortest decimal is now another number.
    Widened,
    /// The keywords are not used, because the values are stored as bytes.
    Nowhere,
}

/// Keywords about the structure of the schema rather than about values.
const OF_THE_DOCUMENT: [&str; 5] = ["$ref", "$defs", "definitions", "$schema", "$id"];

/// The `$defs` of both schemas, if their JSON is known.
pub(super) struct Keywords<'s> {
    old: Option<Defs<'s>>,
    new: Option<Defs<'s>>,
    values: RefCell<Values<'s>>,
}

/// Large values; each is examined once, even if many paths lead to it.
#[derive(Default)]
struct Values<'s> {
    /// The numbers of values, by their address.
    numbers: HashMap<usize, usize>,
    /// The numbers of distinct values.
    known: HashMap<&'s Value, usize>,
}

impl<'s> Values<'s> {
    /// Returns the number of a value; equal values have the same number.
    fn number(&mut self, value: &'s Value) -> usize {
        let address = std::ptr::from_ref(value).addr();
        *self.numbers.entry(address).or_insert_with(|| {
            let next = self.known.len();
            *self.known.entry(value).or_insert(next)
        })
    }
}

impl<'s> Keywords<'s> {
    pub(super) fn new(
        old: Option<&'s Value>,
        new: Option<&'s Value>,
        limits: &SchemaLimits,
    ) -> Result<Keywords<'s>> {
        let defs = |json: Option<&'s Value>| json.map(|j| Defs::checked(j, limits)).transpose();
        Ok(Keywords { old: defs(old)?, new: defs(new)?, values: RefCell::default() })
    }

    /// Returns the `$defs` of the new schema, if its JSON is known.
    pub(super) fn new_defs(&self) -> Option<&Defs<'s>> {
        self.new.as_ref()
    }

    /// Returns the nodes themselves, or the targets of their `$ref`.
    pub(super) fn resolve(&self, sites: Sites<'s>) -> Sites<'s> {
        let end = |defs: Option<&Defs<'s>>, site| Some(defs?.resolve(site?).ok()?.node);
        Sites { old: end(self.old.as_ref(), sites.old), new: end(self.new.as_ref(), sites.new) }
    }

    /// Returns the `default` that applies at a node.
    pub(super) fn defaults(&self, sites: Sites<'s>) -> Sites<'s> {
        let end = |defs: Option<&Defs<'s>>, site| defs?.resolve(site?).ok()?.default;
        Sites { old: end(self.old.as_ref(), sites.old), new: end(self.new.as_ref(), sites.new) }
    }

    /// Returns `true` if two values are equal. All comparisons together take time in proportion to the schemas.
    pub(super) fn same(&self, old: Option<&'s Value>, new: Option<&'s Value>) -> bool {
        match (old, new) {
            (Some(old), Some(new)) if is_large(old) && is_large(new) => {
                let mut values = self.values.borrow_mut();
                values.number(old) == values.number(new)
            }
            (old, new) => old == new,
        }
    }

    /// Returns `true` if annotations differ at a node. Those next to a `$ref` take precedence over those of its
    /// target.
    pub(super) fn annotations_differ(&self, sites: Sites<'s>, nodes: Sites<'s>) -> bool {
        let (Some(old), Some(new)) = (sites.old, sites.new) else { return false };
        ANNOTATIONS.iter().any(|key| {
            let before = old.get(key).or_else(|| nodes.old?.get(key));
            let after = new.get(key).or_else(|| nodes.new?.get(key));
            !self.same(before, after)
        })
    }

    /// Compares the keywords that only the validator uses, in two nodes of the same kind.
    pub(super) fn compare(
        &self,
        out: &mut Found,
        nodes: Sites<'s>,
        seen: Seen,
        budget: &mut Budget,
    ) -> Result<()> {
        let objects =
            nodes.old.and_then(Value::as_object).zip(nodes.new.and_then(Value::as_object));
        let Some((old, new)) = objects else { return Ok(()) };
        let is_own = |key: &str| {
            !key.starts_with("TypeDef:")
                && !is_of_kind(key, old, seen)
                && !says_the_kind(key, old)
                && !is_aside(key)
        };
        let (mut differing, mut has_annotations) = (Vec::new(), false);
        for key in old.keys().chain(new.keys().filter(|k| !old.contains_key(*k))) {
            if !is_own(key) {
                continue;
            }
            let mut like = Likeness::new(self);
            like.keyword(key, old.get(key), new.get(key));
            match like.finish(budget)? {
                Like::Same => {}
                Like::Annotations => has_annotations = true,
                Like::Other => differing.push(key.as_str()),
            }
        }
        if has_annotations {
            out.push(Local::new(ChangeKind::Annotations, Verdict::Compatible).entry());
        }
        if !differing.is_empty() {
            let text = |node: &Map<String, Value>| {
                let part = |key: &&str| Some(format!("{key} {}", show::json(node.get(*key)?)));
                let parts: Vec<String> = differing.iter().take(8).filter_map(part).collect();
                (!parts.is_empty()).then(|| show::cut(&parts.join(", ")).into())
            };
            let loosens = |key: &&str| assertions::loosens(key, old.get(*key), new.get(*key));
            let is_open = !new.keys().any(|key| key.starts_with("unevaluated"));
            let verdict = match seen == Seen::Nowhere || is_open && differing.iter().all(loosens) {
                true => Verdict::Compatible,
                false => Verdict::NeedsConverter,
            };
            let change = Local::new(ChangeKind::Keywords, verdict);
            out.push(change.texts(text(old), text(new)).entry());
        } else if seen == Seen::Widened && new.keys().any(|key| assertions::is_numeric(key)) {
            out.push(Local::new(ChangeKind::Keywords, Verdict::NeedsConverter).entry());
        }
        Ok(())
    }

    /// Compares two schemas of plain JSON.
    pub(super) fn compare_plain(
        &self,
        out: &mut Found,
        nodes: Sites<'s>,
        budget: &mut Budget,
    ) -> Result<()> {
        let (Some(old), Some(new)) = (nodes.old, nodes.new) else { return Ok(()) };
        let mut like = Likeness::new(self);
        like.ahead.push((old, new));
        like.is_first = true;
        let change = match like.finish(budget)? {
            Like::Same => return Ok(()),
            Like::Annotations => Local::new(ChangeKind::Annotations, Verdict::Compatible),
            Like::Other => Local::new(ChangeKind::Json, Verdict::NeedsConverter)
                .sides(show::json(old), show::json(new)),
        };
        out.push(change.entry());
        Ok(())
    }
}

/// How similar two schemas are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Like {
    Same,
    Annotations,
    Other,
}

/// A comparison of two schemas that may contain themselves.
struct Likeness<'k, 's> {
    keywords: &'k Keywords<'s>,
    ahead: Vec<(&'s Value, &'s Value)>,
    /// Pairs that a `$ref` led to, by address. They are assumed to be equal until a difference is found.
    seen: HashSet<(usize, usize)>,
    found: Like,
    /// Whether the next node is the top one, whose annotations are compared separately.
    is_first: bool,
}

impl<'k, 's> Likeness<'k, 's> {
    fn new(keywords: &'k Keywords<'s>) -> Likeness<'k, 's> {
        Likeness {
            keywords,
            ahead: Vec::new(),
            seen: HashSet::default(),
            found: Like::Same,
            is_first: true,
        }
    }

    fn note(&mut self, like: Like) {
        self.found = self.found.max(like);
    }

    /// Compares the remaining pairs.
    fn finish(mut self, budget: &mut Budget) -> Result<Like> {
        while let Some((old, new)) = self.ahead.pop() {
            if self.found == Like::Other {
                break;
            }
            budget.take(1)?;
            self.pair(old, new);
        }
        Ok(self.found)
    }

    fn pair(&mut self, old: &'s Value, new: &'s Value) {
        let sites = Sites { old: Some(old), new: Some(new) };
        let nodes = self.keywords.resolve(sites);
        let (a, b) = (nodes.old.unwrap_or(old), nodes.new.unwrap_or(new));
        if !std::ptr::eq(a, old) || !std::ptr::eq(b, new) {
            let pair = (std::ptr::from_ref(a).addr(), std::ptr::from_ref(b).addr());
            if !self.seen.insert(pair) {
                return;
            }
        }
        let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
            if !self.keywords.same(Some(a), Some(b)) {
                self.note(Like::Other);
            }
            return;
        };
        for key in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
            if !is_aside(key) {
                self.keyword(key, a.get(key), b.get(key));
            }
        }
        let defaults = self.keywords.defaults(sites);
        let is_below = !std::mem::take(&mut self.is_first);
        let differ = self.keywords.annotations_differ(sites, nodes)
            || !self.keywords.same(defaults.old, defaults.new);
        if is_below && differ {
            self.note(Like::Annotations);
        }
    }

    /// Compares the values of one keyword. Schemas in them are compared later.
    fn keyword(&mut self, key: &str, old: Option<&'s Value>, new: Option<&'s Value>) {
        let (Some(old), Some(new)) = (old, new) else { return self.note(Like::Other) };
        if ONE.contains(&key) {
            return self.ahead.push((old, new));
        }
        match (old, new) {
            (Value::Array(a), Value::Array(b)) if MANY.contains(&key) && a.len() == b.len() => {
                self.ahead.extend(a.iter().zip(b));
            }
            (Value::Object(a), Value::Object(b)) if NAMED.contains(&key) && a.len() == b.len() => {
                for (name, schema) in a {
                    match b.get(name) {
                        Some(other) => self.ahead.push((schema, other)),
                        None => self.note(Like::Other),
                    }
                }
            }
            _ if self.keywords.same(Some(old), Some(new)) => {}
            _ => self.note(Like::Other),
        }
    }
}

/// Returns `true` if comparing a value takes longer than one step.
fn is_large(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() > 64,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    }
}

/// Returns `true` if a keyword is already covered by the kind of its node.
fn is_of_kind(key: &str, node: &Map<String, Value>, seen: Seen) -> bool {
    let is =
        |kinds: &[&str]| seen == Seen::Nowhere || kinds.iter().any(|kind| node.contains_key(*kind));
    match key {
        "type" | "align" => true,
        "properties" | "required" => is(&["TypeDef:Struct"]),
        "items" | "minItems" | "maxItems" => {
            is(&["TypeDef:Array", "TypeDef:Complex64", "TypeDef:Complex128"])
        }
        "mapping" => is(&["TypeDef:Union"]),
        "enum" => is(&["TypeDef:Enum"]),
        _ => false,
    }
}

/// Returns `true` if a keyword does not constrain values here.
fn is_aside(key: &str) -> bool {
    ANNOTATIONS.contains(&key) || OF_THE_DOCUMENT.contains(&key) || key == "default"
}

/// Returns `true` if a keyword only repeats the kind of its node.
fn says_the_kind(key: &str, node: &Map<String, Value>) -> bool {
    match key {
        "format" => node.contains_key("TypeDef:Timestamp"),
        "contentEncoding" => node.contains_key("TypeDef:Bytes"),
        _ => false,
    }
}
