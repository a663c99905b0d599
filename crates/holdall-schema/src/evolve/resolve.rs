//! Resolves a reader's type against a writer's (8.4), once for all records.

use super::build::Build;
use super::plan::{Filling, Plan, PlanId};
use super::rules::DROPS_MEMBER;
use super::show;
use super::steps::{MemberStep, StepKind};
use crate::error::Result;
use crate::extent::in_memory;
use crate::kinds::TypeId;
use crate::limits::SchemaLimits;
use crate::path::Path;
use crate::schema::Schema;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The caller's decisions about two schemas that do not follow from the schemas.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ResolveOptions {
    /// Names of converters, by path in the reader's record.
    pub converters: BTreeMap<Path, Arc<str>>,
    /// Renamed members: the path in the writer's record, by path in the reader's record.
    pub renames: BTreeMap<Path, Path>,
    /// Limits for the work.
    pub limits: SchemaLimits,
}

impl ResolveOptions {
    /// Adds a converter for the member at `path` in the reader's record. `[]` means each element of an array. The
    /// converter receives the writer's member at this path; if the writer has no such member, it receives the struct that would contain
    /// the member.
    pub fn with_converter(mut self, path: Path, name: impl Into<Arc<str>>) -> ResolveOptions {
        self.converters.insert(path, name.into());
        self
    }

    /// Declares that the reader's member at `reader` is the writer's member at `writer`, in the same struct.
    pub fn with_rename(mut self, reader: Path, writer: Path) -> ResolveOptions {
        self.renames.insert(reader, writer);
        self
    }

    /// Sets the limits.
    pub fn with_limits(mut self, limits: SchemaLimits) -> ResolveOptions {
        self.limits = limits;
        self
    }
}

/// How records of a writer's type are converted to those of a reader's type: see [`resolve`].
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
    /// Returns the size of a record of the writer in bytes.
    pub fn from_size(&self) -> usize {
        self.from_size
    }

    /// Returns the size of a record of the reader in bytes.
    pub fn to_size(&self) -> usize {
        self.to_size
    }

    /// Returns the paths of members that only the writer has.
    pub fn dropped(&self) -> &[Path] {
        &self.dropped
    }

    /// Returns the steps for members that change. Steps for nested members come first.
    pub fn steps(&self) -> &[MemberStep] {
        &self.steps
    }

    /// Returns the names of the required converters.
    pub fn converters(&self) -> &[Arc<str>] {
        &self.converters
    }

    /// Checks that no member of the writer is left out.
    ///
    /// # Errors
    /// Returns `evolve/drops-member` if one is.
    pub fn keeps_all(&self) -> Result<()> {
        let Some(first) = self.dropped.first() else { return Ok(()) };
        let more = match self.dropped.len() {
            1 => String::new(),
            n => format!(" and {} more", n.saturating_sub(1)),
        };
        Err(DROPS_MEMBER.broken(format!("{}{more} would be left out", show::path(first))))
    }
}

/// Decides how records of type `from` of the schema `writer` are converted to records of type `to` of `reader`: members
/// match by name, values of enums by string, variants by key, and numbers widen.
///
/// In both schemas, all symbols must have numbers: see [`Schema::bind`].
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
/// Returns `evolve/no-default` or `evolve/no-converter` if a decision is missing; an error of the `record/…` rules if a
/// `default` is invalid; `schema/unknown-path` if an option refers to a path that does not exist; `schema/open-shape`
/// if a symbol has no number; `schema/too-large` if the work exceeds the limit.
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
