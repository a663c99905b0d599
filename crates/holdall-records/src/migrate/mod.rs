//! The records and the tensors of a file written anew under another schema, or read under it.

mod conversion;
mod elements;
pub(crate) mod missing;
mod plan;
mod prepare;
pub(crate) mod tensors;
mod view;

pub use conversion::Conversion;
pub use plan::{MigrationPlan, PlanStep};
pub use tensors::TensorPart;

use super::schemas::schema_of_file;
use super::{Build, BuildReport, DatasetWriter};
use holdall_core::{Attributes, Error, Result};
use holdall_io::{Check, File, WriteOptions, ledger, with_work};
use holdall_schema::{Document, Root, SCHEMA_ATTRIBUTE, SchemaLimits};
use prepare::{Job, Prepared, Work};
use serde_json::Value;
use std::path::Path;
use tensors::FlatSource;

/// How a file is written under another schema, or read under it: that of a record, or that of a whole file.
///
/// Members and tensors match by name, numbers widen, and what is new takes its default or is absent; converters make
/// what does not follow by itself. Nothing is left out unless [`Migration::with_drop`] says so.
///
/// ```no_run
/// # fn main() -> holdall_core::Result<()> {
/// use holdall_records::Migration;
/// use holdall_schema::{Document, Reading, SchemaLimits};
/// let text = std::fs::read("new.json").unwrap();
/// let new = Document::parse(&text, "new.json", Reading::ByContent, &SchemaLimits::default())?;
/// let report = Migration::new(new)
///     .with_rename("caption", "text")
///     .run(&holdall_io::open("old.mt")?, "new.mt", &holdall_io::WriteOptions::new())?;
/// println!("{} records", report.records);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Migration {
    schema: Document,
    dataset: Option<String>,
    renames: Vec<(String, String)>,
    conversions: Vec<(String, Conversion)>,
    may_drop: bool,
    limits: SchemaLimits,
    work: holdall_io::Work,
}

/// What a [`Migration`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationReport {
    /// Records that were written under the new schema.
    pub records: u64,
    /// Members and datasets that were left out, as paths of the file.
    pub dropped: Vec<String>,
    /// What the file contains besides and the new one lacks, in words: what this version does not know, and what the format of
    /// the new file has no place for.
    pub left_behind: Vec<String>,
    /// Tensors, datasets and blobs of the file that was written.
    pub tensors: u64,
    /// Bytes of it.
    pub target_len: u64,
}

/// Records between two steps of the progress.
const AT_ONCE: usize = 1 << 14;

impl Migration {
    /// Migrates to this schema.
    pub fn new(schema: Document) -> Migration {
        Migration {
            schema,
            dataset: None,
            renames: Vec::new(),
            conversions: Vec::new(),
            may_drop: false,
            limits: SchemaLimits::default(),
            work: holdall_io::Work::default(),
        }
    }

    /// The dataset that a record's schema is for; otherwise it is the only one of the file.
    pub fn with_dataset(mut self, path: impl Into<String>) -> Migration {
        self.dataset = Some(path.into());
        self
    }

    /// The member that is `new` in the new schema is `old` in the file, in the same struct. Where there are
    /// several datasets, both start with the path of theirs: `points[].x`. Under the schema of a whole file, `old`
    /// may be the name of a tensor, which is then `new`.
    pub fn with_rename(mut self, new: impl Into<String>, old: impl Into<String>) -> Migration {
        self.renames.push((new.into(), old.into()));
        self
    }

    /// Makes the member, or the tensor, that the new schema has at `path` by a converter. It is given what the file has
    /// there, or at the path that a rename says; or the struct around, where the file has no such member. Paths are
    /// those of [`Migration::with_rename`], and `[]` stands for each element of an array in a record.
    pub fn with_converter(
        mut self,
        path: impl Into<String>,
        conversion: impl Into<Conversion>,
    ) -> Migration {
        self.conversions.push((path.into(), conversion.into()));
        self
    }

    /// Leaves out members and tensors that the new schema does not have.
    pub fn with_drop(mut self) -> Migration {
        self.may_drop = true;
        self
    }

    /// What schemas and records may ask for.
    pub fn with_limits(mut self, limits: SchemaLimits) -> Migration {
        self.limits = limits;
        self
    }

