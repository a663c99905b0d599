//! Builds the plan of a resolution, part by part.

use super::plan::{Filling, Items, Plan, PlanId, Run, VariantPlan};
use super::resolve::ResolveOptions;
use super::rules::NO_CONVERTER;
use super::show;
use super::steps::{Local, MemberStep, PlanActions, StepKind};
use super::widen::is_widening;
use crate::error::{Error, Escape as _, Result};
use crate::extent::{get, in_memory};
use crate::kinds::{Array, Enum, Kind, Len, TypeId, Union};
use crate::path::{Path, Segment};
use crate::rules::{TOO_LARGE, UNKNOWN_PATH};
use crate::schema::Schema;
use holdall_collections::HashMap;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The source of the bytes that a plan reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// The writer's record.
    Writer,
    /// A default, which already has the reader's type.
    Default,
}

/// The paths of a part in both records.
#[derive(Default)]
pub(super) struct At {
    pub(super) from: Vec<Segment>,
    pub(super) to: Vec<Segment>,
}

impl At {
    pub(super) fn inside<T>(
        &mut self,
        from: Segment,
        to: Segment,
        with: impl FnOnce(&mut At) -> Result<T>,
    ) -> Result<T> {
        self.from.push(from);
        self.to.push(to);
        let result = with(self);
        self.from.pop();
        self.to.pop();
        result
    }

    pub(super) fn path(&self) -> Path {
        Path(self.to.clone())
    }
}

pub(super) struct Build<'b> {
    writer: &'b Schema,
    pub(super) reader: &'b Schema,
    pub(super) options: &'b ResolveOptions,
    pub(super) plans: Vec<Plan>,
    /// Plans that are not affected by options.
    known: HashMap<(Source, TypeId, TypeId), PlanId>,
    /// The steps of plans that do more than copy, by the index of the plan.
    pub(super) actions: HashMap<usize, PlanActions>,
    pub(super) fillings: Vec<Filling>,
    /// Number of bytes of all defaults.
    pub(super) filled: u64,
    pub(super) converters: Vec<Arc<str>>,
    /// Options that were used.
    pub(super) used: BTreeSet<Path>,
    left: u64,
    most: u64,
}

