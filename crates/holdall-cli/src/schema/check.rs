//! `holdall schema check`.

use super::read::{self, Named, Reading};
use crate::exit::{Failure, Status};
use crate::given::{self, Columns, Form, Rows, at_line};
use crate::input;
use crate::output::json::{push_error, push_optional, push_string};
use crate::output::style::Style;
use crate::output::text::{Grouped, count, escape, printable};
use crate::progress::Bar;
use crate::session::Session;
use clap::Args;
use holdall::{Error, Kind};
use holdall_schema::record::{Null, Unknown};
use holdall_schema::{Checker, Encoder, SchemaLimits, TypeId, json};
use serde_json::Value;
use std::io::Write as _;
use std::path::PathBuf;

/// Say whether a schema is sound, and whether records fit it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema check point.json                   exit status 0: sound, 1: something was found
  holdall schema check point.json points.ndjson     is every line a record of it
  holdall schema check model.json points.csv --path points
  curl … | holdall schema check point.json -        lines from a pipe

Records are lines of JSON (NDJSON), one JSON array (.json), or a table with names in its first
line (.csv, .tsv): `at.x` names a member of a member, `v[0]` an element. Every record is looked at;
what is wrong is told with its line and its path in the record.")]
pub(crate) struct CheckArgs {
    /// A schema (JSON), or `-` for standard input
    #[arg(value_name = "SCHEMA")]
    schema: PathBuf,

    /// Records that should fit it, or `-`
    #[arg(value_name = "RECORDS")]
    records: Option<PathBuf>,

    /// Which dataset of the schema the records are of, where it describes a file
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// How the records are written: ndjson, json, csv or tsv [default: as the extension says]
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    form: Option<Form>,

    /// Members that the schema does not have are no findings
    #[arg(long)]
    ignore_unknown: bool,

    /// `null` for an optional member is no finding
    #[arg(long)]
    null_absent: bool,
}

/// Findings that are kept; all are counted.
const MOST: usize = 1000;

#[derive(Default)]
struct Report {
    /// Records that were looked at.
    records: u64,
    found: u64,
    /// The first ones, each with its line.
    findings: Vec<(Option<u64>, Error)>,
}

impl Report {
    fn add(&mut self, line: Option<u64>, e: Error) {
        self.found += 1;
        if self.findings.len() < MOST {
            self.findings.push((line, e));
        }
    }
}

/// Checks.
pub(crate) fn run(session: &Session, args: &CheckArgs) -> Result<Status, Failure> {
    input::check_once([&args.schema].into_iter().chain(&args.records))?;
    let mut report = Report::default();
    let name = input::shown(&args.schema);
    match read::schema(session, &args.schema, Reading::ByContent) {
        Ok(named) => {
            let limits = read::schema_limits(&session.global.limits());
            if let Err(e) = Checker::new(&named.schema, &named.json, &limits) {
                report.add(None, e.in_source(&name));
            } else if let Some(records) = &args.records {
                let named = named.records(args.path.as_deref(), &limits)?;
                check(session, args, records, &named, &limits, &mut report)?;
            }
        }
        // What is wrong with the schema is what was asked for.
        Err(Failure::Error(e)) if e.kind() == Kind::Malformed => report.add(None, e),
        Err(e) => return Err(e),
    }
    let records = args.records.as_deref().map(input::shown);
    if session.json() {
        writeln!(session.out(), "{}", report_json(&name, records.as_deref(), &report))?;
    } else {
        text(session, &name, records.as_deref(), &report)?;
    }
    Ok(if report.found == 0 { Status::Fine } else { Status::Bad })
}

/// Checks the records of a file.
fn check(
    session: &Session,
    args: &CheckArgs,
    path: &std::path::Path,
    named: &Named,
    limits: &SchemaLimits,
    report: &mut Report,
) -> Result<(), Failure> {
    let Some(ty) = named.schema.record() else { return Ok(()) };
    let bar = Bar::new(session, "checking");
    let name = input::shown(path);
    let unknown = if args.ignore_unknown { Unknown::Ignore } else { Unknown::Refuse };
    let null = if args.null_absent { Null::Absent } else { Null::Value };
    let own = |e: Error| e.in_source(&named.source);
    let mut one = One::new(named, ty, limits, (unknown, null)).map_err(own)?;
    match given::open(session, path, args.form, &bar)? {
        Rows::Json(mut texts) => {
            while let Some((line, text)) = texts.next()? {
                report.records += 1;
                if let Err(e) = one.text(text) {
                    report.add(Some(line), at_line(e, line, &name));
                }
            }
        }
        Rows::Table(mut table) => {
            let names = table.names().to_vec();
            let columns = Columns::new(&names, &named.schema, ty, unknown, limits.depth);
            let columns = columns.map_err(|e| at_line(e, 1, &name))?;
            while let Some((line, row)) = table.next()? {
                report.records += 1;
                let value = columns.value(&names, row);
                if let Err(e) = value.and_then(|value| one.value(value)) {
                    report.add(Some(line), at_line(e, line, &name));
                }
            }
        }
    }
    Ok(())
}