    /// Writes the records of `file` under the new schema, and everything else in it as it is, into a new file
    /// at `path`. Memory does not grow with the number of records. The work of the migration counts the bytes of
    /// records that are read, that of `options` the bytes that are written.
    ///
    /// # Errors
    /// `records/which-dataset`; the `evolve/…` rules, which say what would be left out or cannot be
    /// converted; the `schema/…` rules; as [`Build::create`] and [`Build::finish`]. What was at the path stays
    /// then.
    pub fn run(
        &self,
        file: &File,
        path: impl AsRef<Path>,
        options: &WriteOptions,
    ) -> Result<MigrationReport> {
        let prepared = self.prepare(file)?;
        let mut report = MigrationReport::default();
        let is_whole = matches!(self.schema.schema.root(), Root::References(_));
        let (patched, attributes) = self.attributes(file, &prepared);
        let options = options.clone().with_attributes(attributes);
        let mut build = Build::create(path, &options)?.with_limits(self.limits.clone());
        if let Some(schema) = &patched {
            build = build.with_text(schema).map_err(|e| e.in_source(&self.schema.name))?;
        }
        let len = |job: &Job| job.records.len().saturating_mul(job.records.extent().stride);
        self.work.begin(prepared.jobs().map(len).fold(0, u64::saturating_add));
        for work in &prepared.works {
            match work {
                Work::Copied(tensor, target) => build.copy_as(tensor, target)?,
                Work::Flat(flat) => match &flat.how {
                    FlatSource::Same(tensor) => build.copy_under(tensor, &flat.spec)?,
                    _ => build.fed(flat.spec.clone(), flat.feed()?)?,
                },
                Work::Records(job) => {
                    let dataset = build.dataset_of(&job.target, &job.to.json)?;
                    let dataset = dataset.with_kind_text(job.to.normal_text(&self.limits));
                    let dataset = self.dataset(job, dataset, &mut report);
                    let placed = |e: Error| e.in_tensor(&*job.name).in_source(file.name());
                    build.add_with(dataset.map_err(placed)?, job.records.tensor().attributes())?;
                }
            }
        }
        report.dropped.extend(prepared.dropped.iter().map(|(name, _)| name.clone()));
        if is_whole {
            // Formats without schemas of their own would not look.
            build.check_fit().map_err(|e| e.in_source(&self.schema.name))?;
        }
        let mut expected = prepared.expected();
        if options.is_digest_chosen() {
            expected.choose_digests();
        }
        let (BuildReport { tensors, target_len }, left_behind) =
            build.finish_from(|record, ties| {
                expected.set_ties(ties);
                ledger::close(file, record, &expected)
            })?;
        (report.tensors, report.target_len, report.left_behind) =
            (tensors, target_len, left_behind);
        Ok(report)
    }

    /// What [`Migration::run`] would do with a file, member by member and tensor by tensor. Reads no more than the
    /// file's index.
    ///
    /// # Errors
    /// What keeps it from being done: as [`Migration::run`], but for what only the values of the file show.
    pub fn plan(&self, file: &File) -> Result<MigrationPlan> {
        Ok(MigrationPlan::from_prepared(&self.prepare(file)?))
    }

    /// The schema that the new file has, if it has one of its own, and the attributes that it has beside it.
    fn attributes(&self, file: &File, prepared: &Prepared) -> (Option<String>, Attributes) {
        let schema = match self.schema.schema.root() {
            // What a file of these tensors says without it need not be said.
            Root::References(_) if is_implied(file, prepared, &self.schema.json) => None,
            Root::References(_) => Some(self.schema.text.clone()),
            Root::Record(_) => prepared.jobs().next().and_then(|only| patch(file, only)),
        };
        let mut attributes = file.attributes().clone();
        attributes.remove(SCHEMA_ATTRIBUTE);
        (schema, attributes)
    }

    /// Writes the records of one dataset under their new schema.
    fn dataset(
        &self,
        job: &Job,
        mut dataset: DatasetWriter,
        report: &mut MigrationReport,
    ) -> Result<DatasetWriter> {
        let (records, plan) = (&job.records, &job.resolution);
        // What is written gets digests of its own.
        records.tensor().checked_with(Check::All).compare_all()?;
        let records = &records.clone().assume_compared();
        let dropped = plan.dropped().iter().map(|path| format!("{}[].{path}", job.name));
        report.dropped.extend(dropped);
        // What has changed may ask for more than the records were held to.
        let checker = job.checker(&self.limits)?;
        let (len, stride) = (records.len(), records.extent().stride);
        for start in (0..len).step_by(AT_ONCE) {
            let range = start..len.min(start + AT_ONCE as u64);
            let done = (range.end - range.start).saturating_mul(stride);
            dataset.migrate_checked(records, range, plan, &job.converters, checker.as_ref())?;
            self.work.advance(done)?;
        }
        report.records += len;
        Ok(dataset)
    }
}

with_work!(Migration);

/// Returns `true` if a file without a schema of its own has the one that is inferred from what becomes of its tensors.
fn is_implied(file: &File, prepared: &Prepared, schema: &Value) -> bool {
    let has_own = file.attributes().get(SCHEMA_ATTRIBUTE).is_some();
    let Ok(Some(specs)) = prepared.specs() else { return false };
    !has_own && inferred(&specs).is_some_and(|inferred| inferred == *schema)
}

#[cfg(feature = "metatensor")]
fn inferred(specs: &[holdall_core::TensorSpec]) -> Option<Value> {
    let text = holdall_formats::metatensor::infer(specs, None).ok()?;
    holdall_json::parse(text.as_bytes(), holdall_core::Limits::default().depth).ok()
}

#[cfg(not(feature = "metatensor"))]
fn inferred(_: &[holdall_core::TensorSpec]) -> Option<Value> {
    None
}

/// The schema of a file with another one for the records of a dataset; `None` where the file has no schema
/// of its own, or the two have different things of one name.
fn patch(file: &File, job: &Job) -> Option<String> {
    schema_of_file(file).ok()??.with_records(&job.name, &job.to)
}
