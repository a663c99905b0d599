//! Tables with aligned columns, shortened to the width of a terminal. In a pipe, all columns and texts are complete; an
//! unusually long text exceeds its column, rather than widening all rows.
//!
//! Rows are generated twice, to measure and to write them, so that even long tables take little memory.

use super::style::{Painter, Style};
use super::text::{columns, cut_end, cut_middle};
use std::borrow::Cow;
use std::io::{self, Write};

/// Number of spaces between two columns.
const GAP: usize = 2;
/// A column is not cut below this width while others can still be omitted.
const FLEX_MIN: usize = 56;

/// Maximum width of a column, except the last: one long name must not widen a million rows.
const WIDEST: usize = 80;

/// A column.
pub(crate) struct Column {
    title: Cow<'static, str>,
    right: bool,
    fit: Fit,
}

/// The handling of a column if the terminal is too narrow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Keep it.
    Keep,
    /// Cut its texts, in the middle or at the end.
    Cut { middle: bool },
    /// Omit it, the lowest number first.
    Drop(u8),
}

impl Column {
    /// Creates a left-aligned column, for text.
    pub(crate) fn left(title: impl Into<Cow<'static, str>>) -> Column {
        Column { title: title.into(), right: false, fit: Fit::Keep }
    }

    /// Creates a right-aligned column, for numbers.
    pub(crate) fn right(title: impl Into<Cow<'static, str>>) -> Column {
        Column { title: title.into(), right: true, fit: Fit::Keep }
    }

    /// Allows to cut the column's texts in the middle.
    pub(crate) fn cut(mut self) -> Column {
        self.fit = Fit::Cut { middle: true };
        self
    }

    /// Allows to cut the column's texts at the end.
    pub(crate) fn cut_end(mut self) -> Column {
        self.fit = Fit::Cut { middle: false };
        self
    }

    fn is_cut(&self) -> bool {
        matches!(self.fit, Fit::Cut { .. })
    }

    /// Allows to omit the column. Lower numbers are omitted first.
    pub(crate) fn dropped(mut self, order: u8) -> Column {
        self.fit = Fit::Drop(order);
        self
    }
}

/// The content of a row in a column.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: Cow<'static, str>,
    style: Style,
    /// Text after it that is never cut.
    suffix: Cow<'static, str>,
}

impl Cell {
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    pub(crate) fn styled(text: impl Into<Cow<'static, str>>, style: Style) -> Cell {
        Cell { text: text.into(), style, ..Cell::default() }
    }

    /// Appends text that is never cut.
    pub(crate) fn with_suffix(mut self, suffix: impl Into<Cow<'static, str>>) -> Cell {
        self.suffix = suffix.into();
        self
    }

    fn columns(&self) -> usize {
        columns(&self.text) + columns(&self.suffix)
    }
}

/// Prints a table of `count` rows, indented by `indent`. `row` returns the cells of a row, one per column. `width` is
/// the width of the terminal; `None` if the output is not a terminal. Returns the titles of the columns that were
/// omitted.
pub(crate) fn write(
    out: &mut dyn Write,
    all: &[Column],
    count: usize,
    row: &dyn Fn(usize) -> Vec<Cell>,
    indent: usize,
    width: Option<usize>,
    paint: Painter,
) -> io::Result<Vec<Cow<'static, str>>> {
    let mut widths: Vec<usize> = all.iter().map(|c| columns(&c.title)).collect();
    for at in 0..count {
        for (width, cell) in widths.iter_mut().zip(row(at)) {
            *width = (*width).max(cell.columns());
        }
    }
    let last = all.len().saturating_sub(1);
    let overflow = if width.is_some() { Overflow::Cut } else { Overflow::Keep };
    for (column, width) in all.iter().zip(&mut widths).take(last) {
        // On a terminal, columns that can be cut may be wider: they are shortened to fit.
        if overflow == Overflow::Keep || !column.is_cut() {
            *width = (*width).min(WIDEST);
        }
    }
    let shown = fit(all, &mut widths, width.map(|w| w.saturating_sub(indent)));
    let fitted = Fitted { shown, widths, overflow };
    let head: Vec<Cell> = all.iter().map(|c| Cell::styled(c.title.clone(), Style::Dim)).collect();
    write_row(out, all, &fitted, head, indent, paint)?;
    for at in 0..count {
        write_row(out, all, &fitted, row(at), indent, paint)?;
    }
    let left_out = all.iter().zip(&fitted.shown).filter(|(_, shown)| !**shown);
    Ok(left_out.map(|(column, _)| column.title.clone()).filter(|title| !title.is_empty()).collect())
}

