//! Compares the types of records and of their members.

use super::change::{ChangeKind, Verdict};
use super::diff::{Found, Local, Pair, Sites, Walk, default_change};
use super::keywords::Seen;
use super::references::bounds;
use super::show;
use super::widen::{are_numbers, is_widening};
use crate::dtype::TensorDType;
use crate::error::Result;
use crate::extent::{get, in_memory};
use crate::is_value;
use crate::kinds::{Array, Dim, Enum, Kind, Len, Member, Struct, TensorType, TypeId, Union};
use crate::path::Segment;
use crate::record::Encoder;
use crate::schema::Schema;
use std::sync::Arc;

impl<'s> Walk<'s> {
    /// Compares the types of a member, and their `default`. `sites` are the nodes of the schemas in which the types are
    /// written.
    pub(super) fn type_at(
        &mut self,
        out: &mut Found,
        step: Option<Segment>,
        types: (TypeId, TypeId),
        sites: Sites<'s>,
    ) -> Result<()> {
        self.member_at(out, step.clone(), types, sites)?;
        self.default_at(out, step, sites);
        Ok(())
    }

    /// Compares the types of a member, without their `default`.
    fn member_at(
        &mut self,
        out: &mut Found,
        step: Option<Segment>,
        (old, new): (TypeId, TypeId),
        sites: Sites<'s>,
    ) -> Result<()> {
        self.budget.take(1)?;
        let nodes = self.keywords.resolve(sites);
        let found = self.types(old, new, nodes)?;
        self.finish_at(out, step, found, sites, nodes);
        Ok(())
    }

    /// Compares two types. If they differ, returns the index of the differences in `found`.
    pub(super) fn types(
        &mut self,
        old: TypeId,
        new: TypeId,
        nodes: Sites<'s>,
    ) -> Result<Option<usize>> {
        let pair = Pair::Types(old, new);
        if let Some(known) = self.known.get(&pair) {
            return Ok(*known);
        }
        let (old_schema, new_schema) = (self.old, self.new);
        let (a, b) = (get(&old_schema.types, old)?, get(&new_schema.types, new)?);
        let mut out = Found::new();
        let mut seen = Some(Seen::Asserted);
        match (&a.kind, &b.kind) {
            (Kind::Scalar(from), Kind::Scalar(to)) => {
                if from != to {
                    let (what, verdict) = match is_widening(*from, *to) {
                        true => (ChangeKind::Widened, Verdict::Compatible),
                        false if are_numbers(*from, *to) => {
                            (ChangeKind::Narrowed, Verdict::NeedsConverter)
                        }
                        false => (ChangeKind::Kind, Verdict::NeedsConverter),
                    };
                    out.push(Local::new(what, verdict).sides(from.as_str(), to.as_str()).entry());
                    seen = match (from.json_type(), what) {
                        // An integer is the same JSON number in every kind that represents it.
                        ("integer", ChangeKind::Widened) => Some(Seen::Asserted),
                        (_, ChangeKind::Widened) => Some(Seen::Widened),
                        _ => None,
                    };
                }
            }
            (Kind::Enum(a), Kind::Enum(b)) => self.compare_enums(&mut out, a, b)?,
            (Kind::Array(a), Kind::Array(b)) => {
                compare_lengths(&mut out, a, b, || {
                    (show::ty(self.old, old), show::ty(self.new, new))
                });
                let sites = nodes.below("items");
                self.type_at(&mut out, Some(Segment::Each), (a.items, b.items), sites)?;
            }
            (Kind::Struct(a), Kind::Struct(b)) => self.compare_structs(&mut out, a, b, nodes)?,
            (Kind::Union(a), Kind::Union(b)) => self.compare_unions(&mut out, a, b, nodes)?,
            (Kind::Tensor(a), Kind::Tensor(b)) => {
                seen = Some(Seen::Nowhere);
                self.record_tensors(&mut out, a, b);
            }
            (Kind::String, Kind::String)
            | (Kind::Bytes, Kind::Bytes)
            | (Kind::Record, Kind::Record) => {}
            _ => {
                seen = None;
                let sides = (show::ty(self.old, old), show::ty(self.new, new));
                let change = Local::new(ChangeKind::Kind, Verdict::NeedsConverter);
                out.push(change.sides(sides.0, sides.1).entry());
            }
        }
        if a.align_keyword != b.align_keyword {
            let texts = [a, b].map(|t| show::align(t.align_keyword).map(Arc::from));
            let [a, b] = texts;
            out.push(Local::new(ChangeKind::Align, Verdict::Compatible).texts(a, b).entry());
        }
        if let Some(seen) = seen {
            self.keywords.compare(&mut out, nodes, seen, &mut self.budget)?;
        }
        Ok(self.keep(pair, out))
    }

