//! `holdall schema check`.

use super::read;
use crate::exit::{Failure, Status};
use crate::given::{self, Files, Lenience, RecordFormArg};
use crate::input;
use crate::output::as_json;
use crate::output::remedy::advice;
use crate::output::style::Style;
use crate::output::text::{Grouped, count, escape, escape_path, printable};
use crate::session::Session;
use clap::Args;
use holdall::fields;
use holdall::plain::Plain;
use holdall::records::{self, CheckReport, Finding, FindingLocation};
use holdall::schema::{Document, Reading};
use holdall::{Error, ErrorKind};
use std::io::Write as _;
use std::path::PathBuf;

/// Check a schema, and whether records fit it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema check point.json                   exit status 0: sound, 1: something was found
  holdall schema check point.json points.ndjson     does every line fit the schema
  holdall schema check model.json points.csv --path points
  holdall schema check model.json model.mt          does a file fit the schema
  curl … | holdall schema check point.json -        lines from a pipe

Records are lines of JSON (NDJSON), one JSON array (.json), or a table with names in its first \
line (.csv, .tsv): `at.x` names a member of a member, `v[0]` an element. Of a tensor file, the \
tensors and the records in them are checked against the schema. All records are checked; errors are reported \
with the line or the index of the record, and the path in it.")]
pub(crate) struct CheckArgs {
    /// A schema (JSON), or `-` for standard input
    #[arg(value_name = "SCHEMA")]
    schema: PathBuf,

    /// Records or a tensor file to check against the schema, or `-` for JSON lines
    #[arg(value_name = "RECORDS|FILE")]
    records: Option<PathBuf>,

    /// The dataset of the schema, or of the file, that the records belong to
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// The format of the records: ndjson, json, csv, tsv, parquet or arrow [default: by the file's extension]
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    form: Option<RecordFormArg>,

    /// Accept members that the schema does not have
    #[arg(long)]
    ignore_unknown: bool,

    /// Accept `null` for an optional member
    #[arg(long)]
    null_absent: bool,

    #[command(flatten)]
    files: Files,
}

/// Checks a schema, and records.
pub(crate) fn run(session: &Session, args: &CheckArgs) -> Result<Status, Failure> {
    input::check_once([&args.schema].into_iter().chain(&args.records))?;
    let name = input::display_name(&args.schema);
    let report = match read::schema(session, &args.schema, Reading::ByContent) {
        Ok(schema) => check(session, args, schema)?,
        // Errors of the schema are findings of this command.
        Err(Failure::Error(e)) if e.kind() == ErrorKind::Malformed => unsound(e),
        Err(e) => return Err(e),
    };
    let records = args.records.as_deref().map(input::display_name);
    if session.json() {
        writeln!(session.out(), "{}", report_json(&name, records.as_deref(), &report))?;
    } else {
        text(session, &name, records.as_deref(), &report)?;
    }
    Ok(if report.is_sound() { Status::Fine } else { Status::Bad })
}

fn check(session: &Session, args: &CheckArgs, schema: Document) -> Result<CheckReport, Failure> {
    let limits = session.global.limits().schema_limits();
    if let Err(e) = records::check_schema(&schema, &limits) {
        return Ok(unsound(e));
    }
    for pattern in records::unverified_patterns(&schema, &limits)? {
        session.warn(format_args!(
            "not verified: the pattern `{}` is not supported",
            escape(&pattern)
        ));
    }
    let Some(path) = &args.records else { return Ok(CheckReport::default()) };
    let work = session.work("checking");
    let dataset = args.path.as_deref();
    if args.form.is_none() && records::is_binary(path, &input::options(session)) {
        let file = input::open(session, path)?;
        return Ok(records::check_file(&file, &schema, dataset, &limits, &work)?);
    }
    let schema = schema.records(dataset, &limits)?;
    let lenience = Lenience { ignore_unknown: args.ignore_unknown, null_absent: args.null_absent };
    let options = given::fill_options(&args.files, lenience);
    let rows = given::open(session, path, args.form, work)?;
    Ok(records::check_rows(rows, &schema, &options, &limits)?)
}

/// Returns the report for an invalid schema.
fn unsound(e: Error) -> CheckReport {
    let mut report = CheckReport::default();
    report.add(FindingLocation::Whole, e);
    report
}

fn text(
    session: &Session,
    schema: &str,
    records: Option<&str>,
    report: &CheckReport,
) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    let bad = || paint.styled("bad:", Style::Bad);
    for e in report.findings.iter().map(|f| &f.error) {
        writeln!(out, "{} {}", bad(), printable(&e.to_string()))?;
        if let Some(hint) = advice(e) {
            writeln!(out, "{} {}", paint.styled("hint:", Style::Note), printable(&hint))?;
        }
    }
    let more = report.found - report.findings.len() as u64;
    if more > 0 {
        writeln!(out, "{} and {} more", bad(), Grouped(more))?;
    }
    if session.global.quiet {
        return Ok(());
    }
    let name = escape_path(records.unwrap_or(schema));
    let looked = match records {
        Some(_) if report.records > 0 || report.found == 0 => {
            let records = count(report.records, "record");
            let looked = match report.tensors.map(|n| count(n, "tensor")) {
                Some(tensors) if report.records == 0 => tensors,
                Some(tensors) => format!("{tensors} and {records}"),
                None => records,
            };
            format!(", {looked} of {}", escape_path(schema))
        }
        _ => String::new(),
    };
    if report.found == 0 {
        writeln!(
            out,
            "{} {}{looked}",
            paint.styled("sound:", Style::Good),
            paint.styled(name, Style::Title)
        )?;
    } else {
        let found = count(report.found, "finding");
        writeln!(out, "{} {}{looked}: {found}", bad(), paint.styled(name, Style::Title))?;
    }
    Ok(())
}

fn report_json(schema: &str, records: Option<&str>, report: &CheckReport) -> String {
    let fields = fields! {
        schema: schema,
        records: records,
        sound: report.found == 0,
        tensors: report.tensors,
        count: report.records,
        finding_count: report.found,
        findings: Plain::list(report.findings.iter().map(finding)),
    };
    as_json(&fields)
}

fn finding(finding: &Finding) -> Plain<'_> {
    let (line, record) = match finding.location {
        FindingLocation::Line(line) => (Some(line), None),
        FindingLocation::Record(index) => (None, Some(index)),
        _ => (None, None),
    };
    fields!(line: line, record: record, error: &finding.error)
}
