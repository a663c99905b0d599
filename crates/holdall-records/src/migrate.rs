//! The records of a file written anew under another schema.

use super::TensorRecords as _;
use super::rules::WHICH_DATASET;
use super::schemas::{schema_of_dataset, schema_of_file};
use super::{Build, BuildReport, DatasetWriter, Records, choose};
use holdall_core::error::Shown as _;
use holdall_core::{Error, Layout, Result};
use holdall_io::error::SAME_NAME;
use holdall_io::{File, WriteOptions};
use holdall_io::{Work, with_work};
use holdall_schema::evolve::rules::DROPS_MEMBER;
use holdall_schema::rules::UNKNOWN_PATH;
use holdall_schema::{
    Change, Checker, Converters, Document, Path as Way, ResolveOptions, Root, SCHEMA_ATTRIBUTE,
    SchemaLimits, Segment, Verdict, What, diff,
};
use serde_json::{Map, Value};
use std::collections::HashMap;
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
    /// Tensors, datasets and blobs of the file that was written.
    pub tensors: u64,
    /// Bytes of it.
    pub target_len: u64,
}

/// A dataset to be migrated, its name in the new file, and the schema that its records get.
struct Job {
    name: String,
    target: String,
    records: Records,
    to: Document,
}

/// What renames are about.
#[derive(Default)]
struct Renames<'m> {
    /// Tensors of the file, each with its name in the new one.
    tensors: HashMap<&'m str, &'m str>,
    /// New and old names of members.
    members: Vec<&'m (String, String)>,
}