    fn compare_enums(&mut self, out: &mut Found, old: &Enum, new: &Enum) -> Result<()> {
        // Comparing a value is much cheaper than visiting a path.
        let len = old.values.len().saturating_add(new.values.len());
        self.budget.take(u64::try_from(len / 16).unwrap_or(u64::MAX))?;
        let missing = |from: &Enum, other: &Enum| -> Arc<[Arc<str>]> {
            from.values.iter().filter(|v| other.index_of(v).is_none()).cloned().collect()
        };
        let size = |e: &Enum| format!("Enum of {}", e.values.len());
        let removed = missing(old, new);
        let added = missing(new, old);
        for (what, verdict, values) in [
            (ChangeKind::ValuesRemoved, Verdict::NeedsConverter, removed),
            (ChangeKind::ValuesAdded, Verdict::Compatible, added),
        ] {
            if !values.is_empty() {
                let mut change = Local::new(what, verdict).sides(size(old), size(new));
                change.values = values;
                out.push(change.entry());
            }
        }
        if !is_ascending(new.values.iter().filter_map(|v| old.index_of(v))) {
            let sides = (show::names(old.values.iter()), show::names(new.values.iter()));
            let change = Local::new(ChangeKind::ValuesOrder, Verdict::Compatible);
            out.push(change.sides(sides.0, sides.1).entry());
        }
        Ok(())
    }

    fn compare_structs(
        &mut self,
        out: &mut Found,
        old: &'s Struct,
        new: &'s Struct,
        nodes: Sites<'s>,
    ) -> Result<()> {
        if !is_ascending(new.members.iter().filter_map(|m| old.index_of(&m.name))) {
            let names = |s: &Struct| show::names(s.members.iter().map(|m| &m.name));
            let change = Local::new(ChangeKind::Order, Verdict::Compatible);
            out.push(change.sides(names(old), names(new)).entry());
        }
        let properties = nodes.below("properties");
        for member in &new.members {
            let step = Some(Segment::Name(Arc::clone(&member.name)));
            let sites = properties.below(&member.name);
            let Some(before) = old.index_of(&member.name).and_then(|p| old.members.get(p)) else {
                self.budget.take(1)?;
                let is_filled = match member.default {
                    Some(_) => self.has_default(member, sites)?,
                    None => member.presence.is_some(),
                };
                let verdict = if is_filled { Verdict::Compatible } else { Verdict::NeedsDefault };
                let text = show_member(self.new, member);
                out.push(Local::new(ChangeKind::Added, verdict).at(step).new_text(text).entry());
                continue;
            };
            let is_required = (before.presence.is_none(), member.presence.is_none());
            let lacks = is_required == (false, true) && !self.has_default(member, sites)?;
            presence(out, &step, is_required, lacks.then_some(Verdict::NeedsDefault));
            self.member_at(out, step.clone(), (before.ty, member.ty), sites)?;
            let (was, is) = (before.default.as_deref(), member.default.as_deref());
            if !self.keywords.same(was, is) {
                out.push(default_change(was, is).at(step).entry());
            }
        }
        for member in old.members.iter().filter(|m| new.index_of(&m.name).is_none()) {
            self.budget.take(1)?;
            let step = Some(Segment::Name(Arc::clone(&member.name)));
            let text = show_member(self.old, member);
            out.push(Local::new(ChangeKind::Removed, Verdict::Breaking).at(step).old(text).entry());
        }
        Ok(())
    }

