//! Compares two schemas, path by path (8.1).

use super::change::{Change, ChangeKind, Verdict};
use super::keywords::Keywords;
use super::show;
use crate::error::Result;
use crate::kinds::{Dim, TypeId};
use crate::limits::SchemaLimits;
use crate::path::{Path, Segment};
use crate::rules::TOO_LARGE;
use crate::schema::{NodeId, Root, Schema};
use holdall_collections::HashMap;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A schema to compare.
#[derive(Debug, Clone, Copy)]
pub struct Side<'s> {
    schema: &'s Schema,
    json: Option<&'s Value>,
}

/// Compares everything that a compiled schema contains: the bytes and the references.
impl<'s> From<&'s Schema> for Side<'s> {
    fn from(schema: &'s Schema) -> Side<'s> {
        Side { schema, json: None }
    }
}

/// With the JSON that the schema was compiled from, annotations, plain JSON and keywords that only the validator uses
/// are compared too.
impl<'s> From<(&'s Schema, &'s Value)> for Side<'s> {
    fn from((schema, json): (&'s Schema, &'s Value)) -> Side<'s> {
        Side { schema, json: Some(json) }
    }
}

/// Returns how `new` differs from `old`: parents before children, members in the order of `new`, removed members last.
/// A type that several paths share is compared once, and its changes are returned for each path.
///
/// Takes time in proportion to the two schemas and the changes.
///
/// ```
/// use holdall_schema::{Bump, ChangeKind, Schema, SchemaLimits, diff};
/// use serde_json::json;
///
/// let limits = SchemaLimits::default();
/// let old = json!({"TypeDef:Struct": ["id"], "properties": {"id": {"TypeDef:Int32": true}}});
/// let new = json!({"TypeDef:Struct": ["id"], "properties": {"id": {"TypeDef:Int64": true}}});
/// let [old, new] = [old, new].map(|json| Schema::compile_record(&json, &limits).unwrap());
///
/// let changes = diff(&old, &new, &limits)?;
/// assert_eq!(changes[0].what, ChangeKind::Widened);
/// assert_eq!(changes[0].to_string(), "widened at id: Int32, now Int64 (compatible)");
/// assert_eq!(Bump::for_changes(&changes), Bump::Minor);
/// # Ok::<(), holdall_schema::Error>(())
/// ```
///
/// # Errors
/// Returns `schema/too-large` after twice [`SchemaLimits::nodes`] paths or changes.
pub fn diff<'s>(
    old: impl Into<Side<'s>>,
    new: impl Into<Side<'s>>,
    limits: &SchemaLimits,
) -> Result<Vec<Change>> {
    let (old, new) = (old.into(), new.into());
    let mut walk = Walk {
        limits: limits.clone(),
        old: old.schema,
        new: new.schema,
        keywords: Keywords::new(old.json, new.json, limits)?,
        found: Vec::new(),
        known: HashMap::default(),
        symbols: BTreeMap::new(),
        unfilled: HashMap::default(),
        budget: Budget::new(limits),
    };
    let sites = Sites { old: old.json, new: new.json };
    let mut root = Vec::new();
    match (old.schema.root, new.schema.root) {
        (Root::References(a), Root::References(b)) => {
            walk.node_at(&mut root, None, (a, b), sites)?
        }
        (Root::Record(a), Root::Record(b)) => walk.type_at(&mut root, None, (a, b), sites)?,
        (a, b) => {
            let show = |root| match root {
                Root::References(_) => "references",
                Root::Record(_) => "a record",
            };
            root.push(
                Local::new(ChangeKind::Kind, Verdict::NeedsConverter)
                    .sides(show(a), show(b))
                    .entry(),
            );
        }
    }
    let top = walk.found.len();
    walk.found.push(root);
    let mut all = Expand { found: &walk.found, out: Vec::new(), budget: Budget::new(limits) };
    all.expand(top, &mut Vec::new())?;
    Ok(all.out)
}

/// The work that is still allowed.
pub(super) struct Budget {
    left: u64,
    most: u64,
}

impl Budget {
    pub(super) fn new(limits: &SchemaLimits) -> Budget {
        let most = limits.max_nodes().saturating_mul(2);
        Budget { left: most, most }
    }

    pub(super) fn take(&mut self, steps: u64) -> Result<()> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let most = self.most;
                Err(TOO_LARGE
                    .broken(format!("comparing the two schemas visits more than {most} paths")))
            }
        }
    }
}

/// The JSON of a node in both schemas, if known.
#[derive(Clone, Copy)]
pub(super) struct Sites<'s> {
    pub(super) old: Option<&'s Value>,
    pub(super) new: Option<&'s Value>,
}

impl<'s> Sites<'s> {
    /// Returns the schemas in a keyword of both nodes.
    pub(super) fn below(self, keyword: &str) -> Sites<'s> {
        let get = |node: Option<&'s Value>| node?.get(keyword);
        Sites { old: get(self.old), new: get(self.new) }
    }
}

/// The differences between two types or nodes, independent of their path.
pub(super) type Found = Vec<Entry>;

pub(super) enum Entry {
    Change(Local),
    /// Differences below a path segment.
    Below(Segment, usize),
    /// Differences at the same path.
    Here(usize),
}

