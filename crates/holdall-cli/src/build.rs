//! `holdall build`: a file of records and blobs, from what people have.

use crate::exit::{ARGUMENTS, Failure, Status};
use crate::given::{self, Files, Form, Lenience};
use crate::input;
use crate::output::as_json;
use crate::output::text::{Grouped, Size, count, escape};
use crate::schema::read;
use crate::session::Session;
use crate::writing::{self, Writing};
use clap::Args;
use holdall::fields;
use holdall::formats;
use holdall::plain::Plain;
use holdall::records::Build;
use holdall::schema::{Document, Reading};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Make a file of records (NDJSON, CSV) and of files in a folder
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall build --schema point.json --records points.ndjson -o points.mt
  holdall build --schema photo.json --records photos.csv --files images --file-member image -o out.mt
  holdall build --files images --blob images -o images.mt      every file of a folder, with its name
  zcat big.ndjson.gz | holdall build --schema s.json --records - -o big.zt

Records are lines of JSON (NDJSON), one JSON array (.json), or a table with names in its first line
(.csv, .tsv), written one after the other in bounded memory; the disk needs room for the data twice
while it is made. The file appears when it is whole. What does not fit the schema ends the build with
its line and its path; `holdall schema check` lists all of it.")]
pub(crate) struct BuildArgs {
    /// The schema of a record, or of the whole file (JSON)
    #[arg(long, value_name = "SCHEMA")]
    schema: Option<PathBuf>,

    /// The records, or `-` for lines of JSON from standard input
    #[arg(long, value_name = "FILE", requires = "schema")]
    records: Option<PathBuf>,

    /// Where the records stand in the file [default: the one dataset of the schema, or `records`]
    #[arg(short, long, value_name = "PATH", requires = "records")]
    path: Option<String>,

    #[command(flatten)]
    files: Files,

    /// Put every file of --files into a blob of this name, and their names into NAME_names
    #[arg(long, value_name = "NAME", requires = "files")]
    blob: Option<String>,

    /// How the records are written: ndjson, json, csv or tsv [default: as the extension says]
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    form: Option<Form>,

    /// Pass over members that the schema does not have
    #[arg(long)]
    ignore_unknown: bool,

    /// Take `null` for an optional member as its absence
    #[arg(long)]
    null_absent: bool,

    /// Check every record against all keywords of the schema (minimum, pattern and the like) too
    #[arg(long)]
    check: bool,

    /// Let equal texts, bytes and arrays that come near each other share their bytes
    #[arg(long)]
    dedup: bool,

    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// Replace OUT if it is there
    #[arg(short, long)]
    force: bool,

    /// The format, perhaps with a version [default: as the extension of OUT says]
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,

    #[command(flatten)]
    writing: Writing,
}

/// Builds.
pub(crate) fn run(session: &Session, args: &BuildArgs) -> Result<Status, Failure> {
    input::check_once(args.schema.iter().chain(&args.records))?;
    if args.records.is_none() && args.blob.is_none() {
        let e = ARGUMENTS.broken("nothing to put into the file");
        return Err(e.with_hint("name records with `--records`, or files with `--blob`").into());
    }
    if args.files.files.is_some() && args.files.members.is_empty() && args.blob.is_none() {
        let e =
            ARGUMENTS.broken("`--files` says where files are, and nothing says which are wanted");
        let hint = "`--file-member MEMBER` takes those that records name, `--blob NAME` all";
        return Err(e.with_hint(hint).into());
    }
    writing::check_is_file(&args.output)?;
    let options =
        args.writing.of_records(session.work("writing"), args.to.as_deref(), args.force)?;
    let schema = match &args.schema {
        Some(path) => Some(read::schema(session, path, Reading::ByContent)?),
        None => None,
    };
    let limits = session.global.limits().of_schemas();
    let mut build = Build::create(&args.output, &options)?.with_limits(limits);
    drop(options);
    let mut report = Report::default();
    if let (Some(schema), Some(path)) = (schema, &args.records) {
        build = dataset(session, args, build, schema, path, &mut report)?;
    }
    if let (Some(name), Some(folder)) = (&args.blob, &args.files.files) {
        let count = build.add_files(name, folder, &session.work("reading"))?;
        report.files = Some((name.clone(), count));
    }
    let built = build.finish()?;
    report.len = built.target_len;
    tell(session, &args.output, &report)?;
    Ok(Status::Fine)
}

/// What was put into the file.
#[derive(Default)]
struct Report {
    records: Option<(String, u64)>,
    files: Option<(String, u64)>,
    len: u64,
}

/// Adds the records.
fn dataset(
    session: &Session,
    args: &BuildArgs,
    build: Build,
    schema: Document,
    path: &Path,
    report: &mut Report,
) -> Result<Build, Failure> {
    let (mut build, dataset) = build.dataset_for(&schema, args.path.as_deref())?;
    let mut dataset = if args.dedup { dataset.with_dedup() } else { dataset };
    let lenience = Lenience { ignore_unknown: args.ignore_unknown, null_absent: args.null_absent };
    let mut options = given::fill_options(&args.files, lenience);
    if args.check {
        options = options.with_checks();
    }
    let rows = given::open(session, path, args.form, session.work("reading"))?;
    dataset.fill(rows, &options).map_err(advised)?;
    report.records = Some((dataset.name().to_owned(), dataset.len()));
    build.add(dataset)?;
    Ok(build)
}

/// An error about a record, with the option that may be what is wanted.
fn advised(e: holdall::Error) -> holdall::Error {
    use holdall_schema::record::rules::{RANGE, TYPE, UNKNOWN_MEMBER};
    let code = e.code();
    let hint = if code == UNKNOWN_MEMBER.code {
        "`--ignore-unknown` passes over members that the schema does not have"
    } else if code == RANGE.code || code == TYPE.code {
        "`holdall schema check` lists everything that does not fit"
    } else {
        return e;
    };
    if e.hint().is_some() || !e.remedies().is_empty() { e } else { e.with_hint(hint) }
}

fn tell(session: &Session, target: &Path, report: &Report) -> Result<(), Failure> {
    let target = target.display().to_string();
    let file = input::options(session).open(&target)?;
    let format = formats::by_name(file.format()).map_or(file.format(), |f| f.name);
    if session.json() {
        let part = |part: &Option<(String, u64)>| match part {
            Some((path, count)) => fields!(path: path.clone(), count: *count),
            None => Plain::Null,
        };
        let fields = fields! {
            target: &target,
            format: file.format(),
            version: file.version(),
            records: part(&report.records),
            files: part(&report.files),
            target_len: report.len,
        };
        writeln!(session.out(), "{}", as_json(&fields))?;
        return Ok(());
    }
    let mut parts = vec![format!("{format} {}", file.version()).trim_end().to_owned()];
    if let Some((path, n)) = &report.records {
        parts.push(match path.as_str() {
            "" => count(*n, "record").to_string(),
            path => format!("{} in `{}`", count(*n, "record"), escape(path)),
        });
    }
    if let Some((path, n)) = &report.files {
        let s = if *n == 1 { "" } else { "s" };
        parts.push(format!("{} file{s} in `{}`", Grouped(*n), escape(path)));
    }
    parts.push(Size(report.len).to_string());
    session.note(format_args!("{}: {}", escape(&target), parts.join(", ")));
    Ok(())
}
