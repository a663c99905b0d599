//! A reader's type against a writer's (8.4): decided once, for all records.

use super::build::Build;
use super::plan::{Filling, Plan, PlanId};
use super::rules::DROPS_MEMBER;
use super::show;
use super::told::{MemberStep, StepKind};
use crate::error::Result;
use crate::extent::in_memory;
use crate::kinds::TypeId;
use crate::limits::SchemaLimits;
use crate::path::Path;
use crate::schema::Schema;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the caller knows about two schemas that they do not say themselves.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ResolveOptions {
    /// Names of converters, by the path in the reader's record.
    pub converters: BTreeMap<Path, Arc<str>>,
    /// Where the writer's record has what the reader's has: by the reader's path, the writer's.
    pub renames: BTreeMap<Path, Path>,
    /// What may be asked of this process.
    pub limits: SchemaLimits,
}

impl ResolveOptions {
    /// With a converter of that name for what the reader has at `path`; `[]` stands for each element
    /// of an array. It is given what the writer has there, or the struct that `path` is a member of
    /// where the writer has no such member.
    pub fn with_converter(mut self, path: Path, name: impl Into<Arc<str>>) -> ResolveOptions {
        self.converters.insert(path, name.into());
        self
    }

    /// The member that the reader has at `reader` is the one that the writer has at `writer`, in the
    /// same struct.
    pub fn with_rename(mut self, reader: Path, writer: Path) -> ResolveOptions {
        self.renames.insert(reader, writer);
        self
    }

    /// With these limits.
    pub fn with_limits(mut self, limits: SchemaLimits) -> ResolveOptions {
        self.limits = limits;
        self
    }
}

/// How records of a writer's type become records of a reader's. See [`resolve`].
#[derive(Debug)]
pub struct Resolution {
    pub(super) plans: Vec<Plan>,
    pub(super) top: PlanId,
    pub(super) from_size: usize,
    pub(super) to_size: usize,
    pub(super) fillings: Vec<Filling>,
    pub(super) converters: Vec<Arc<str>>,
    pub(super) decoded_len: u64,
    dropped: Vec<Path>,
    steps: Vec<MemberStep>,
}

impl Resolution {
    /// Bytes of a record of the writer's.
    pub fn from_size(&self) -> usize {
        self.from_size
    }

    /// Bytes of a record of the reader's.
    pub fn to_size(&self) -> usize {
        self.to_size
    }

    /// What only the writer has, as paths of its records.
    pub fn dropped(&self) -> &[Path] {
        &self.dropped
    }

    /// What is done with members that do not stay as they are, those inside others first.
    pub fn steps(&self) -> &[MemberStep] {
        &self.steps
    }

    /// The names of the converters that are needed.
    pub fn converters(&self) -> &[Arc<str>] {
        &self.converters
    }

    /// Checks that nothing of the writer's is left out.
    ///
    /// # Errors
    /// `evolve/drops-member`.
    pub fn keeps_all(&self) -> Result<()> {
        let Some(first) = self.dropped.first() else { return Ok(()) };
        let more = match self.dropped.len() {
            1 => String::new(),
            n => format!(" and {} more", n.saturating_sub(1)),
        };
        Err(DROPS_MEMBER.broken(format!("{}{more} would be left out", show::path(first))))
    }
}

/// How records of type `from` of the schema `writer` become records of type `to` of `reader`: members
/// match by name, values of enums by string, variants by key, and numbers widen.
///
/// Both schemas have numbers for their symbols: see [`Schema::bind`].
///
/// ```
/// use holdall_schema::{Converters, ResolveOptions, Schema, SchemaLimits, resolve};
/// use serde_json::json;
///
/// let compile = |json| Schema::compile_record(&json, &SchemaLimits::default());
/// let writer = compile(json!({
///     "TypeDef:Struct": ["id"], "required": ["id"], "align": "natural",
///     "properties": {"id": {"TypeDef:Uint16": true}},
/// }))?;
/// let reader = compile(json!({
///     "TypeDef:Struct": ["id", "n"], "required": ["id", "n"], "align": "natural",
///     "properties": {"id": {"TypeDef:Uint32": true}, "n": {"TypeDef:Int8": true, "default": 7}},
/// }))?;
/// let types = (writer.record().unwrap(), reader.record().unwrap());
///
/// let resolution = resolve(&writer, types.0, &reader, types.1, &ResolveOptions::default())?;
/// let mut out = vec![0; resolution.to_size()];
/// let converters = Converters::new();
/// resolution.migrator(&converters)?.record(&[0x34, 0x12], &[], &mut out, &mut Vec::new())?;
/// assert_eq!(out, [0x34, 0x12, 0, 0, 7, 0, 0, 0]);
/// # Ok::<(), holdall_schema::Error>(())
/// ```
///
/// # Errors
/// `evolve/no-default`, `evolve/no-converter`; the `record/…` rules that a `default` breaks;
/// `schema/unknown-path` for options that lead nowhere; `schema/open-shape`, `schema/too-large`.
pub fn resolve(
    writer: &Schema,
    from: TypeId,
    reader: &Schema,
    to: TypeId,
    options: &ResolveOptions,
) -> Result<Resolution> {
    let mut build = Build::new(writer, reader, options);
    let (top, steps) = build.top(from, to)?;
    let dropped = steps.iter().filter(|s| s.what == StepKind::Dropped);
    let dropped = dropped.filter_map(|s| s.from.clone()).collect();
    Ok(Resolution {
        from_size: in_memory(writer.extent(from)?.size)?,
        to_size: in_memory(reader.extent(to)?.size)?,
        plans: build.plans,
        top,
        fillings: build.fillings,
        converters: build.converters,
        decoded_len: options.limits.decoded_len,
        dropped,
        steps,
    })
}
