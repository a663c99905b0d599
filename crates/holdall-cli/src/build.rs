//! `holdall build`: makes a file of records and blobs from data in other formats.

use crate::exit::{ARGUMENTS, Failure, Status};
use crate::given::{self, Files, Lenience, RecordFormArg};
use crate::input;
use crate::output::as_json;
use crate::output::text::{Grouped, Size, count, escape_path, versioned};
use crate::schema::read;
use crate::session::Session;
use crate::writing::{self, Writing};
use clap::Args;
use holdall::fields;
use holdall::formats;
use holdall::plain::Plain;
use holdall::records::rules::WHICH_CONTENT;
use holdall::records::{BlobWriter, Build, DatasetWriter, Rows};
use holdall::schema::{Content, Reading};
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Make a file from records (NDJSON, CSV, Parquet) and from files in a folder
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall build --schema point.json --records points.ndjson -o points.mt
  holdall build --schema s.json --records photos.csv --files images --file-member image -o photos.mt
  holdall build --files images --blob images -o images.mt      every file of a folder, with its name
  holdall build --runs texts.ndjson --blob texts --content utf-8 -o texts.mt
  holdall build --records points.parquet -o points.mt          under the types of its columns
  zcat big.ndjson.gz | holdall build --schema s.json --records - -o big.zt

Records are lines of JSON (NDJSON), one JSON array (.json), a table with names in its first line \
(.csv, .tsv), or columns (.parquet, .arrow), written one after the other in bounded memory; the disk \
needs room for the data twice while it is made. The file appears when it is whole. What does not fit the schema ends the build with \
its line and its path; `holdall schema check` lists all of it.")]
pub(crate) struct BuildArgs {
    /// The schema of a record, or of the whole file (JSON) [default: for columns, made from their types]
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) schema: Option<PathBuf>,

    /// The records, or `-` for JSON lines from standard input
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,

    /// The path of the records in the file [default: the only dataset of the schema, or `records`]
    #[arg(short, long, value_name = "PATH", requires = "records")]
    path: Option<String>,

    #[command(flatten)]
    files: Files,

    /// Make a blob of this name: from --runs, or from every file of --files, with their names in NAME_names
    #[arg(long, value_name = "NAME")]
    blob: Option<String>,

    /// The entries of the blob, one JSON value on each line, or `-` for standard input: a string, base64, any JSON,
    /// or a list of numbers, depending on --content
    #[arg(long, value_name = "FILE", requires = "blob")]
    runs: Option<PathBuf>,

    /// The type of the blob's content: utf-8, json, bytes, or numbers of a type such as F32 [default: the schema's;
    /// bytes for files]
    #[arg(long, value_name = "CONTENT", requires = "blob", value_parser = content)]
    content: Option<Content>,

    /// The format of the records: ndjson, json, csv, tsv, parquet or arrow [default: by the file's extension]
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    form: Option<RecordFormArg>,

    /// Ignore members that the schema does not have
    #[arg(long)]
    ignore_unknown: bool,

    /// Treat `null` for an optional member as absent
    #[arg(long)]
    null_absent: bool,

    /// Check every record like a validator, even if the schema has no standard keywords [default: only if it has
    /// keywords such as minimum and pattern]
    #[arg(long)]
    check: bool,

    /// Do not check records against standard keywords such as minimum and pattern
    #[arg(long, conflicts_with = "check")]
    no_check: bool,

    /// Store equal texts, bytes and arrays that are near each other only once
    #[arg(long)]
    dedup: bool,

    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// Replace OUT if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    /// The output format, with a version if wanted [default: by OUT's extension]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,

    #[command(flatten)]
    writing: Writing,
}

impl BuildArgs {
    /// Returns the arguments for a file that contains only the rows of `table`.
    pub(crate) fn for_table(
        table: &Path,
        form: RecordFormArg,
        output: &Path,
        writing: Writing,
    ) -> BuildArgs {
        BuildArgs {
            schema: None,
            records: Some(table.to_owned()),
            path: None,
            files: Files { files: None, members: Vec::new() },
            blob: None,
            runs: None,
            content: None,
            form: Some(form),
            ignore_unknown: false,
            null_absent: false,
            check: false,
            no_check: false,
            dedup: false,
            output: output.to_owned(),
            force: false,
            to: None,
            writing,
        }
    }
}