/// What is done with the tensors of a file, in its order.
#[derive(Default)]
struct Steps {
    jobs: Vec<Job>,
    /// Those that are not datasets to be migrated, each with its new name.
    copied: HashMap<String, String>,
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
    /// several datasets, both start with the path of theirs: `points[].x`. Under the schema of a whole file, `old`
    /// may be the name of a tensor, which is then `new`.
    pub fn with_rename(mut self, new: impl Into<String>, old: impl Into<String>) -> Migration {
        self.renames.push((new.into(), old.into()));
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
        let mut report = MigrationReport::default();
        let is_whole = matches!(self.schema.schema.root(), Root::References(_));
        let renames = self.renames(file, is_whole)?;
        let Steps { jobs, copied } = match is_whole {
            true => self.all(file, &renames, &mut report)?,
            false => self.one(file)?,
        };
        if let [_, _, ..] = jobs[..]
            && let Some((plain, _)) = renames.members.iter().find(|(new, _)| !new.contains("[]."))
        {
            let message = format!("`{plain}` does not say which of several datasets it is in");
            let hint = "write both names with the path of the dataset: `points[].x`";
            return Err(WHICH_DATASET.broken(message).with_hint(hint));
        }
        for (new, old) in &renames.members {
            let about = |job: &Job| {
                Ok::<bool, Error>(
                    within(new, &job.target)?.is_some() && within(old, &job.name)?.is_some(),
                )
            };
            if !jobs.iter().map(about).collect::<Result<Vec<bool>>>()?.contains(&true) {
                let what = if is_whole {
                    "no tensor, and no member of a dataset,"
                } else {
                    "no member of the dataset"
                };
                let message =
                    format!("{what} of the file is `{}`, to be `{}`", old.shown(), new.shown());
                return Err(UNKNOWN_PATH.broken(message).in_source(file.name()));
            }
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
                    let dataset = build.dataset_of(&job.target, &job.to.json)?;
                    let dataset = self.dataset(job, &renames, dataset, &mut report);
                    let placed = |e: Error| e.in_tensor(&*job.name).in_source(file.name());
                    build.add(dataset.map_err(placed)?)?;
                }
                None => {
                    if let Some(target) = copied.get(tensor.name()) {
                        build.copy_as(&tensor, target)?;
                    }
                }
            }
        }
        if is_whole {
            // Formats without schemas of their own would not look.
            build.check_fit().map_err(|e| e.in_source(&self.schema.name))?;
        }
        let BuildReport { tensors, target_len } = build.finish()?;
        (report.tensors, report.target_len) = (tensors, target_len);
        Ok(report)
    }

    /// Which renames are of tensors, and which of members.
    fn renames(&self, file: &File, is_whole: bool) -> Result<Renames<'_>> {
        let mut out = Renames::default();
        for rename in &self.renames {
            let (new, old) = rename;
            if !(is_whole && file.index().get(old).is_some()) {
                out.members.push(rename);
            } else if let Some(other) = out.tensors.insert(old, new).filter(|other| other != new) {
                let message = format!("it was to be `{}` and `{}`", other.shown(), new.shown());
                return Err(SAME_NAME.broken(message).in_tensor(old).in_source(file.name()));
            }
        }
        Ok(out)
    }

    /// The dataset that the schema of a record is for.
    fn one(&self, file: &File) -> Result<Steps> {
        let tensor = choose::dataset(file, self.dataset.as_deref())?;
        let (name, to) = (tensor.name().to_owned(), self.schema.clone());
        let others = file.tensors().map(|t| t.name().to_owned()).filter(|other| *other != name);
        let copied = others.map(|other| (other.clone(), other)).collect();
        let job = Job { target: name.clone(), name, records: tensor.records()?, to };
        Ok(Steps { jobs: vec![job], copied })
    }

    /// Every tensor of a file that a schema has a place for.
    fn all(
        &self,
        file: &File,
        renames: &Renames<'_>,
        report: &mut MigrationReport,
    ) -> Result<Steps> {
        let mut steps = Steps::default();
        for tensor in file.tensors() {
            let name = tensor.name().to_owned();
            let target = (*renames.tensors.get(&*name).unwrap_or(&&*name)).to_owned();
            let is_dataset = *tensor.layout() == Layout::Records;
            let found = match is_dataset {
                true => self.schema.dataset(Some(&target), &self.limits).map(|(_, to)| Some(to)),
                false => self.schema.place(&target).map(|_| None),
            };
            match found {
                Ok(Some(to)) => {
                    steps.jobs.push(Job { name, target, records: tensor.records()?, to });
                }
                Ok(None) => {
                    steps.copied.insert(name, target);
                }
                Err(_) if self.may_drop => report.dropped.push(name),
                Err(e) => {
                    let what = if is_dataset { "dataset" } else { "tensor" };
                    let e = DROPS_MEMBER.broken(format!("the {what} would be left out")).because(e);
                    return Err(e.in_tensor(name).in_source(file.name()));
                }
            }
        }
        Ok(steps)
    }

    /// Writes the records of one dataset under their new schema.
    fn dataset(
        &self,
        job: &Job,
        renames: &Renames<'_>,
        mut dataset: DatasetWriter,
        report: &mut MigrationReport,
    ) -> Result<DatasetWriter> {
        let records = &job.records;
        let mut options = ResolveOptions::default().with_limits(self.limits.clone());
        for (new, old) in &renames.members {
            if let (Some(new), Some(old)) = (within(new, &job.target)?, within(old, &job.name)?) {
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
        // What has changed may ask for more than the records were held to.
        let old = schema_of_dataset(records.tensor().file(), &job.name)?;
        let sides = ((&old.schema, &old.json), (&job.to.schema, &job.to.json));
        let changes = diff(sides.0, sides.1, &self.limits)?;
        let is_open = |c: &Change| c.verdict > Verdict::Compatible && c.what != What::Removed;
        let checker = match Checker::IS_BUILT && changes.iter().any(is_open) {
            true => Some(Checker::new(&job.to.schema, &job.to.json, &self.limits)?),
            false => None,
        };
        let (len, stride) = (records.len(), records.extent().stride);
        for start in (0..len).step_by(AT_ONCE) {
            let range = start..len.min(start + AT_ONCE as u64);
            let done = (range.end - range.start).saturating_mul(stride);
            dataset.migrate_checked(records, range, &plan, &converters, checker.as_ref())?;
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
