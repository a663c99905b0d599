//! Tables: columns aligned, cut to the width of a terminal. A pipe gets every column and every text
//! whole; one that is much longer than others stands out rather than padding all rows.
//!
//! Rows are made twice, once to measure and once to write, so a table of any length takes no memory.

use super::style::{Paint, Style};
use super::text::{columns, cut_end, cut_middle};
use std::borrow::Cow;
use std::io::{self, Write};

/// Between two columns.
const GAP: usize = 2;
/// A flexible column is not cut below this while others can still be left out.
const FLEX_MIN: usize = 56;

/// The widest that a column gets, wherever it goes: one long name must not pad a million rows. The
/// last column pads nothing.
const WIDEST: usize = 80;

/// A column.
pub(crate) struct Column {
    title: Cow<'static, str>,
    right: bool,
    fit: Fit,
}

/// What becomes of a column when the terminal is too narrow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// It stays as it is.
    Keep,
    /// Its texts are cut, in the middle or at the end.
    Cut { middle: bool },
    /// It is left out, the lowest number first.
    Drop(u8),
}

impl Column {
    /// A column of text.
    pub(crate) fn left(title: impl Into<Cow<'static, str>>) -> Column {
        Column { title: title.into(), right: false, fit: Fit::Keep }
    }

    /// A column of numbers.
    pub(crate) fn right(title: impl Into<Cow<'static, str>>) -> Column {
        Column { title: title.into(), right: true, fit: Fit::Keep }
    }

    /// Cut in the middle when there is no room.
    pub(crate) fn cut(mut self) -> Column {
        self.fit = Fit::Cut { middle: true };
        self
    }

    /// Cut at the end when there is no room.
    pub(crate) fn cut_end(mut self) -> Column {
        self.fit = Fit::Cut { middle: false };
        self
    }

    fn is_cut(&self) -> bool {
        matches!(self.fit, Fit::Cut { .. })
    }

    /// Left out when there is no room; lower numbers go first.
    pub(crate) fn dropped(mut self, order: u8) -> Column {
        self.fit = Fit::Drop(order);
        self
    }
}

/// The text of one row in one column.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: Cow<'static, str>,
    style: Style,
    /// Text that follows and is never cut.
    suffix: Cow<'static, str>,
}

impl Cell {
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    pub(crate) fn styled(text: impl Into<Cow<'static, str>>, style: Style) -> Cell {
        Cell { text: text.into(), style, ..Cell::default() }
    }

    /// The cell with text after it that is never cut.
    pub(crate) fn with_suffix(mut self, suffix: impl Into<Cow<'static, str>>) -> Cell {
        self.suffix = suffix.into();
        self
    }

    fn columns(&self) -> usize {
        columns(&self.text) + columns(&self.suffix)
    }
}

/// Writes a table of `count` rows, indented by `indent`; `row` makes one, with a cell for each
/// column. `width` is that of the terminal, if it is one. Gives the titles of the columns that had no
/// room and were left out.
pub(crate) fn write(
    out: &mut dyn Write,
    all: &[Column],
    count: usize,
    row: &dyn Fn(usize) -> Vec<Cell>,
    indent: usize,
    width: Option<usize>,
    paint: Paint,
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
        // A terminal has room to give to what can be cut.
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

/// Which columns are shown, once `widths` are cut to what `room` allows.
fn fit(all: &[Column], widths: &mut [usize], room: Option<usize>) -> Vec<bool> {
    let mut shown = vec![true; all.len()];
    let Some(room) = room else { return shown };
    let total = |shown: &[bool], widths: &[usize]| {
        let used = || shown.iter().zip(widths).filter(|(shown, _)| **shown);
        used().map(|(_, w)| w + GAP).sum::<usize>().saturating_sub(GAP)
    };
    // Without what can be cut: then the columns that may go, one after the other.
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

/// What becomes of a text that is wider than its column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Cut,
    Keep,
}

/// The columns as they are written.
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
    paint: Paint,
) -> io::Result<()> {
    // Spaces are written before the next text only, so that lines do not end in them.
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
            write!(out, "{:pending$}{}", "", paint.on(text, cell.style))?;
            if !cell.suffix.is_empty() {
                write!(out, "{}", paint.on(&cell.suffix, Style::Dim))?;
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
        let left_out = write(&mut out, &all, 2, &row, 0, width, Paint::off()).unwrap();
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
        write(&mut out, &all, 50, &row, 0, None, Paint::off()).unwrap();
        // Whole in a pipe.
        assert!(out.len() > 1 << 20 && out.len() < (1 << 20) + 51 * 100, "{}", out.len());
        out.clear();
        write(&mut out, &all, 50, &row, 0, Some(120), Paint::off()).unwrap();
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