/// Builds the file.
pub(crate) fn run(session: &Session, args: &BuildArgs) -> Result<Status, Failure> {
    input::check_once(args.schema.iter().chain(&args.records).chain(&args.runs))?;
    if args.records.is_none() && args.blob.is_none() {
        let e = ARGUMENTS.broken("no records, runs or files are given");
        let hint = "name records with `--records`, or runs or files with `--blob`";
        return Err(e.with_hint(hint).into());
    }
    let takes_files = args.blob.is_some() && args.runs.is_none();
    if takes_files && args.files.files.is_none() {
        let e = ARGUMENTS.broken("`--blob` needs the content of the blob");
        return Err(e
            .with_hint("add `--runs FILE` for lines of JSON, or `--files DIR` for files")
            .into());
    }
    if args.files.files.is_some() && args.files.members.is_empty() && !takes_files {
        let e = ARGUMENTS.broken("`--files` names a folder, but not which of its files to use");
        let hint = "add `--file-member MEMBER` for the files that records name, or `--blob NAME` for all of them";
        return Err(e.with_hint(hint).into());
    }
    writing::check_is_file(&args.output)?;
    let options = args.writing.options_for_records(
        session.work("writing"),
        args.to.as_deref(),
        args.force,
    )?;
    let schema = match &args.schema {
        Some(path) => Some(read::schema(session, path, Reading::ByContent)?),
        None => None,
    };
    let rows = match &args.records {
        Some(path) => Some(given::open(session, path, args.form, session.work("reading"))?),
        None => None,
    };
    let columns = match &rows {
        Some(rows) if schema.is_none() => Some(columns(rows)?),
        _ => None,
    };
    let limits = session.global.limits().schema_limits();
    let out = writing::Output::begin(session, &args.output, args.force)?;
    let mut build = Build::create(out.path(), &options)?.with_limits(limits);
    drop(options);
    let mut report = Report::default();
    match (schema, rows) {
        (Some(schema), Some(rows)) => {
            let (begun, dataset) = build.dataset_from_document(&schema, args.path.as_deref())?;
            build = begun;
            fill(args, &mut build, dataset, rows, &mut report)?;
        }
        (Some(schema), None) => build = build.with_document(&schema)?,
        (None, Some(rows)) => {
            let kind = columns.unwrap_or_default();
            let dataset =
                build.dataset_with_schema(args.path.as_deref().unwrap_or("records"), &kind)?;
            fill(args, &mut build, dataset, rows, &mut report)?;
        }
        (None, None) => {}
    }
    if let Some(name) = &args.blob {
        blob(session, args, &mut build, name, &mut report)?;
    }
    let built = build.finish()?;
    out.publish()?;
    report.len = built.target_len;
    tell(session, &args.output, &report)?;
    Ok(Status::Fine)
}

/// The numbers of records and tensors written to the file.
#[derive(Default)]
struct Report {
    records: Option<(String, u64)>,
    files: Option<(String, u64)>,
    runs: Option<(String, u64)>,
    len: u64,
}

/// Parses the content type of a blob, in upper or lower case.
fn content(name: &str) -> Result<Content, String> {
    let found = Content::from_name(&name.to_ascii_lowercase());
    found.or_else(|| Content::from_name(&name.to_ascii_uppercase())).ok_or_else(|| {
        "a blob holds utf-8, json, bytes, or numbers of a type such as F32 or I64".to_owned()
    })
}

/// Adds the blob, from lines of JSON or from files.
fn blob(
    session: &Session,
    args: &BuildArgs,
    build: &mut Build,
    name: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    let dedup = |blob: BlobWriter| if args.dedup { blob.with_dedup() } else { blob };
    let Some(path) = &args.runs else {
        let blob = match build.blob_for(name, args.content) {
            Err(e) if e.code() == WHICH_CONTENT.code => {
                build.blob_with_content(name, Content::Bytes)
            }
            found => found,
        };
        let folder = args.files.files.as_deref().unwrap_or(Path::new("."));
        let count = build.add_files(dedup(blob?), folder, &session.work("reading"))?;
        report.files = Some((name.to_owned(), count));
        return Ok(());
    };
    let blob = build.blob_for(name, args.content).map_err(|e| match e.code() {
        code if code == WHICH_CONTENT.code => e.with_hint("add `--content`"),
        _ => e,
    });
    let mut blob = dedup(blob?);
    blob.fill(given::open(session, path, args.form, session.work("reading"))?)?;
    report.runs = Some((name.to_owned(), blob.len()));
    Ok(build.add(blob)?)
}

/// Returns the schema of a record that is a row of columns.
fn columns(rows: &Rows) -> Result<Value, Failure> {
    let Some(kind) = rows.row_schema()? else {
        let e = ARGUMENTS.broken("records in lines or tables need a `--schema` for their types");
        let hint = "`holdall schema infer FILE -o SCHEMA` infers one from the data";
        return Err(e.with_hint(hint).into());
    };
    Ok(kind)
}

/// Adds the records.
fn fill(
    args: &BuildArgs,
    build: &mut Build,
    dataset: DatasetWriter,
    rows: Rows,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut dataset = if args.dedup { dataset.with_dedup() } else { dataset };
    let lenience = Lenience { ignore_unknown: args.ignore_unknown, null_absent: args.null_absent };
    let mut options = given::fill_options(&args.files, lenience);
    if args.check {
        options = options.with_checks();
    }
    if args.no_check {
        options = options.without_checks();
    }
    dataset.fill(rows, &options).map_err(replace_advice)?;
    report.records = Some((dataset.name().to_owned(), dataset.len()));
    Ok(build.add(dataset)?)
}

/// Adds a hint with the option that may help to an error about a record.
fn replace_advice(e: holdall::Error) -> holdall::Error {
    use holdall_schema::record::rules::{RANGE, TYPE, UNKNOWN_MEMBER};
    let code = e.code();
    let hint = if code == UNKNOWN_MEMBER.code {
        "`--ignore-unknown` ignores members that the schema does not have"
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
            runs: part(&report.runs),
            target_len: report.len,
        };
        writeln!(session.out(), "{}", as_json(&fields))?;
        return Ok(());
    }
    let mut parts = vec![versioned(format, file.version())];
    if let Some((path, n)) = &report.records {
        parts.push(match path.as_str() {
            "" => count(*n, "record").to_string(),
            path => format!("{} in `{}`", count(*n, "record"), escape_path(path)),
        });
    }
    if let Some((path, n)) = &report.files {
        let s = if *n == 1 { "" } else { "s" };
        parts.push(format!("{} file{s} in `{}`", Grouped(*n), escape_path(path)));
    }
    if let Some((path, n)) = &report.runs {
        parts.push(format!("{} in `{}`", count(*n, "run"), escape_path(path)));
    }
    parts.push(Size(report.len).to_string());
    session.note(format_args!("{}: {}", escape_path(&target), parts.join(", ")));
    Ok(())
}