    /// Returns `true` if a member of the new schema has a valid `default`.
    fn has_default(&mut self, member: &Member, sites: Sites<'s>) -> Result<bool> {
        let Some(value) = &member.default else { return Ok(false) };
        self.budget.take(16)?;
        let encoded = Encoder::new(self.new, member.ty, &self.limits).and_then(|mut encoder| {
            let size = encoder.size() as u64;
            if size > self.limits.decoded_len {
                return Ok(false);
            }
            encoder.value(value, &mut vec![0; in_memory(size)?], &mut Vec::new()).map(|()| true)
        });
        Ok(encoded.unwrap_or(false)
            && match (sites.new, self.keywords.new_defs()) {
                (Some(node), Some(defs)) => is_value(node, defs, value, &self.limits),
                _ => true,
            })
    }

    fn compare_unions(
        &mut self,
        out: &mut Found,
        old: &Union,
        new: &Union,
        nodes: Sites<'s>,
    ) -> Result<()> {
        if old.discriminator != new.discriminator {
            let sides = [old, new].map(|u| show::names([&u.discriminator].into_iter()));
            let change = Local::new(ChangeKind::Discriminator, Verdict::Compatible);
            let [a, b] = sides;
            out.push(change.sides(a, b).entry());
        }
        let mapping = nodes.below("mapping");
        for variant in &new.variants {
            let step = Some(Segment::Name(Arc::clone(&variant.key)));
            match old.tag(&variant.key).and_then(|tag| old.variants.get(tag)) {
                Some(before) => {
                    let sites = mapping.below(&variant.key);
                    self.type_at(out, step, (before.ty, variant.ty), sites)?;
                }
                None => {
                    self.budget.take(1)?;
                    let change = Local::new(ChangeKind::VariantAdded, Verdict::Compatible).at(step);
                    out.push(change.new_text("Struct").entry());
                }
            }
        }
        for variant in old.variants.iter().filter(|v| new.tag(&v.key).is_none()) {
            self.budget.take(1)?;
            let step = Some(Segment::Name(Arc::clone(&variant.key)));
            let change = Local::new(ChangeKind::VariantRemoved, Verdict::Breaking).at(step);
            out.push(change.old("Struct").entry());
        }
        Ok(())
    }

    /// Compares tensors in records, which have one dtype and one shape. A converter is needed unless both are equal.
    fn record_tensors(&mut self, out: &mut Found, old: &TensorType, new: &TensorType) {
        let known = |t: &TensorType| {
            let is_known = |dim: &Dim| matches!(dim, Dim::Known(_));
            t.dtype.is_some() && t.shape.as_ref().is_some_and(|s| s.iter().all(is_known))
        };
        let from = out.len();
        self.tensors(out, old, new, |_, _| Verdict::Breaking);
        // Elements in records do not widen automatically. The result for symbols is only known when the caller gives
        // their numbers.
        if !known(new) || old.dtype != new.dtype {
            out.iter_mut().skip(from).for_each(|entry| entry.at_least(Verdict::NeedsConverter));
        }
    }

