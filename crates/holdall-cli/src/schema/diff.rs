//! `holdall schema diff`.

use super::read;
use crate::exit::{Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{Grouped, escape, escape_path, printable};
use crate::session::Session;
use clap::Args;
use holdall::diff::{SchemaDiff, diff_schemas};
use holdall::fields;
use holdall::plain::Plain;
use holdall::schema::{Bump, Change, ChangeKind, Document, Reading, Verdict};
use std::io::Write as _;
use std::path::PathBuf;

/// Compare two schemas: what changed, and whether old files can still be read
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema diff v1.json v2.json                exit status 0: the same, 1: they differ
  holdall schema diff v1.json v2.json --compatible   0 also if the new one can read old files
  holdall schema diff old.mt new.mt --path points    the records of two files

Verdicts: compatible (old files can be read unchanged), needs-default, needs-converter, breaking. The \
version step is patch, minor or major.")]
pub(crate) struct DiffArgs {
    /// A schema (JSON), a tensor file, or `-` for standard input
    #[arg(value_name = "OLD")]
    old: PathBuf,

    /// The schema or file to compare it with, or `-`
    #[arg(value_name = "NEW")]
    new: PathBuf,

    /// Compare the records at this path, if a side is a file or describes one
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// List compatible changes without letting them affect the exit status
    #[arg(long)]
    compatible: bool,
}

/// Compares two schemas.
pub(crate) fn run(session: &Session, args: &DiffArgs) -> Result<Status, Failure> {
    input::check_once([&args.old, &args.new])?;
    let limits = session.global.limits().schema_limits();
    let given = |file: &PathBuf| read::given(session, file, Reading::ByContent);
    let (old, new) = (given(&args.old)?, given(&args.new)?);
    let SchemaDiff { old, new, changes, .. } =
        diff_schemas(old, new, args.path.as_deref(), &limits)?;
    if session.json() {
        writeln!(session.out(), "{}", json(&old, &new, &changes))?;
    } else if !session.global.quiet {
        text(session, &old, &new, &changes)?;
    }
    let counts = |c: &&Change| !args.compatible || c.verdict > Verdict::Compatible;
    Ok(if changes.iter().any(|c| counts(&c)) { Status::Bad } else { Status::Fine })
}

fn text(
    session: &Session,
    old: &Document,
    new: &Document,
    changes: &[Change],
) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    let names = format!("{} and {}", escape_path(&old.name), escape_path(&new.name));
    if changes.is_empty() {
        writeln!(out, "{} {names}", paint.styled("same:", Style::Good))?;
        return Ok(());
    }
    let columns = [
        Column::left(""),
        Column::left("path").cut(),
        Column::left("change"),
        Column::left("verdict"),
        Column::left("difference").cut_end(),
    ];
    let row = |at: usize| {
        let change = &changes[at];
        let style = style(change.verdict);
        let mark = match change.what {
            ChangeKind::Added | ChangeKind::VariantAdded => "+",
            ChangeKind::Removed | ChangeKind::VariantRemoved => "-",
            _ => "~",
        };
        let path = match change.path.is_root() {
            true => "(root)".to_owned(),
            false => printable(&change.path.to_string()),
        };
        vec![
            Cell::styled(mark, style),
            Cell::styled(path, style),
            Cell::new(change.what.as_str()),
            Cell::styled(change.verdict.as_str(), style),
            Cell::new(difference(change)),
        ]
    };
    table::write(out, &columns, changes.len(), &row, 0, session.width(), paint)?;
    let mut parts = Vec::new();
    for verdict in
        [Verdict::Breaking, Verdict::NeedsConverter, Verdict::NeedsDefault, Verdict::Compatible]
    {
        let n = changes.iter().filter(|c| c.verdict == verdict).count();
        if n > 0 {
            parts.push(format!("{} {}", Grouped(n as u64), verdict.as_str()));
        }
    }
    writeln!(
        out,
        "\n{} {names}: {}; version step: {}",
        paint.styled("differ:", Style::Bad),
        parts.join(", "),
        Bump::for_changes(changes).as_str()
    )?;
    Ok(())
}

fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Compatible => Style::Plain,
        Verdict::NeedsDefault | Verdict::NeedsConverter => Style::Warn,
        Verdict::Breaking => Style::Bad,
    }
}

/// Describes a change: `Int32 → Int64`, the values of an enum.
fn difference(change: &Change) -> String {
    let mut parts = Vec::new();
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => parts.push(format!("{} → {}", printable(old), printable(new))),
        (Some(one), None) | (None, Some(one)) => parts.push(printable(one)),
        (None, None) => {}
    }
    if !change.values.is_empty() {
        let values: Vec<String> = change.values.iter().map(|v| escape(v)).collect();
        parts.push(values.join(", "));
    }
    parts.join(": ")
}

fn json(old: &Document, new: &Document, changes: &[Change]) -> String {
    let fields = fields! {
        old: &old.name,
        new: &new.name,
        same: changes.is_empty(),
        compatible: changes.iter().all(|c| c.verdict == Verdict::Compatible),
        bump: Bump::for_changes(changes).as_str(),
        changes: Plain::list(changes.iter().map(|change| change_json(change))),
    };
    as_json(&fields)
}

/// Returns the JSON of a change; missing sides and values are omitted.
fn change_json(change: &Change) -> Plain<'_> {
    let mut out = fields! {
        path: change.path.to_string(),
        change: change.what.as_str(),
        verdict: change.verdict.as_str(),
    };
    if let Some(old) = &change.old {
        out = out.and(fields!(old: &**old));
    }
    if let Some(new) = &change.new {
        out = out.and(fields!(new: &**new));
    }
    if !change.values.is_empty() {
        out = out.and(fields!(values: Plain::list(change.values.iter().map(|v| &**v))));
    }
    out
}
