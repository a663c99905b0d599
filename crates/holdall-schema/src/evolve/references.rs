//! Compares what headers contain: references, and the objects and arrays that contain them.

use super::change::{ChangeKind, Verdict};
use super::diff::{Found, Local, Pair, Sites, Walk};
use super::keywords::Seen;
use super::show;
use super::types::{presence, reshaped};
use crate::error::Result;
use crate::extent::get;
use crate::kinds::{Align, Len};
use crate::path::Segment;
use crate::schema::{AdditionalMembers, Node, NodeId, Object, Presence, Property, Schema};
use holdall_collections::HashSet;
use std::sync::Arc;

impl<'s> Walk<'s> {
    /// Compares the nodes at a node. `sites` are the nodes as they are written there.
    pub(super) fn node_at(
        &mut self,
        out: &mut Found,
        step: Option<Segment>,
        (old, new): (NodeId, NodeId),
        sites: Sites<'s>,
    ) -> Result<()> {
        self.budget.take(1)?;
        let nodes = self.keywords.resolve(sites);
        let found = self.nodes(old, new, nodes)?;
        self.finish_at(out, step.clone(), found, sites, nodes);
        self.default_at(out, step, sites);
        Ok(())
    }

    /// Compares two nodes. If they differ, returns their index in `found`.
    fn nodes(&mut self, old: NodeId, new: NodeId, nodes: Sites<'s>) -> Result<Option<usize>> {
        let pair = Pair::Nodes(old, new);
        if let Some(known) = self.known.get(&pair) {
            return Ok(*known);
        }
        let (Some(a), Some(b)) = (node(self.old, old), node(self.new, new)) else {
            return Ok(None);
        };
        let mut out = Found::new();
        let sides =
            |change: Local| change.sides(show::node(self.old, a), show::node(self.new, b)).entry();
        match (a, b) {
            (Node::Flat { tensor: a, align: x }, Node::Flat { tensor: b, align: y }) => {
                self.tensors(&mut out, a, b, reshaped);
                aligns(&mut out, *x, *y);
                self.keywords.compare(&mut out, nodes, Seen::Nowhere, &mut self.budget)?;
            }
            (
                Node::Dataset { items: a, len: m, align: x, .. },
                Node::Dataset { items: b, len: n, align: y, .. },
            ) => {
                if let Some(verdict) = bounds(*m, *n) {
                    out.push(sides(Local::new(ChangeKind::Bounds, verdict)));
                }
                // If both are the alignments of the records themselves, the change is reported for the record.
                let own = (get(&self.old.types, *a)?.align, get(&self.new.types, *b)?.align);
                if (*x, *y) != own {
                    aligns(&mut out, Some(*x), Some(*y));
                }
                self.type_at(&mut out, Some(Segment::Each), (*a, *b), nodes.below("items"))?;
                self.keywords.compare(&mut out, nodes, Seen::Nowhere, &mut self.budget)?;
            }
            (Node::Blob { content: a, .. }, Node::Blob { content: b, .. }) => {
                if a != b {
                    out.push(sides(Local::new(ChangeKind::Kind, Verdict::NeedsConverter)));
                }
                self.keywords.compare(&mut out, nodes, Seen::Nowhere, &mut self.budget)?;
            }
            (Node::List { items: a, min, max }, Node::List { items: b, min: least, max: most }) => {
                let len = |min: u64, max: Option<u64>| Len::Variable { min, max };
                if let Some(verdict) = bounds(len(*min, *max), len(*least, *most)) {
                    out.push(sides(Local::new(ChangeKind::Bounds, verdict)));
                }
                self.node_at(&mut out, Some(Segment::Each), (*a, *b), nodes.below("items"))?;
            }
            (Node::Object(a), Node::Object(b)) => self.objects(&mut out, a, b, nodes)?,
            (Node::Plain { ty: Some(a), .. }, Node::Plain { ty: Some(b), .. }) => {
                return self.types(*a, *b, nodes);
            }
            (Node::Plain { ty: None, .. }, Node::Plain { ty: None, .. }) => {
                self.keywords.compare_plain(&mut out, nodes, &mut self.budget)?;
            }
            _ => out.push(sides(Local::new(ChangeKind::Kind, Verdict::NeedsConverter))),
        }
        Ok(self.keep(pair, out))
    }