    /// Compares which tensors are allowed: any dtype and any shape include all others. `other` is the verdict for a
    /// shape that does not include the old one.
    pub(super) fn tensors(
        &mut self,
        out: &mut Found,
        old: &TensorType,
        new: &TensorType,
        other: fn(&TensorType, &TensorType) -> Verdict,
    ) {
        let sides = |change: Local| change.sides(show::tensor(old), show::tensor(new)).entry();
        if (old.dtype, &old.dtypes) != (new.dtype, &new.dtypes) {
            let takes = |from: &TensorDType| {
                new.accepts(*from) || new.dtype.is_some_and(|to| from.widens_to(to))
            };
            let allows = match old.dtype {
                Some(from) => takes(&from),
                None if old.dtypes.is_empty() => new.dtype.is_none() && new.dtypes.is_empty(),
                None => old.dtypes.iter().all(takes),
            };
            let verdict = if allows { Verdict::Compatible } else { Verdict::NeedsConverter };
            out.push(sides(Local::new(ChangeKind::DType, verdict)));
        }
        let verdict = match (&old.shape, &new.shape) {
            (a, b) if a.is_none() && b.is_none() => return,
            (_, None) => Verdict::Compatible,
            (Some(a), Some(b)) if a.len() == b.len() => {
                let mut allows = true;
                for (from, to) in a.iter().zip(b) {
                    allows &= self.allows(from, to);
                }
                match allows {
                    true if a == b => return,
                    true => Verdict::Compatible,
                    false => other(old, new),
                }
            }
            _ => other(old, new),
        };
        out.push(sides(Local::new(ChangeKind::Shape, verdict)));
    }

    /// Returns `true` if a dimension allows all numbers that another allows. A symbol of the new schema must replace
    /// the same number or symbol of the old schema everywhere.
    fn allows(&mut self, old: &Dim, new: &Dim) -> bool {
        match (old, new) {
            (_, Dim::Any) => true,
            (Dim::Any, _) => false,
            (_, Dim::Symbol(name)) => match self.symbols.get(name) {
                Some(known) => known == old,
                None => {
                    self.symbols.insert(Arc::clone(name), old.clone());
                    true
                }
            },
            (a, b) => a == b,
        }
    }
}

/// Returns the verdict for a changed shape of a dense tensor: if the number of elements stays the same, a converter can
/// reshape the tensor.
pub(super) fn reshaped(old: &TensorType, new: &TensorType) -> Verdict {
    match (old.known_count(), new.known_count()) {
        (Some(a), Some(b)) if a == b => Verdict::NeedsConverter,
        _ => Verdict::Breaking,
    }
}

/// Adds the change in a member's presence. `is_required` is whether the old and the new schema require it.
pub(super) fn presence(
    out: &mut Found,
    step: &Option<Segment>,
    is_required: (bool, bool),
    unfilled: Option<Verdict>,
) {
    let (what, verdict, old, new) = match is_required {
        (true, false) => (ChangeKind::MadeOptional, Verdict::Compatible, "required", "optional"),
        (false, true) => {
            let verdict = unfilled.unwrap_or(Verdict::Compatible);
            (ChangeKind::MadeRequired, verdict, "optional", "required")
        }
        _ => return,
    };
    out.push(Local::new(what, verdict).at(step.clone()).sides(old, new).entry());
}

/// Compares the lengths of arrays.
fn compare_lengths(out: &mut Found, old: &Array, new: &Array, show: impl Fn() -> (String, String)) {
    let Some(allows) = bounds(old.len, new.len) else { return };
    let (what, verdict) = match (old.len, new.len) {
        (Len::Variable { .. }, Len::Variable { .. }) => (ChangeKind::Bounds, allows),
        (Len::Fixed(_), Len::Variable { .. }) => (ChangeKind::Length, allows),
        _ => (ChangeKind::Length, Verdict::Breaking),
    };
    let (a, b) = show();
    out.push(Local::new(what, verdict).sides(a, b).entry());
}

fn show_member(schema: &Schema, member: &Member) -> String {
    let text = show::ty(schema, member.ty);
    if member.presence.is_some() { format!("optional {text}") } else { text }
}

/// Returns `true` if the items are strictly ascending.
fn is_ascending<T: PartialOrd>(mut indices: impl Iterator<Item = T>) -> bool {
    let Some(mut before) = indices.next() else { return true };
    indices.all(|index| {
        let up = before < index;
        before = index;
        up
    })
}