/// Tries records.
struct One<'s> {
    named: &'s Named,
    ty: TypeId,
    limits: &'s SchemaLimits,
    checker: Checker<'s>,
    /// Where more is taken than a schema says: what writes it as the schema does say.
    lenient: Option<Encoder<'s>>,
    record: Vec<u8>,
    heap: Vec<u8>,
}

impl One<'_> {
    fn new<'s>(
        named: &'s Named,
        ty: TypeId,
        limits: &'s SchemaLimits,
        (unknown, null): (Unknown, Null),
    ) -> holdall::Result<One<'s>> {
        let checker = Checker::new(&named.schema, &named.json, limits)?;
        let mut one =
            One { named, ty, limits, checker, lenient: None, record: Vec::new(), heap: Vec::new() };
        if unknown == Unknown::Ignore || null == Null::Absent {
            let encoder = Encoder::new(&named.schema, ty, limits)?;
            let encoder = encoder.with_unknown(unknown).with_null(null);
            let size = encoder.size();
            if size as u64 > limits.decoded_len {
                let rule = &holdall_schema::record::rules::TOO_LARGE;
                let most = limits.decoded_len;
                return Err(rule.broken(format!("a record of {size} bytes, over {most}")));
            }
            one.record = vec![0; size];
            one.lenient = Some(encoder);
        }
        Ok(one)
    }

    fn text(&mut self, text: &[u8]) -> holdall::Result<()> {
        self.value(json::parse(text, self.limits.depth)?)
    }

    fn value(&mut self, value: Value) -> holdall::Result<()> {
        let Some(encoder) = &mut self.lenient else { return self.checker.one_record(value) };
        self.heap.clear();
        encoder.value(&value, &mut self.record, &mut self.heap)?;
        let schema = &self.named.schema;
        let value = schema.record_value(self.ty, &self.record, &self.heap, self.limits)?;
        self.checker.one_record(value)
    }
}

fn text(
    session: &Session,
    schema: &str,
    records: Option<&str>,
    report: &Report,
) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    let bad = || paint.on("bad:", Style::Bad);
    for (_, e) in &report.findings {
        writeln!(out, "{} {}", bad(), printable(&e.to_string()))?;
        if let Some(hint) = e.hint() {
            writeln!(out, "{} {}", paint.on("hint:", Style::Note), printable(hint))?;
        }
    }
    let more = report.found - report.findings.len() as u64;
    if more > 0 {
        writeln!(out, "{} and {} more", bad(), Grouped(more))?;
    }
    if session.global.quiet {
        return Ok(());
    }
    let name = escape(records.unwrap_or(schema));
    let looked = match records {
        Some(_) if report.records > 0 || report.found == 0 => {
            format!(", {} of {}", count(report.records, "record"), escape(schema))
        }
        _ => String::new(),
    };
    if report.found == 0 {
        writeln!(
            out,
            "{} {}{looked}",
            paint.on("sound:", Style::Good),
            paint.on(name, Style::Title)
        )?;
    } else {
        let found = count(report.found, "finding");
        writeln!(out, "{} {}{looked}: {found}", bad(), paint.on(name, Style::Title))?;
    }
    Ok(())
}

fn report_json(schema: &str, records: Option<&str>, report: &Report) -> String {
    let mut out = String::from("{\"schema\":");
    push_string(schema, &mut out);
    out.push_str(",\"records\":");
    push_optional(records, &mut out);
    let Report { records, found, findings } = report;
    out.push_str(&format!(
        ",\"sound\":{},\"count\":{records},\"finding_count\":{found},\"findings\":[",
        *found == 0
    ));
    for (at, (line, e)) in findings.iter().enumerate() {
        out.push_str(if at > 0 { ",{\"line\":" } else { "{\"line\":" });
        match line {
            Some(line) => out.push_str(&line.to_string()),
            None => out.push_str("null"),
        }
        out.push_str(",\"error\":");
        push_error(e, &mut out);
        out.push('}');
    }
    out.push_str("]}");
    out
}
