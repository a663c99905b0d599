//! `holdall scan`.

use crate::exit::{Failure, Status};
use crate::input::{self, STDIN, StandardInput};
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{count, escape, escape_path, printable};
use crate::session::Session;
use clap::Args;
use holdall::fields;
use holdall::plain::ToPlain as _;
use holdall::scan::{Import, Pickle, ScanReport, Verdict, scan_source};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Show what unpickling would import and call, in files, folders, zips and tar archives; nothing is run
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall scan model.pt                        status 0: safe or no pickles, 1: unsafe, 4: unknown
  holdall scan downloads --quiet               print only what is not safe
  holdall scan model.pt --json | jq '.pickles[].imports[].module'

Safe means that all bytes a loader could unpickle were analysed completely. Only names in a list of \
constructors of tensors and plain values are safe. Others are dangerous if they are known to run code, otherwise \
suspicious.")]
pub(crate) struct ScanArgs {
    /// Files or folders, or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Scans each file.
pub(crate) fn run(session: &Session, args: &ScanArgs) -> Result<Status, Failure> {
    input::check_once(&args.files)?;
    session.each(&args.files, |path| {
        let report = scanned(session, path)?;
        let name = match path.as_os_str() == "-" {
            true => STDIN.to_owned(),
            false => path.display().to_string(),
        };
        if session.json() {
            let fields = fields!(source: name.as_str()).and(report.to_plain());
            writeln!(session.out(), "{}", as_json(&fields))?;
        } else {
            text(session, &name, &report)?;
        }
        Ok(match report.verdict() {
            Verdict::NoPickles | Verdict::Safe => Status::Fine,
            Verdict::Unknown => Status::Incomplete,
            _ => Status::Bad,
        })
    })
}

fn scanned(session: &Session, path: &Path) -> Result<ScanReport, Failure> {
    let work = session.work("scanning");
    if path.as_os_str() != "-" {
        return Ok(holdall::scan(path, &input::options(session), &work)?);
    }
    let (StandardInput::File(source) | StandardInput::Memory(source)) = input::standard(session)?;
    Ok(scan_source(&source, STDIN, &session.global.limits(), &work)?)
}

fn text(session: &Session, name: &str, report: &ScanReport) -> Result<(), Failure> {
    let quiet = session.global.quiet;
    let paint = session.paint();
    for pickle in &report.pickles {
        if !quiet || pickle.verdict != Verdict::Safe {
            print_pickle(session, pickle)?;
        }
    }
    let out = &mut *session.out();
    for e in &report.unread {
        let what = paint.styled("not looked into:", Style::Warn);
        writeln!(out, "{what} {}", printable(&e.to_string()))?;
    }
    if quiet {
        return Ok(());
    }
    let verdict = report.verdict();
    let verdict = paint.styled(words(verdict), style(verdict));
    let found = count(report.pickles.len() as u64, "pickle");
    let files = count(report.files, "file");
    writeln!(out, "{verdict}: {}, {found} in {files}", escape_path(name))?;
    Ok(())
}

/// Prints a pickle and its imports.
fn print_pickle(session: &Session, pickle: &Pickle) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    let source = paint.styled(escape_path(&pickle.source), Style::Title);
    let location = match (pickle.inner, pickle.offset) {
        (true, at) => format!(", in a value at byte {at}"),
        (false, 0) => String::new(),
        (false, at) => format!(", at byte {at}"),
    };
    let verdict = paint.styled(words(pickle.verdict), style(pickle.verdict));
    writeln!(out, "{source}{location}: {verdict}")?;
    let row = |at: usize| {
        let Import { module, name, danger, called, .. } = &pickle.imports[at];
        vec![
            Cell::styled(words(*danger), style(*danger)),
            Cell::new(if *called { "called" } else { "imported" }),
            Cell::new(escape(&format!("{module}.{name}"))),
        ]
    };
    let columns = [Column::left("verdict"), Column::left("use"), Column::left("name").cut()];
    if !pickle.imports.is_empty() {
        table::write(out, &columns, pickle.imports.len(), &row, 2, session.width(), paint)?;
    }
    if let Some(e) = &pickle.broken {
        writeln!(out, "  {} {}", paint.styled("broken:", Style::Warn), printable(&e.to_string()))?;
    }
    Ok(())
}

fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unknown => "cannot be determined",
        other => other.as_str(),
    }
}

fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::NoPickles | Verdict::Safe => Style::Good,
        Verdict::Unknown => Style::Warn,
        _ => Style::Bad,
    }
}