impl Entry {
    /// Raises the verdict of a change to at least `verdict`.
    pub(super) fn at_least(&mut self, verdict: Verdict) {
        if let Entry::Change(local) = self {
            local.verdict = local.verdict.max(verdict);
        }
    }
}

/// A change, with its path relative to the pair in which it was found.
pub(super) struct Local {
    step: Option<Segment>,
    what: ChangeKind,
    verdict: Verdict,
    old: Option<Arc<str>>,
    new: Option<Arc<str>>,
    pub(super) values: Arc<[Arc<str>]>,
}

impl Local {
    pub(super) fn new(what: ChangeKind, verdict: Verdict) -> Local {
        Local { step: None, what, verdict, old: None, new: None, values: Arc::default() }
    }

    pub(super) fn at(mut self, step: Option<Segment>) -> Local {
        self.step = step;
        self
    }

    pub(super) fn old(mut self, text: impl Into<Arc<str>>) -> Local {
        self.old = Some(text.into());
        self
    }

    pub(super) fn new_text(mut self, text: impl Into<Arc<str>>) -> Local {
        self.new = Some(text.into());
        self
    }

    pub(super) fn texts(mut self, old: Option<Arc<str>>, new: Option<Arc<str>>) -> Local {
        self.old = old;
        self.new = new;
        self
    }

    pub(super) fn sides(self, old: impl Into<Arc<str>>, new: impl Into<Arc<str>>) -> Local {
        self.old(old).new_text(new)
    }

    pub(super) fn entry(self) -> Entry {
        Entry::Change(self)
    }
}

#[derive(PartialEq, Eq, Hash, Clone, Copy)]
pub(super) enum Pair {
    Types(TypeId, TypeId),
    Nodes(NodeId, NodeId),
}

pub(super) struct Walk<'s> {
    pub(super) limits: SchemaLimits,
    pub(super) old: &'s Schema,
    pub(super) new: &'s Schema,
    pub(super) keywords: Keywords<'s>,
    /// The differences of each pair that differs.
    pub(super) found: Vec<Found>,
    /// For each compared pair, its index in `found`, or `None` if it does not differ.
    pub(super) known: HashMap<Pair, Option<usize>>,
    /// For each symbol of the new schema, the dimension that it replaces in the old one.
    pub(super) symbols: BTreeMap<Arc<str>, Dim>,
    /// For each object of the new schema, the verdict if a file does not have it, or `None` if defaults fill it.
    pub(super) unfilled: HashMap<NodeId, Option<Verdict>>,
    pub(super) budget: Budget,
}

impl<'s> Walk<'s> {
    /// Adds the differences at a node, including those of annotations.
    pub(super) fn finish_at(
        &self,
        out: &mut Found,
        step: Option<Segment>,
        found: Option<usize>,
        sites: Sites<'s>,
        nodes: Sites<'s>,
    ) {
        if let Some(found) = found {
            out.push(match &step {
                Some(step) => Entry::Below(step.clone(), found),
                None => Entry::Here(found),
            });
        }
        if self.keywords.annotations_differ(sites, nodes) {
            out.push(Local::new(ChangeKind::Annotations, Verdict::Compatible).at(step).entry());
        }
    }

    /// Compares the `default` of a node that is not a member of a struct, where it is only an annotation.
    pub(super) fn default_at(&self, out: &mut Found, step: Option<Segment>, sites: Sites<'s>) {
        let Sites { old, new } = self.keywords.defaults(sites);
        let is_known = sites.old.is_some() && sites.new.is_some();
        if is_known && !self.keywords.same(old, new) {
            out.push(default_change(old, new).at(step).entry());
        }
    }

    /// Stores the differences of a pair.
    pub(super) fn keep(&mut self, pair: Pair, out: Found) -> Option<usize> {
        let index = (!out.is_empty()).then_some(self.found.len());
        if index.is_some() {
            self.found.push(out);
        }
        self.known.insert(pair, index);
        index
    }
}

pub(super) fn default_change(old: Option<&Value>, new: Option<&Value>) -> Local {
    let show = |value: Option<&Value>| value.map(|v| show::json(v).into());
    Local::new(ChangeKind::Default, Verdict::Compatible).texts(show(old), show(new))
}

/// Converts differences of pairs to changes with paths.
struct Expand<'f> {
    found: &'f [Found],
    out: Vec<Change>,
    budget: Budget,
}

impl Expand<'_> {
    /// Every stored difference leads to a change, so the work is proportional to the result.
    fn expand(&mut self, pair: usize, path: &mut Vec<Segment>) -> Result<()> {
        for entry in self.found.get(pair).into_iter().flatten() {
            match entry {
                Entry::Change(local) => {
                    self.budget.take(1)?;
                    let steps = path.iter().chain(&local.step).cloned().collect();
                    self.out.push(Change {
                        path: Path(steps),
                        what: local.what,
                        verdict: local.verdict,
                        old: local.old.clone(),
                        new: local.new.clone(),
                        values: Arc::clone(&local.values),
                    });
                }
                Entry::Below(step, below) => {
                    path.push(step.clone());
                    self.expand(*below, path)?;
                    path.pop();
                }
                Entry::Here(below) => self.expand(*below, path)?,
            }
        }
        Ok(())
    }
}