impl<'b> Build<'b> {
    pub(super) fn new(
        writer: &'b Schema,
        reader: &'b Schema,
        options: &'b ResolveOptions,
    ) -> Build<'b> {
        let most = options.limits.max_nodes().saturating_mul(2);
        Build {
            writer,
            reader,
            options,
            plans: Vec::new(),
            known: HashMap::default(),
            actions: HashMap::default(),
            fillings: Vec::new(),
            filled: 0,
            converters: Vec::new(),
            used: BTreeSet::new(),
            left: most,
            most,
        }
    }

    /// Builds the plan of a whole record, and returns the steps that it takes.
    pub(super) fn top(&mut self, from: TypeId, to: TypeId) -> Result<(PlanId, Vec<MemberStep>)> {
        let top = self.plan(Source::Writer, from, to, &mut At::default())?;
        self.check_used()?;
        let mut steps = Vec::new();
        self.expand(top, &mut Default::default(), &mut steps)?;
        Ok((top, steps))
    }

    pub(super) fn schema(&self, source: Source) -> &'b Schema {
        match source {
            Source::Writer => self.writer,
            Source::Default => self.reader,
        }
    }

    /// Counts the work of comparing.
    pub(super) fn steps(&mut self, count: usize) -> Result<()> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let Some(left) = self.left.checked_sub(count) else {
            let most = self.most;
            let message = format!("resolving the two schemas visits more than {most} paths");
            return Err(TOO_LARGE.broken(message));
        };
        self.left = left;
        Ok(())
    }

    pub(super) fn plan(
        &mut self,
        source: Source,
        from: TypeId,
        to: TypeId,
        at: &mut At,
    ) -> Result<PlanId> {
        self.steps(1)?;
        let is_plain = source == Source::Default || !self.has_options(&at.to);
        if is_plain && let Some(known) = self.known.get(&(source, from, to)) {
            return Ok(*known);
        }
        let mut actions = PlanActions::default();
        let plan = match self.converter(source, at) {
            Some(converter) => {
                let done = Local::new(StepKind::Converted, Some(None), Some(None));
                let sides = (show::ty(self.schema(source), from), show::ty(self.reader, to));
                let by = self.converters.get(converter).cloned();
                actions.push(done.sides(Some(sides.0), Some(sides.1)).by(by));
                Plan::Convert { converter, from, to }
            }
            None => self.build(source, from, to, at, &mut actions)?,
        };
        // Checks that the sizes that a plan processes fit in memory.
        in_memory(self.schema(source).extent(from)?.stride)?;
        in_memory(self.reader.extent(to)?.stride)?;
        let id = PlanId(self.plans.len());
        self.plans.push(plan);
        if !actions.is_empty() {
            self.actions.insert(id.0, actions);
        }
        if is_plain {
            self.known.insert((source, from, to), id);
        }
        Ok(id)
    }

    fn build(
        &mut self,
        source: Source,
        from: TypeId,
        to: TypeId,
        at: &mut At,
        actions: &mut PlanActions,
    ) -> Result<Plan> {
        let schema = self.schema(source);
        let (a, b) = (get(&schema.types, from)?, get(&self.reader.types, to)?);
        Ok(match (&a.kind, &b.kind) {
            (Kind::Scalar(a), Kind::Scalar(b)) if a == b => Plan::Copy,
            (Kind::Scalar(a), Kind::Scalar(b)) if is_widening(*a, *b) => {
                let done = Local::new(StepKind::Widened, Some(None), Some(None));
                actions.push(done.sides(Some(a.as_str().into()), Some(b.as_str().into())));
                Plan::Widen(*a, *b)
            }
            (Kind::Enum(a), Kind::Enum(b)) => {
                // Comparing a value is much cheaper than visiting a path.
                self.steps(a.values.len() / 16)?;
                enums(a, b, at)?
            }
            (Kind::String, Kind::String)
            | (Kind::Bytes, Kind::Bytes)
            | (Kind::Record, Kind::Record) => Plan::Entry,
            (Kind::Tensor(a), Kind::Tensor(b))
                if a.dtype == b.dtype && schema.dims(a)? == self.reader.dims(b)? =>
            {
                Plan::Copy
            }
            (Kind::Array(a), Kind::Array(b)) => {
                self.array(source, (from, a), (to, b), at, actions)?
            }
            (Kind::Struct(a), Kind::Struct(b)) => {
                Plan::Struct(self.members(source, (from, a), b, at, actions)?)
            }
            (Kind::Union(a), Kind::Union(b)) => self.union(source, a, b, at, actions)?,
            _ => return Err(self.no_converter(source, from, to, at)),
        })
    }

    fn array(
        &mut self,
        source: Source,
        (from, a): (TypeId, &Array),
        (to, b): (TypeId, &Array),
        at: &mut At,
        actions: &mut PlanActions,
    ) -> Result<Plan> {
        let is_same = match (a.len, b.len) {
            (Len::Fixed(m), Len::Fixed(n)) => m == n,
            (_, Len::Variable { .. }) => true,
            (Len::Variable { .. }, Len::Fixed(_)) => false,
        };
        if !is_same {
            return Err(self.no_converter(source, from, to, at));
        }
        let schema = self.schema(source);
        let extents = (schema.extent(a.items)?, self.reader.extent(b.items)?);
        let plan =
            at.inside(Segment::Each, Segment::Each, |at| self.plan(source, a.items, b.items, at))?;
        self.note(actions, Segment::Each, Segment::Each, plan);
        let (x, y) = extents;
        let is_whole = matches!(self.plans.get(plan.0), Some(Plan::Copy))
            && x.size == x.stride
            && y.size == y.stride;
        let run = if is_whole { Run::Whole } else { Run::Each };
        let items = Items { from: x, to: y, plan, run };
        Ok(match (a.len, b.len) {
            (Len::Fixed(_), Len::Fixed(_)) if is_whole => Plan::Copy,
            (Len::Fixed(_), Len::Fixed(_)) => Plan::Fixed { items },
            (Len::Fixed(_), _) => Plan::IntoHeap { items },
            _ => Plan::Variable { items },
        })
    }

    fn union(
        &mut self,
        source: Source,
        from: &Union,
        to: &Union,
        at: &mut At,
        actions: &mut PlanActions,
    ) -> Result<Plan> {
        let mut variants = Vec::with_capacity(from.variants.len());
        let schema = self.schema(source);
        let part = |schema: &Schema, union: &Union, ty| -> Result<Range<usize>> {
            let start = in_memory(u64::from(union.start))?;
            Ok(start..start.saturating_add(in_memory(schema.extent(ty)?.size)?))
        };
        for variant in &from.variants {
            let found = to.tag(&variant.key).and_then(|tag| Some((tag, to.variants.get(tag)?)));
            let Some((tag, after)) = found else {
                let message = format!(
                    "{}: the union in the file has the variant `{}`, which the new schema does not have",
                    show::path(&at.path()),
                    variant.key.escaped()
                );
                return Err(NO_CONVERTER.broken(message));
            };
            let key = Segment::Name(Arc::clone(&variant.key));
            let plan = at.inside(key.clone(), key.clone(), |at| {
                self.plan(source, variant.ty, after.ty, at)
            })?;
            self.note(actions, key.clone(), key, plan);
            variants.push(VariantPlan {
                key: Arc::clone(&variant.key),
                // The number of nodes is bounded below 2^31.
                tag: u32::try_from(tag).unwrap_or(u32::MAX),
                from: part(schema, from, variant.ty)?,
                to: part(self.reader, to, after.ty)?,
                plan,
            });
        }
        Ok(Plan::Union { from: from.width, to: to.width, variants })
    }

    /// Returns `true` if an option refers to a path of the reader or to anything below it.
    fn has_options(&self, path: &[Segment]) -> bool {
        if self.options.converters.is_empty() && self.options.renames.is_empty() {
            return false;
        }
        let from = Path(path.to_vec());
        let is_below = |found: Option<&Path>| found.is_some_and(|p| p.0.starts_with(path));
        is_below(self.options.converters.range(&from..).next().map(|(p, _)| p))
            || is_below(self.options.renames.range(&from..).next().map(|(p, _)| p))
    }

    /// Returns the converter that the caller chose for a path.
    pub(super) fn converter(&mut self, source: Source, at: &At) -> Option<usize> {
        if source == Source::Default {
            return None;
        }
        let path = at.path();
        let name = self.options.converters.get(&path)?;
        self.used.insert(path);
        let known = self.converters.iter().position(|n| n == name);
        Some(known.unwrap_or_else(|| {
            self.converters.push(Arc::clone(name));
            self.converters.len().saturating_sub(1)
        }))
    }

    /// Checks that every option was used.
    fn check_used(&self) -> Result<()> {
        let mut paths = self.options.converters.keys().chain(self.options.renames.keys());
        match paths.find(|p| !self.used.contains(*p)) {
            None => Ok(()),
            Some(path) => {
                let message = format!("the new schema has no {}", show::path(path));
                Err(UNKNOWN_PATH.broken(message))
            }
        }
    }

    #[cold]
    fn no_converter(&self, source: Source, from: TypeId, to: TypeId, at: &At) -> Error {
        let (from, to) = (show::ty(self.schema(source), from), show::ty(self.reader, to));
        let path = show::path(&at.path());
        NO_CONVERTER.broken(format!("{path} is {from} in the file, but {to} in the new schema"))
    }
}

/// Maps the indices of one enum to those of another.
fn enums(from: &Enum, to: &Enum, at: &At) -> Result<Plan> {
    if from.values == to.values {
        return Ok(Plan::Copy);
    }
    let new_index = |value: &Arc<str>| {
        to.index_of(value).ok_or_else(|| {
            let (path, value) = (show::path(&at.path()), show::cut(&value.escaped().to_string()));
            let message = format!(
                "{path}: the enum in the file has the value `{value}`, which the new schema does not have"
            );
            NO_CONVERTER.broken(message)
        })
    };
    let indices = from.values.iter().map(new_index).collect::<Result<_>>()?;
    Ok(Plan::Enum { from: from.width, to: to.width, indices })
}