    fn objects(
        &mut self,
        out: &mut Found,
        old: &'s Object,
        new: &'s Object,
        nodes: Sites<'s>,
    ) -> Result<()> {
        let [properties, others] = ["properties", "additionalProperties"].map(|k| nodes.below(k));
        self.others(out, old, new, others)?;
        let required = Required { old: required(old), new: required(new) };
        for property in &new.properties {
            let step = Some(name(property));
            let mut sites = properties.below(&property.name);
            let before = match (old.property(&property.name), old.additional) {
                (Some(before), _) => before.node,
                (None, AdditionalMembers::Node(id)) => {
                    sites.old = others.old;
                    id
                }
                (None, AdditionalMembers::Forbidden | AdditionalMembers::Anything) => {
                    self.budget.take(1)?;
                    let added = self.added(property)?;
                    out.push(added.at(step).entry());
                    continue;
                }
            };
            let required = required.sides(&property.name);
            let unfilled = match required {
                (false, true) => self.unfilled(property)?,
                _ => None,
            };
            presence(out, &step, required, unfilled);
            self.node_at(out, step, (before, property.node), sites)?;
        }
        for property in old.properties.iter().filter(|p| new.property(&p.name).is_none()) {
            let step = Some(name(property));
            if let AdditionalMembers::Node(id) = new.additional {
                let sites = Sites { old: properties.below(&property.name).old, new: others.new };
                let required = required.sides(&property.name);
                presence(out, &step, required, Some(Verdict::NeedsDefault));
                self.node_at(out, step, (property.node, id), sites)?;
            } else {
                self.budget.take(1)?;
                let text = show_property(self.old, property);
                out.push(
                    Local::new(ChangeKind::Removed, Verdict::Breaking).at(step).old(text).entry(),
                );
            }
        }
        let has = |object: &Object, name: &Arc<str>| object.property(name).is_some();
        for name in new.required_others.iter().filter(|n| !has(old, n)) {
            let required = required.sides(name);
            presence(
                out,
                &Some(Segment::Name(Arc::clone(name))),
                required,
                Some(Verdict::Breaking),
            );
        }
        for name in old.required_others.iter().filter(|n| !has(new, n)) {
            let required = required.sides(name);
            presence(
                out,
                &Some(Segment::Name(Arc::clone(name))),
                required,
                Some(Verdict::Breaking),
            );
        }
        Ok(())
    }

    /// Compares which members are allowed in addition to the properties.
    fn others(
        &mut self,
        out: &mut Found,
        old: &Object,
        new: &Object,
        sites: Sites<'s>,
    ) -> Result<()> {
        let is_plain = |schema, id| matches!(node(schema, id), Some(Node::Plain { .. }));
        let verdict = match (old.additional, new.additional) {
            (AdditionalMembers::Node(a), AdditionalMembers::Node(b)) => {
                return self.node_at(out, Some(Segment::Each), (a, b), sites);
            }
            (AdditionalMembers::Forbidden, AdditionalMembers::Forbidden)
            | (AdditionalMembers::Anything, AdditionalMembers::Anything) => return Ok(()),
            (AdditionalMembers::Forbidden, _) => Verdict::Compatible,
            (AdditionalMembers::Node(a), AdditionalMembers::Anything) if is_plain(self.old, a) => {
                Verdict::Compatible
            }
            (_, AdditionalMembers::Forbidden) => Verdict::Breaking,
            (AdditionalMembers::Node(_), AdditionalMembers::Anything)
            | (AdditionalMembers::Anything, AdditionalMembers::Node(_)) => Verdict::NeedsConverter,
        };
        let show = |schema: &Schema, additional| match additional {
            AdditionalMembers::Forbidden => "no others".to_owned(),
            AdditionalMembers::Anything => "any others".to_owned(),
            AdditionalMembers::Node(id) => {
                let text = node(schema, id).map(|n| show::node(schema, n));
                format!("others: {}", text.unwrap_or_default())
            }
        };
        let sides = (show(self.old, old.additional), show(self.new, new.additional));
        out.push(Local::new(ChangeKind::Others, verdict).sides(sides.0, sides.1).entry());
        Ok(())
    }

