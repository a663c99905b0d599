//! `holdall schema migrate`.

use super::read::{self, Named, Reading, only_dataset};
use crate::exit::{ARGUMENTS, Failure, Status};
use crate::input;
use crate::output::json::push_string;
use crate::output::text::{Size, count, escape};
use crate::session::Session;
use crate::writing::{self, Writing};
use clap::Args;
use holdall::records::{Build, DatasetWriter};
use holdall::schema::evolve::rules::DROPS_MEMBER;
use holdall::schema::{
    Converters, Path as Way, ResolveOptions, Root, SCHEMA_ATTRIBUTE, SchemaLimits, Segment,
};
use holdall::{File, Records, Work};
use serde_json::Value as Json;
use std::io::Write as _;
use std::path::PathBuf;

/// Write the records of a file anew under another schema
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema migrate old.mt new.json -o new.mt                  members match by name
  holdall schema migrate old.mt new.json -o new.mt --rename text=caption
  holdall schema migrate old.mt new.json -o new.mt --drop           leave out what is no longer there

Numbers widen, values of enums and variants of unions match by name, and members that are new take
their default or are absent; `holdall schema diff` says beforehand what it comes to. Nothing is left
out unless --drop says so. Everything else in the file stays as it is. Records go through one by one:
memory does not grow with the file.")]
pub(crate) struct MigrateArgs {
    /// The file, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The new schema (JSON): of a record, or of the whole file
    #[arg(value_name = "SCHEMA")]
    schema: PathBuf,

    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// The dataset that a record's schema is for [default: the only one]
    #[arg(short, long, value_name = "PATH")]
    path: Option<String>,

    /// The member that is NEW in the new schema is OLD in the file, in the same struct; may be given
    /// again
    #[arg(long, value_name = "NEW=OLD", value_parser = rename)]
    rename: Vec<(String, String)>,

    /// Leave out members, and datasets, that the new schema does not have
    #[arg(long)]
    drop: bool,

    /// Replace OUT if it is there
    #[arg(short, long)]
    force: bool,

    /// The format, perhaps with a version [default: as the extension of OUT says]
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,

    #[command(flatten)]
    writing: Writing,
}

fn rename(text: &str) -> Result<(String, String), String> {
    let (new, old) = text.split_once('=').ok_or("write NEW=OLD, for example text=caption")?;
    Ok((new.to_owned(), old.to_owned()))
}

/// A dataset to be migrated, and the schema that its records get.
struct Job {
    name: String,
    records: Records,
    to: Named,
}

/// What was done.
#[derive(Default)]
struct Report {
    records: u64,
    /// What was left out, as paths of the file.
    dropped: Vec<String>,
    len: u64,
}

/// Migrates.
pub(crate) fn run(session: &Session, args: &MigrateArgs) -> Result<Status, Failure> {
    input::check_once([&args.file, &args.schema])?;
    writing::check_is_file(&args.output)?;
    let file = input::open(session, &args.file)?;
    let new = read::schema(session, &args.schema, Reading::ByContent)?;
    let limits = session.global.limits().of_schemas();
    let is_whole = matches!(new.schema.root(), Root::References(_));
    let mut report = Report::default();
    let jobs = match is_whole {
        true => all(&file, &new, args.drop, &limits, &mut report)?,
        false => vec![one(&file, new.clone(), args.path.as_deref())?],
    };
    if let [_, _, ..] = jobs[..]
        && let Some((plain, _)) = args.rename.iter().find(|(new, _)| !new.contains("[]."))
    {
        let e = ARGUMENTS.broken(format!("`{plain}` is in which of several datasets?"));
        return Err(e.with_hint("write `--rename points[].x=points[].y`").into());
    }

    let mut attributes = file.attributes().clone();
    attributes.remove(SCHEMA_ATTRIBUTE);
    let patched = if is_whole { Some(new.json.clone()) } else { patch(&file, &jobs[0]) };
    let options =
        args.writing.of_records(session.work("writing"), args.to.as_deref(), args.force)?;
    let options = options.with_attributes(attributes);
    let mut build = Build::create(&args.output, &options)?;
    drop(options);
    if let Some(schema) = &patched {
        build = build.with_schema(schema).map_err(|e| e.in_source(&new.source))?;
    }
    let work = session.work("migrating");
    let len = |job: &Job| job.records.len().saturating_mul(job.records.extent().stride);
    work.begin(jobs.iter().map(len).sum());
    for tensor in file.tensors() {
        match jobs.iter().find(|job| job.name == tensor.name()) {
            Some(job) => {
                let dataset = build.dataset_of(&job.name, &job.to.json)?;
                let dataset = migrate(args, job, dataset, &limits, &work, &mut report)
                    .map_err(|e| e.in_tensor(&*job.name).in_source(file.name()))?;
                build.add(dataset)?;
            }
            None if report.dropped.iter().any(|name| name == tensor.name()) => {}
            None => build.copy(&tensor)?,
        }
    }
    drop(work);
    report.len = build.finish()?.target_len;
    tell(session, &file, args, &report)?;
    Ok(Status::Fine)
}

