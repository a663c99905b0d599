//! The records of a file written anew under another schema.

use super::TensorRecords as _;
use super::rules::WHICH_DATASET;
use super::schemas::schema_of_file;
use super::{Build, BuildReport, DatasetWriter, Records, choose};
use holdall_core::{Error, Layout, Result};
use holdall_io::File;
use holdall_io::WriteOptions;
use holdall_io::{Work, with_work};
use holdall_schema::evolve::rules::DROPS_MEMBER;
use holdall_schema::{
    Converters, Document, Path as Way, ResolveOptions, Root, SCHEMA_ATTRIBUTE, SchemaLimits,
    Segment,
};
use serde_json::{Map, Value};
use std::path::Path;

/// How the records of a file are written under another schema, that of a record or that of a whole file.
///
/// Members match by name, numbers widen, and what is new takes its default or is absent. Nothing is left out
/// unless [`Migration::with_drop`] says so.
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
    may_drop: bool,
    limits: SchemaLimits,
    work: Work,
}

/// What a [`Migration`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationReport {
    /// Records that were written under the new schema.
    pub records: u64,
    /// Members and datasets that were left out, as paths of the file.
    pub dropped: Vec<String>,
    /// Bytes of the file that was written.
    pub target_len: u64,
}

/// A dataset to be migrated, and the schema that its records get.
struct Job {
    name: String,
    records: Records,
    to: Document,
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
            may_drop: false,
            limits: SchemaLimits::default(),
            work: Work::default(),
        }
    }

    /// The dataset that a record's schema is for; otherwise it is the only one of the file.
    pub fn with_dataset(mut self, path: impl Into<String>) -> Migration {
        self.dataset = Some(path.into());
        self
    }

    /// The member that is `new` in the new schema is `old` in the file, in the same struct. Where there are
    /// several datasets, both start with the path of theirs: `points[].x`.
    pub fn with_rename(mut self, new: impl Into<String>, old: impl Into<String>) -> Migration {
        self.renames.push((new.into(), old.into()));
        self
    }

    /// Leaves out members and datasets that the new schema does not have.
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
        let mut report = MigrationReport::default();
        let is_whole = matches!(self.schema.schema.root(), Root::References(_));
        let jobs = match is_whole {
            true => self.all(file, &mut report)?,
            false => vec![self.one(file)?],
        };
        if let [_, _, ..] = jobs[..]
            && let Some((plain, _)) = self.renames.iter().find(|(new, _)| !new.contains("[]."))
        {
            let message = format!("`{plain}` does not say which of several datasets it is in");
            let hint = "write both names with the path of the dataset: `points[].x`";
            return Err(WHICH_DATASET.broken(message).with_hint(hint));
        }
        let patched = match &jobs[..] {
            [only] if !is_whole => patch(file, only),
            _ => Some(self.schema.json.clone()),
        };
        let mut attributes = file.attributes().clone();
        attributes.remove(SCHEMA_ATTRIBUTE);
        let options = options.clone().with_attributes(attributes);
        let mut build = Build::create(path, &options)?.with_limits(self.limits.clone());
        if let Some(schema) = &patched {
            build = build.with_schema(schema).map_err(|e| e.in_source(&self.schema.name))?;
        }
        let len = |job: &Job| job.records.len().saturating_mul(job.records.extent().stride);
        self.work.begin(jobs.iter().map(len).fold(0, u64::saturating_add));
        for tensor in file.tensors() {
            match jobs.iter().find(|job| job.name == tensor.name()) {
                Some(job) => {
                    let dataset = build.dataset_of(&job.name, &job.to.json)?;
                    let dataset = self.dataset(job, dataset, &mut report);
                    let placed = |e: Error| e.in_tensor(&*job.name).in_source(file.name());
                    build.add(dataset.map_err(placed)?)?;
                }
                None if report.dropped.iter().any(|name| name == tensor.name()) => {}
                None => build.copy(&tensor)?,
            }
        }
        let BuildReport { target_len, .. } = build.finish()?;
        report.target_len = target_len;
        Ok(report)
    }

    /// The dataset that the schema of a record is for.
    fn one(&self, file: &File) -> Result<Job> {
        let tensor = choose::dataset(file, self.dataset.as_deref())?;
        let (name, to) = (tensor.name().to_owned(), self.schema.clone());
        Ok(Job { name, records: tensor.records()?, to })
    }

    /// Every dataset of a file that a schema has a place for.
    fn all(&self, file: &File, report: &mut MigrationReport) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for tensor in file.tensors().filter(|t| *t.layout() == Layout::Records) {
            match self.schema.dataset(Some(tensor.name()), &self.limits) {
                Ok((name, to)) => jobs.push(Job { name, records: tensor.records()?, to }),
                Err(_) if self.may_drop => report.dropped.push(tensor.name().to_owned()),
                Err(e) => {
                    let e = DROPS_MEMBER.broken("the dataset would be left out").because(e);
                    let e = e.in_tensor(tensor.name());
                    return Err(e.in_source(file.name()));
                }
            }
        }
        Ok(jobs)
    }

    /// Writes the records of one dataset under their new schema.
    fn dataset(
        &self,
        job: &Job,
        mut dataset: DatasetWriter,
        report: &mut MigrationReport,
    ) -> Result<DatasetWriter> {
        let records = &job.records;
        let mut options = ResolveOptions::default().with_limits(self.limits.clone());
        for (new, old) in &self.renames {
            if let (Some(new), Some(old)) = (within(new, &job.name)?, within(old, &job.name)?) {
                options = options.with_rename(new, old);
            }
        }
        let plan = dataset.resolve(records, &options)?;
        if !self.may_drop {
            plan.keeps_all()?;
        }
        let dropped = plan.dropped().iter().map(|path| format!("{}[].{path}", job.name));
        report.dropped.extend(dropped);
        let converters = Converters::new();
        let (len, stride) = (records.len(), records.extent().stride);
        for start in (0..len).step_by(AT_ONCE) {
            let range = start..len.min(start + AT_ONCE as u64);
            let done = (range.end - range.start).saturating_mul(stride);
            dataset.migrate(records, range, &plan, &converters)?;
            self.work.advance(done)?;
        }
        report.records += len;
        Ok(dataset)
    }
}