/// Returns which columns are shown, and reduces `widths` to fit into `room`.
fn fit(all: &[Column], widths: &mut [usize], room: Option<usize>) -> Vec<bool> {
    let mut shown = vec![true; all.len()];
    let Some(room) = room else { return shown };
    let total = |shown: &[bool], widths: &[usize]| {
        let used = || shown.iter().zip(widths).filter(|(shown, _)| **shown);
        used().map(|(_, w)| w + GAP).sum::<usize>().saturating_sub(GAP)
    };
    // First, omit columns until those that can be cut have their minimum width.
    let flex_min = |widths: &[usize]| {
        let cut = |(c, w): (&Column, &usize)| if c.is_cut() { (*w).min(FLEX_MIN) } else { *w };
        all.iter().zip(widths).map(cut).collect::<Vec<_>>()
    };
    while total(&shown, &flex_min(widths)) > room {
        let next = all.iter().zip(&shown).enumerate().filter(|(_, (_, shown))| **shown);
        let next = next.filter_map(|(at, (c, _))| match c.fit {
            Fit::Drop(order) => Some((order, at)),
            _ => None,
        });
        let Some((_, at)) = next.min() else { break };
        shown[at] = false;
    }
    while total(&shown, widths) > room {
        let over = total(&shown, widths) - room;
        let widest = all.iter().zip(widths.iter_mut()).filter(|(c, _)| c.is_cut());
        let Some((_, widest)) = widest.max_by_key(|(_, w)| **w) else { break };
        let least = 12.min(*widest);
        if *widest == least {
            break;
        }
        *widest = widest.saturating_sub(over).max(least);
    }
    shown
}

/// The handling of a text that is wider than its column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Cut,
    Keep,
}

/// The layout of the columns.
struct Fitted {
    shown: Vec<bool>,
    widths: Vec<usize>,
    overflow: Overflow,
}

fn write_row(
    out: &mut dyn Write,
    all: &[Column],
    fitted: &Fitted,
    cells: Vec<Cell>,
    indent: usize,
    paint: Painter,
) -> io::Result<()> {
    // Spaces are written only before the next text, so that lines do not end with spaces.
    let mut pending = indent;
    let columns_of = all.iter().zip(&fitted.shown).zip(&fitted.widths).zip(cells);
    for (((column, _), &width), cell) in columns_of.filter(|(((_, shown), _), _)| **shown) {
        let room = width.saturating_sub(columns(&cell.suffix));
        let text = match column.fit {
            _ if fitted.overflow == Overflow::Keep => cell.text.into_owned(),
            Fit::Cut { middle: false } => cut_end(&cell.text, room),
            _ => cut_middle(&cell.text, room),
        };
        let used = columns(&text) + columns(&cell.suffix);
        let room = width.saturating_sub(used);
        if column.right {
            pending += room;
        }
        if used > 0 {
            write!(out, "{:pending$}{}", "", paint.styled(text, cell.style))?;
            if !cell.suffix.is_empty() {
                write!(out, "{}", paint.styled(&cell.suffix, Style::Dim))?;
            }
            pending = 0;
        }
        pending += GAP + if column.right { 0 } else { room };
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(width: Option<usize>) -> String {
        with_left_out(width).0
    }

    fn with_left_out(width: Option<usize>) -> (String, Vec<Cow<'static, str>>) {
        let all =
            [Column::left("name").cut(), Column::right("size"), Column::left("digest").dropped(0)];
        let name = "model.layers.0.self_attention.query_projection.weight";
        let row = |at: usize| {
            let size = if at == 0 { "4 B" } else { "123 MB" };
            vec![Cell::new(name), Cell::new(size), Cell::new("crc32c:0x00000000")]
        };
        let mut out = Vec::new();
        let left_out = write(&mut out, &all, 2, &row, 0, width, Painter::plain()).unwrap();
        (String::from_utf8(out).unwrap(), left_out)
    }

    #[test]
    fn a_pipe_gets_everything() {
        let text = printed(None);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("query_projection.weight     4 B  crc32c:0x00000000"));
        assert!(lines.iter().all(|l| !l.ends_with(' ')));
    }

    #[test]
    fn an_absurd_name_does_not_pad_every_row() {
        let all = [Column::left("name").cut(), Column::left("layout"), Column::left("rule")];
        let row = |at: usize| {
            let long = if at == 0 { "x".repeat(1 << 20) } else { "short".to_owned() };
            vec![Cell::new(long.clone()), Cell::new("dense"), Cell::new("-")]
        };
        let mut out = Vec::new();
        write(&mut out, &all, 50, &row, 0, None, Painter::plain()).unwrap();
        // Complete in a pipe.
        assert!(out.len() > 1 << 20 && out.len() < (1 << 20) + 51 * 100, "{}", out.len());
        out.clear();
        write(&mut out, &all, 50, &row, 0, Some(120), Painter::plain()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|l| columns(l) <= 120) && text.contains('…'));
    }

    #[test]
    fn a_narrow_terminal_loses_columns_then_middles() {
        for width in [30, 40, 60, 80] {
            let text = printed(Some(width));
            assert!(text.lines().all(|l| columns(l) <= width), "{width}: {text}");
            assert!(text.contains("123 MB") && text.contains("weight"));
        }
        assert!(printed(Some(80)).contains("crc32c"));
        assert!(!printed(Some(40)).contains("crc32c"));
        assert_eq!(with_left_out(Some(40)).1, ["digest"]);
        assert!(with_left_out(None).1.is_empty() && with_left_out(Some(100)).1.is_empty());
    }
}
