//! The table of tensors, and the plain lines for scripts.

use super::stats;
use crate::exit::Failure;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{Size, escape, escape_path, printable, shape, tensor_type};
use crate::session::Session;
use holdall::stats::Stats;
use holdall::{Digest, Group, Layout, Tensor, groups};
use std::borrow::Cow;
use std::io::Write as _;

/// Titles of the columns that did not fit in the terminal.
pub(super) type DroppedColumns = Vec<Cow<'static, str>>;

/// Prints a table with a row for each tensor, or for each group of repeated layers.
pub(super) fn table(
    session: &Session,
    tensors: &[Tensor],
    group: bool,
) -> Result<DroppedColumns, Failure> {
    if tensors.is_empty() {
        return Ok(DroppedColumns::new());
    }
    let columns = [
        Column::left("name").cut(),
        Column::left("dtype"),
        Column::left("shape").cut_end(),
        Column::right("size"),
        Column::left("layout").dropped(2),
        Column::left("encoding").dropped(1),
        Column::left("digest").dropped(0),
    ];
    let groups = if group { groups(tensors) } else { Vec::new() };
    let rows = if group { groups.len() } else { tensors.len() };
    let row = |at: usize| match groups.get(at) {
        Some(group) if group.members.len() > 1 => group_row(tensors, group),
        Some(group) => row(&tensors[group.members[0]]),
        None => row(&tensors[at]),
    };
    let (width, paint) = (session.width(), session.paint());
    Ok(table::write(&mut *session.out(), &columns, rows, &row, 2, width, paint)?)
}

/// Prints a table with the statistics of each tensor.
pub(super) fn stats_table(
    session: &Session,
    tensors: &[Tensor],
    all: &[Option<Stats>],
) -> Result<DroppedColumns, Failure> {
    let mut columns =
        vec![Column::left("name").cut(), Column::left("dtype"), Column::left("shape").dropped(1)];
    columns.extend(stats::columns());
    let row = |at: usize| {
        let t = &tensors[at];
        let mut cells =
            vec![Cell::new(escape(t.name())), type_cell(t), Cell::new(shape(t.shape()))];
        cells.extend(stats::cells(all[at].as_ref()));
        cells
    };
    let (width, paint) = (session.width(), session.paint());
    Ok(table::write(&mut *session.out(), &columns, tensors.len(), &row, 2, width, paint)?)
}

fn type_cell(t: &Tensor) -> Cell {
    Cell::styled(tensor_type(t), if t.fault().is_some() { Style::Bad } else { Style::Type })
}

fn row(t: &Tensor) -> Vec<Cell> {
    vec![
        Cell::new(escape(t.name())),
        type_cell(t),
        Cell::new(shape(t.shape())),
        Cell::new(if t.fault().is_some() {
            "-".to_owned()
        } else {
            Size(t.stored_len()).to_string()
        }),
        Cell::new(layout(t.layout())),
        Cell::new(encoding(t)),
        Cell::styled(digest(t, false), Style::Dim),
    ]
}

/// Returns the row for a group of tensors with the same dtype, shape and layout.
fn group_row(tensors: &[Tensor], group: &Group) -> Vec<Cell> {
    let members = || group.members.iter().map(|&at| &tensors[at]);
    let first = &tensors[group.members[0]];
    let mut out = row(first);
    let count = group.members.len();
    out[0] = Cell::styled(printable(&group.name), Style::Group).with_suffix(format!(" ×{count}"));
    let len = first.stored_len();
    if members().all(|t| t.stored_len() == len) {
        out[3] = Cell::new(format!("{count} × {}", Size(len)));
    } else {
        out[3] = Cell::new(format!(
            "{count} × ~{}",
            Size(members().map(|t| t.stored_len()).sum::<u64>() / count as u64)
        ));
    }
    let own = encoding(first);
    out[5] = Cell::new(if members().all(|t| encoding(t) == own) { own } else { "mixed" });
    let own = algorithm(first);
    let same = members().all(|t| algorithm(t) == own);
    out[6] = Cell::styled(if same { own } else { "mixed" }, Style::Dim);
    out
}

fn layout(layout: &Layout) -> Cow<'static, str> {
    match layout {
        Layout::Dense => "dense".into(),
        other => escape(other.as_str()).into(),
    }
}

/// Returns the encoding of a tensor's components; `mixed` if they differ.
fn encoding(t: &Tensor) -> &'static str {
    let mut all = t.components().map(|c| c.encoding.as_str());
    let Some(first) = all.next() else { return "-" };
    if all.all(|e| e == first) { first } else { "mixed" }
}

/// Returns the digest of a tensor's only component; if it has several, their algorithm.
fn digest(t: &Tensor, whole: bool) -> Cow<'static, str> {
    let mut all = t.components();
    match (all.next().and_then(|c| c.digest), all.next()) {
        (Some(digest), None) => short_digest(&digest, whole).into(),
        _ => algorithm(t).into(),
    }
}

/// Returns the digest algorithm of a tensor's components; `mixed` if they differ.
fn algorithm(t: &Tensor) -> &'static str {
    let mut all = t.components().map(|c| match c.digest {
        None => "-",
        Some(digest) => digest.algorithm().map_or("unknown", |a| a.as_str()),
    });
    let first = all.next().unwrap_or("-");
    if all.all(|name| name == first) { first } else { "mixed" }
}

/// Formats a digest. SHA-256 is shortened unless `whole` is set.
fn short_digest(digest: &Digest, whole: bool) -> String {
    let text = digest.to_string();
    match digest {
        Digest::Sha256(_) if !whole => format!("{}…", &text[..15]),
        _ => escape(&text),
    }
}

/// Prints a line of tab-separated fields for each tensor. If there is a `source`, it is the first field.
pub(super) fn plain(
    session: &Session,
    tensors: &[Tensor],
    source: Option<&str>,
) -> Result<(), Failure> {
    let out = &mut *session.out();
    for t in tensors {
        if let Some(source) = source {
            write!(out, "{}\t", escape_path(source))?;
        }
        let offset = t.components().map(|c| c.stored).min().map(|stored| stored.start);
        writeln!(
            out,
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            escape(t.name()),
            tensor_type(t),
            shape(t.shape()),
            t.stored_len(),
            layout(t.layout()),
            encoding(t),
            digest(t, true),
            offset.map_or("-".to_owned(), |o| o.to_string()),
        )?;
    }
    Ok(())
}