with_work!(Migration);

/// The schema of a file with another one for the records of a dataset; `None` where the file has no schema
/// of its own, or the two have different things of one name.
fn patch(file: &File, job: &Job) -> Option<Value> {
    let whole = schema_of_file(file).ok()??;
    let pointer = whole.dataset_pointer(&job.name).ok()?;
    let (mut json, mut items) = (whole.json, job.to.json.clone());
    let keywords = items.as_object_mut()?;
    keywords.remove("$schema");
    if let Some(Value::Object(own)) = keywords.remove("$defs") {
        let defs = json.as_object_mut()?.entry("$defs").or_insert_with(|| Map::new().into());
        let defs = defs.as_object_mut()?;
        if own.iter().any(|(name, def)| defs.get(name).is_some_and(|other| other != def)) {
            return None;
        }
        defs.extend(own);
    }
    *json.pointer_mut(&pointer)?.get_mut("items")? = items;
    Some(json)
}

/// A path in the records of a dataset, with its name before it or not; `None` where it is in another.
fn within(text: &str, name: &str) -> Result<Option<Way>> {
    let path: Way = text.parse()?;
    let name: Way = name.parse().unwrap_or_else(|_| Way(vec![Segment::Name(name.into())]));
    let own = path.0.strip_prefix(&name.0[..]).and_then(|rest| rest.strip_prefix(&[Segment::Each]));
    Ok(match own {
        Some(own) => Some(Way(own.to_vec())),
        None if text.contains("[].") => None,
        None => Some(path),
    })
}