    fn added(&mut self, property: &'s Property) -> Result<Local> {
        let unfilled = match property.presence {
            Presence::Optional => None,
            Presence::Required => self.unfilled(property)?,
        };
        let verdict = unfilled.unwrap_or(Verdict::Compatible);
        Ok(Local::new(ChangeKind::Added, verdict).new_text(show_property(self.new, property)))
    }

    /// Returns the verdict if a file does not have a property that the new schema requires. Returns `None` if defaults
    /// fill it: it is a tensor with a default, or an object that contains one and whose required members can all be
    /// filled. Plain JSON is information about the file, so no default fills it.
    fn unfilled(&mut self, property: &'s Property) -> Result<Option<Verdict>> {
        self.budget.take(1)?;
        Ok(match node(self.new, property.node) {
            Some(Node::Plain { .. }) => Some(Verdict::Breaking),
            Some(Node::Flat { tensor, .. }) => match &property.default {
                Some(value) if tensor.filled(value, &self.limits).is_ok() => None,
                _ => Some(Verdict::NeedsDefault),
            },
            Some(Node::Object(object)) => {
                if let Some(known) = self.unfilled.get(&property.node) {
                    return Ok(*known);
                }
                let others = !object.required_others.is_empty();
                let (mut any, mut worst) = (false, others.then_some(Verdict::Breaking));
                for inner in &object.properties {
                    let lacks = self.unfilled(inner)?;
                    any |= lacks.is_none();
                    if inner.presence == Presence::Required {
                        worst = worst.max(lacks);
                    }
                }
                let lacks = worst.or((!any).then_some(Verdict::NeedsDefault));
                self.unfilled.insert(property.node, lacks);
                lacks
            }
            _ => Some(Verdict::NeedsDefault),
        })
    }
}

fn node(schema: &Schema, id: NodeId) -> Option<&Node> {
    schema.nodes.get(usize::try_from(id.0).ok()?)
}

fn name(property: &Property) -> Segment {
    Segment::Name(Arc::clone(&property.name))
}

/// The names that both schemas require.
struct Required<'s> {
    old: HashSet<&'s str>,
    new: HashSet<&'s str>,
}

impl Required<'_> {
    /// Returns whether the old schema requires a name, and whether the new one does.
    fn sides(&self, name: &str) -> (bool, bool) {
        (self.old.contains(name), self.new.contains(name))
    }
}

fn required(object: &Object) -> HashSet<&str> {
    let properties = object.properties.iter().filter(|p| p.presence == Presence::Required);
    let others = object.required_others.iter().map(|n| &**n);
    properties.map(|p| &*p.name).chain(others).collect()
}

/// Returns the verdict if the new bounds exclude numbers that the old ones allow.
pub(super) fn bounds(old: Len, new: Len) -> Option<Verdict> {
    let ends = |len: Len| match len {
        Len::Fixed(n) => (n, Some(n)),
        Len::Variable { min, max } => (min, max),
    };
    let ((a, b), (c, d)) = (ends(old), ends(new));
    if (a, b) == (c, d) {
        return None;
    }
    let holds = c <= a && d.is_none_or(|most| b.is_some_and(|b| b <= most));
    Some(if holds { Verdict::Compatible } else { Verdict::Breaking })
}

fn aligns(out: &mut Found, old: Option<u32>, new: Option<u32>) {
    if old != new {
        let text = |bytes: Option<u32>| show::align(bytes.map(Align::Bytes)).map(Arc::from);
        let change = Local::new(ChangeKind::Align, Verdict::Compatible);
        out.push(change.texts(text(old), text(new)).entry());
    }
}

fn show_property(schema: &Schema, property: &Property) -> String {
    let text = node(schema, property.node).map_or(String::new(), |n| show::node(schema, n));
    match property.presence {
        Presence::Required => text,
        Presence::Optional => format!("optional {text}"),
    }
}
