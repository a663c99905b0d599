//! Resolves the members of structs: by name, by a rename, by a default, or as absent.

use super::build::{At, Build, Source};
use super::plan::{Filling, MemberPlan, Plan, PlanId, Step};
use super::rules::NO_DEFAULT;
use super::show;
use super::steps::{Local, PlanActions, StepKind};
use crate::error::Result;
use crate::extent::in_memory;
use crate::kinds::{Member, Struct, TypeId};
use crate::path::Segment;
use crate::record::Encoder;
use crate::rules::{TOO_LARGE, UNKNOWN_PATH};
use crate::schema::Schema;
use std::ops::Range;
use std::sync::Arc;

impl Build<'_> {
    pub(super) fn members(
        &mut self,
        source: Source,
        (struct_type, from): (TypeId, &Struct),
        to: &Struct,
        at: &mut At,
        actions: &mut PlanActions,
    ) -> Result<Vec<Step>> {
        let mut steps = Vec::with_capacity(to.members.len());
        self.steps(from.members.len() / 16)?;
        let mut taken = vec![false; from.members.len()];
        let size = in_memory(self.schema(source).extent(struct_type)?.size)?;
        for member in &to.members {
            let name = Segment::Name(Arc::clone(&member.name));
            at.to.push(name.clone());
            let before = self.before(source, from, member, at);
            at.to.pop();
            let Some(index) = before? else {
                let step = at.inside(name.clone(), name, |at| {
                    self.only_reader(source, (struct_type, size), member, at, actions)
                })?;
                steps.extend(step);
                continue;
            };
            let Some(before) = from.members.get(index) else { continue };
            if let Some(taken) = taken.get_mut(index) {
                *taken = true;
            }
            let old = Segment::Name(Arc::clone(&before.name));
            let (plan, missing) = at.inside(old.clone(), name, |at| {
                let plan = self.plan(source, before.ty, member.ty, at)?;
                let missing = match (before.presence, member.presence, &member.default) {
                    (Some(_), None, Some(_)) => Some(self.fill(member, at)?),
                    (Some(_), None, None) => {
                        let ty = show::ty(self.reader, member.ty);
                        let message = format!(
                            "{} is {ty} without a default, but may be absent \
                             in the file",
                            show::path(&at.path())
                        );
                        return Err(NO_DEFAULT.broken(message));
                    }
                    _ => None,
                };
                Ok((plan, missing))
            })?;
            if before.name != member.name {
                let way = |name: &Arc<str>| Some(Some(Segment::Name(Arc::clone(name))));
                actions.push(Local::new(StepKind::Renamed, way(&before.name), way(&member.name)));
            }
            self.note(actions, old, Segment::Name(Arc::clone(&member.name)), plan);
            let (from, to) =
                (byte_range(self.schema(source), before)?, byte_range(self.reader, member)?);
            let is_plain = before.presence.is_none() && member.presence.is_none();
            if is_plain && matches!(self.plans.get(plan.0), Some(Plan::Copy)) {
                copy(&mut steps, from, to);
                continue;
            }
            steps.push(Step::Member(MemberPlan {
                name: Arc::clone(&member.name),
                from,
                to,
                plan,
                from_bit: before.presence,
                to_bit: member.presence,
                missing,
            }));
        }
        for (member, _) in from.members.iter().zip(taken).filter(|(_, taken)| !taken) {
            let way = Some(Some(Segment::Name(Arc::clone(&member.name))));
            let old = show::ty(self.schema(source), member.ty);
            actions.push(Local::new(StepKind::Dropped, way, None).sides(Some(old), None));
        }
        Ok(steps)
    }

    /// Returns the index of the writer's member for a member of the reader. `at` ends with the reader's member.
    fn before(
        &mut self,
        source: Source,
        from: &Struct,
        member: &Member,
        at: &At,
    ) -> Result<Option<usize>> {
        let path = at.path();
        let rename = self.options.renames.get(&path).filter(|_| source == Source::Writer);
        let Some(writer) = rename else { return Ok(from.index_of(&member.name)) };
        let found = match writer.0.split_last() {
            Some((Segment::Name(name), parent)) if *parent == *at.from => from.index_of(name),
            _ => None,
        };
        self.used.insert(path);
        if found.is_none() {
            let (reader, writer) = (show::path(&at.path()), show::path(writer));
            let message =
                format!("{reader} is renamed from {writer}, which does not exist in that struct");
            return Err(UNKNOWN_PATH.broken(message));
        }
        Ok(found)
    }

    /// Resolves a member that only the reader has: by a converter from the whole struct, by its default, or as absent.
    fn only_reader(
        &mut self,
        source: Source,
        (struct_type, size): (TypeId, usize),
        member: &Member,
        at: &mut At,
        actions: &mut PlanActions,
    ) -> Result<Option<Step>> {
        self.steps(1)?;
        let to = byte_range(self.reader, member)?;
        let (name, bit) = (Arc::clone(&member.name), member.presence);
        let new = show::ty(self.reader, member.ty);
        let tell = |what, from, by| {
            let new = new.clone();
            let to = Some(Some(Segment::Name(Arc::clone(&member.name))));
            Local::new(what, from, to).sides(None, Some(new)).by(by)
        };
        if let Some(converter) = self.converter(source, at) {
            let plan = PlanId(self.plans.len());
            self.plans.push(Plan::Convert { converter, from: struct_type, to: member.ty });
            // The converter receives the struct that contains the member.
            actions.push(tell(
                StepKind::Converted,
                Some(None),
                self.converters.get(converter).cloned(),
            ));
            return Ok(Some(Step::Member(MemberPlan {
                name,
                from: 0..size,
                to,
                plan,
                from_bit: None,
                to_bit: bit,
                missing: None,
            })));
        }
        if member.default.is_some() {
            let default = self.fill(member, at)?;
            actions.push(tell(StepKind::Default, None, None));
            return Ok(Some(Step::Fill { name, to, bit, default }));
        }
        if bit.is_some() {
            actions.push(tell(StepKind::Absent, None, None));
            return Ok(None);
        }
        let ty = new;
        let path = show::path(&at.path());
        let message = format!("the file has no {path}, which is {ty} without a default");
        Err(NO_DEFAULT.broken(message))
    }

    /// Encodes the default of a member.
    fn fill(&mut self, member: &Member, at: &mut At) -> Result<usize> {
        let Some(value) = &member.default else { return Ok(0) };
        let mut encoder = Encoder::new(self.reader, member.ty, &self.options.limits)?;
        let size = encoder.size() as u64;
        let room = self.options.limits.decoded_len;
        self.filled = self.filled.saturating_add(size);
        let (mut bytes, mut heap) = (Vec::new(), Vec::new());
        if self.filled <= room {
            bytes.resize(encoder.size(), 0);
            encoder.value(value, &mut bytes, &mut heap).map_err(|e| {
                let path = show::path(&at.path());
                e.within(format!("the default of {path}"))
            })?;
        }
        self.filled = self.filled.saturating_add(heap.len() as u64);
        if self.filled > room {
            return Err(TOO_LARGE.broken(format!("defaults take more than {room} bytes")));
        }
        let plan = self.plan(Source::Default, member.ty, member.ty, at)?;
        self.fillings.push(Filling { bytes, heap, plan });
        Ok(self.fillings.len().saturating_sub(1))
    }
}

/// Returns the byte range of a member in its struct.
fn byte_range(schema: &Schema, member: &Member) -> Result<Range<usize>> {
    let size = schema.extent(member.ty)?.size;
    let start = in_memory(member.offset.unwrap_or(0))?;
    Ok(start..start.saturating_add(in_memory(size)?))
}

/// Adds a range to copy. Merges it with the previous range if it follows it in both records.
fn copy(steps: &mut Vec<Step>, from: Range<usize>, to: Range<usize>) {
    match steps.last_mut() {
        Some(Step::Copy { from: a, to: b }) if a.end == from.start && b.end == to.start => {
            a.end = from.end;
            b.end = to.end;
        }
        _ => steps.push(Step::Copy { from, to }),
    }
}
