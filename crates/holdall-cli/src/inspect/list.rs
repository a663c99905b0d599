//! The table of tensors, and the plain lines for scripts.

use crate::exit::Failure;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{Size, escape, shape, tensor_type};
use crate::session::Session;
use holdall::{Digest, Layout, Tensor};
use std::borrow::Cow;
use std::io::Write as _;

/// Writes a table with a row for each tensor, or for each run of repeated layers.
pub(super) fn table(session: &Session, tensors: &[Tensor], group: bool) -> Result<(), Failure> {
    if tensors.is_empty() {
        return Ok(());
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
    let _ = group;
    let row = |at: usize| row(&tensors[at]);
    let (width, paint) = (session.width(), session.paint());
    table::write(&mut *session.out(), &columns, tensors.len(), &row, 2, width, paint)?;
    Ok(())
}

fn row(t: &Tensor) -> Vec<Cell> {
    vec![
        Cell::new(escape(t.name())),
        Cell::styled(tensor_type(t), Style::Type),
        Cell::new(shape(t.shape())),
        Cell::new(Size(t.stored_len()).to_string()),
        Cell::new(layout(t.layout())),
        Cell::new(encoding(t)),
        Cell::styled(digest(t, false), Style::Dim),
    ]
}

fn layout(layout: &Layout) -> Cow<'static, str> {
    match layout {
        Layout::Dense => "dense".into(),
        other => escape(other.as_str()).into(),
    }
}

/// The encoding of a tensor's components: `mixed` when they differ.
fn encoding(t: &Tensor) -> &'static str {
    let mut all = t.components().map(|c| c.encoding.as_str());
    let Some(first) = all.next() else { return "-" };
    if all.all(|e| e == first) { first } else { "mixed" }
}

/// The digest of a tensor's only component; of several, what they have in common.
fn digest(t: &Tensor, whole: bool) -> Cow<'static, str> {
    let mut all = t.components().map(|c| c.digest);
    let (first, count) = (all.next().flatten(), t.components().len());
    match first {
        Some(digest) if count == 1 => short_digest(&digest, whole).into(),
        Some(digest) => {
            let algorithm = digest.algorithm();
            let same = all.all(|d| d.is_some_and(|d| d.algorithm() == algorithm));
            match (same, algorithm) {
                (true, Some(a)) => a.as_str().into(),
                (true, None) => "unknown".into(),
                (false, _) => "mixed".into(),
            }
        }
        None if all.any(|d| d.is_some()) => "mixed".into(),
        None => "-".into(),
    }
}

/// A digest as text; SHA-256 shortened unless `whole`.
fn short_digest(digest: &Digest, whole: bool) -> String {
    let text = digest.to_string();
    match digest {
        Digest::Sha256(_) if !whole => format!("{}…", &text[..15]),
        _ => escape(&text),
    }
}

/// Writes a line for each tensor, fields separated by tabs. With `source` it is the first field.
pub(super) fn plain(
    session: &Session,
    tensors: &[Tensor],
    source: Option<&str>,
) -> Result<(), Failure> {
    let out = &mut *session.out();
    for t in tensors {
        if let Some(source) = source {
            write!(out, "{}\t", escape(source))?;
        }
        let offset = t.components().map(|c| c.stored.start).min();
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
