//! Writes or reads the records and tensors of a file under another schema.

mod conversion;
mod elements;
pub(crate) mod missing;
mod plan;
mod prepare;
pub(crate) mod tensors;
mod view;

pub use conversion::Conversion;
pub use plan::{MigrationPlan, PlanStep};
pub use tensors::ConverterInput;

use super::schemas::schema_of_file;
use super::{Build, BuildReport, DatasetWriter};
use holdall_core::{Attributes, Error, Result};
use holdall_io::{Check, File, WriteOptions, ledger, with_work};
use holdall_schema::{Document, Root, SCHEMA_ATTRIBUTE, SchemaLimits};
use prepare::{Job, Prepared, Work};
use serde_json::Value;
use std::path::Path;
use tensors::FlatSource;

/// A migration of a file to another schema, by writing a new file or by converting while reading. The schema is that of
/// a record or of a whole file.
///
/// Members and tensors match by name, numbers widen, and new members take their default or are absent. Everything else
/// needs a converter. Nothing is left out without [`Migration::with_drop`].
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

/// The result of a [`Migration`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationReport {
    /// The number of records that were written under the new schema.
    pub records: u64,
    /// Members and datasets that were left out, as paths in the old file.
    pub dropped: Vec<String>,
    /// Descriptions of other contents of the old file that the new one does not have: fields that this version does not
    /// know, and content that the format of the new file does not support.
    pub left_behind: Vec<String>,
    /// The number of tensors of the new file, including datasets and blobs.
    pub tensors: u64,
    /// The length of the new file in bytes.
    pub target_len: u64,
}

/// Number of records between two progress updates.
const AT_ONCE: usize = 1 << 14;

impl Migration {
    /// Creates a migration to this schema.
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

    /// Sets the dataset that a schema of a record applies to. The default is the only dataset of the file.
    pub fn with_dataset(mut self, path: impl Into<String>) -> Migration {
        self.dataset = Some(path.into());
        self
    }

    /// Declares that the member `new` of the new schema is called `old` in the file, in the same struct. If there are
    /// several datasets, both names start with the path of the dataset: `points[].x`. With a schema of a whole file,
    /// `old` can be the name of a tensor, which is renamed to `new`.
    pub fn with_rename(mut self, new: impl Into<String>, old: impl Into<String>) -> Migration {
        self.renames.push((new.into(), old.into()));
        self
    }

    /// Creates the member or tensor at `path` in the new schema with a converter. The converter receives the value that
    /// the file has at this path, or at the old path of a rename; if the file has no such member, it receives the
    /// struct that contains the member. Paths are written as in [`Migration::with_rename`]; `[]` means each element of
    /// an array in a record.
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

    /// Sets the limits for schemas and records.
    pub fn with_limits(mut self, limits: SchemaLimits) -> Migration {
        self.limits = limits;
        self
    }

    /// Writes a new file at `path`, with the records of `file` under the new schema and everything else unchanged.
    /// Memory does not grow with the number of records. This migration's progress counts the bytes of records that are
    /// read, that of `options` the bytes that are written.
    ///
    /// # Errors
    /// Returns `records/which-dataset` if it is not clear which dataset the schema is for; an error of the `evolve/…`
    /// rules that lists what would be left out or cannot be converted; an error of the `schema/…` rules; and the errors
    /// of [`Build::create`] and [`Build::finish`]. After an error, an existing file at the path is unchanged.
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
                    let dataset = build.dataset_with_schema(&job.target, &job.to.json)?;
                    let dataset = dataset.with_schema_text(job.to.normal_text());
                    let dataset = self.dataset(job, dataset, &mut report);
                    let placed = |e: Error| e.in_tensor(&*job.name).in_source(file.name());
                    build.add_with(dataset.map_err(placed)?, job.records.tensor().attributes())?;
                }
            }
        }
        report.dropped.extend(prepared.dropped.iter().map(|(name, _)| name.clone()));
        if is_whole {
            // Formats without schemas do not check this themselves.
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

    /// Returns what [`Migration::run`] would do with a file, member by member and tensor by tensor. Reads only the
    /// file's index.
    ///
    /// # Errors
    /// Returns the errors of [`Migration::run`], except those that depend on the values in the file.
    pub fn plan(&self, file: &File) -> Result<MigrationPlan> {
        Ok(MigrationPlan::from_prepared(&self.prepare(file)?))
    }

    /// Returns the schema of the new file, if it needs one, and the file's other attributes.
    fn attributes(&self, file: &File, prepared: &Prepared) -> (Option<String>, Attributes) {
        let schema = match self.schema.schema.root() {
            // A schema that follows from the file's tensors is not written.
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
        // The new file gets new digests, so the old bytes are verified first.
        records.tensor().checked_with(Check::All).compare_all()?;
        let records = &records.clone().assume_compared();
        let dropped = plan.dropped().iter().map(|path| format!("{}[].{path}", job.name));
        report.dropped.extend(dropped);
        // The new schema may be stricter than the old one, so the new records are checked.
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

/// Returns `true` if the file has no schema, and the new schema is the one that is inferred from the new tensors.
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

/// Returns the schema of the file with a new schema for the records of a dataset. Returns `None` if the file has no
/// schema, or if both schemas define different things under one name.
fn patch(file: &File, job: &Job) -> Option<String> {
    schema_of_file(file).ok()??.with_records(&job.name, &job.to)
}