/// The dataset that the schema of a record is for.
fn one(file: &File, to: Named, path: Option<&str>) -> Result<Job, Failure> {
    let tensor = only_dataset(file, path)?;
    Ok(Job { name: tensor.name().to_owned(), records: tensor.records()?, to })
}

/// Every dataset of a file that a schema has a place for.
fn all(
    file: &File,
    new: &Named,
    may_drop: bool,
    limits: &SchemaLimits,
    report: &mut Report,
) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    for tensor in file.tensors().filter(|t| t.layout().as_str() == "records") {
        match new.dataset(Some(tensor.name()), limits) {
            Ok((name, to)) => jobs.push(Job { name, records: tensor.records()?, to }),
            Err(_) if may_drop => report.dropped.push(tensor.name().to_owned()),
            Err(e) => {
                let message = format!("the dataset would be left out: {}", e.message());
                let e = DROPS_MEMBER.broken(message).in_tensor(tensor.name());
                return Err(e.in_source(file.name()).with_hint(DROP_HINT).into());
            }
        }
    }
    Ok(jobs)
}

const DROP_HINT: &str = "`--rename NEW=OLD` says where it is now, `--drop` leaves it out";

/// The schema of a file with another one for the records of a dataset; `None` where the file has no schema
/// of its own, or the two have different things of one name.
fn patch(file: &File, job: &Job) -> Option<Json> {
    let whole = read::own_of_file(file).ok()??;
    let pointer = whole.dataset_pointer(&job.name).ok()?;
    let (mut json, mut items) = (whole.json, job.to.json.clone());
    let keywords = items.as_object_mut()?;
    keywords.remove("$schema");
    if let Some(Json::Object(own)) = keywords.remove("$defs") {
        let defs = json
            .as_object_mut()?
            .entry("$defs")
            .or_insert_with(|| Json::Object(Default::default()));
        let defs = defs.as_object_mut()?;
        if own.iter().any(|(name, def)| defs.get(name).is_some_and(|other| other != def)) {
            return None;
        }
        defs.extend(own);
    }
    *json.pointer_mut(&pointer)?.get_mut("items")? = items;
    Some(json)
}

/// Writes the records of one dataset under their new schema.
fn migrate(
    args: &MigrateArgs,
    job: &Job,
    mut dataset: DatasetWriter,
    limits: &SchemaLimits,
    work: &Work,
    report: &mut Report,
) -> holdall::Result<DatasetWriter> {
    let records = &job.records;
    let mut options = ResolveOptions::default().with_limits(limits.clone());
    for (new, old) in &args.rename {
        if let (Some(new), Some(old)) = (within(new, &job.name)?, within(old, &job.name)?) {
            options = options.with_rename(new, old);
        }
    }
    let plan = dataset.resolve(records, &options)?;
    if !args.drop {
        plan.keeps_all().map_err(|e| e.with_hint(DROP_HINT))?;
    }
    let dropped = plan.dropped().iter().map(|path| format!("{}[].{path}", job.name));
    report.dropped.extend(dropped);
    let converters = Converters::new();
    let (len, stride) = (records.len(), records.extent().stride);
    for start in (0..len).step_by(AT_ONCE) {
        let range = start..len.min(start + AT_ONCE as u64);
        let done = (range.end - range.start).saturating_mul(stride);
        dataset.migrate(records, range, &plan, &converters)?;
        work.advance(done)?;
    }
    report.records += len;
    Ok(dataset)
}

/// Records between two steps of the progress.
const AT_ONCE: usize = 1 << 14;

/// A path in the records of a dataset, with its name before it or not; `None` where it is in another.
fn within(text: &str, name: &str) -> holdall::Result<Option<Way>> {
    let path: Way = text.parse()?;
    let name: Way = name.parse().unwrap_or_else(|_| Way(vec![Segment::Name(name.into())]));
    let own = path.0.strip_prefix(&name.0[..]).and_then(|rest| rest.strip_prefix(&[Segment::Each]));
    Ok(match own {
        Some(own) => Some(Way(own.to_vec())),
        None if text.contains("[].") => None,
        None => Some(path),
    })
}

fn tell(
    session: &Session,
    file: &File,
    args: &MigrateArgs,
    report: &Report,
) -> Result<(), Failure> {
    let target = args.output.display().to_string();
    if session.json() {
        let mut out = String::from("{\"source\":");
        push_string(file.name(), &mut out);
        out.push_str(",\"target\":");
        push_string(&target, &mut out);
        out.push_str(&format!(",\"records\":{},\"dropped\":[", report.records));
        for (at, path) in report.dropped.iter().enumerate() {
            out.push_str(if at > 0 { "," } else { "" });
            push_string(path, &mut out);
        }
        writeln!(session.out(), "{out}],\"target_len\":{}}}", report.len)?;
        return Ok(());
    }
    let mut text = format!(
        "{}: {} under the new schema, {}",
        escape(&target),
        count(report.records, "record"),
        Size(report.len)
    );
    if !report.dropped.is_empty() {
        let dropped: Vec<String> =
            report.dropped.iter().map(|p| format!("`{}`", escape(p))).collect();
        text.push_str(&format!("; left out: {}", dropped.join(", ")));
    }
    session.note(text);
    Ok(())
}
