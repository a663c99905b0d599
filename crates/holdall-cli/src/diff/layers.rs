//! The table of the layers of a model.

use super::rows::{cosine, number};
use super::sort::{self, Sort};
use crate::exit::Failure;
use crate::number::{brief, share};
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{count, escape};
use crate::session::Session;
use holdall::diff::LayerDiff;
use std::io::Write;

/// Without `--by-layer`, the table is shown if at least this many layers changed.
const MANY: usize = 4;
/// The width of the longest bar.
const BAR: usize = 12;

/// Prints the layers of which a tensor changed, if there are many or `is_wanted`.
pub(super) fn write(
    session: &Session,
    out: &mut dyn Write,
    all: &[LayerDiff],
    by: Sort,
    is_wanted: bool,
) -> Result<(), Failure> {
    let mut changed: Vec<&LayerDiff> = all.iter().filter(|layer| layer.is_change()).collect();
    let named = changed.iter().filter(|layer| layer.name.is_some()).count();
    if changed.is_empty() || !(is_wanted || named >= MANY) {
        return Ok(());
    }
    sort::layers(&mut changed, by);
    let finite = changed.iter().filter_map(|l| l.relative).filter(|x| x.is_finite());
    let most = finite.fold(0.0, f64::max);
    let columns = [
        Column::left(""),
        Column::left("layer").cut(),
        Column::right("tensors").dropped(2),
        Column::right("changed"),
        Column::right("relative"),
        Column::right("rms").dropped(1),
        Column::right("max"),
        Column::right("cosine").dropped(0),
        Column::left(""),
    ];
    let row = |at: usize| {
        let layer = changed[at];
        let name = layer.name.as_deref().map_or("(in no layer)".to_owned(), escape);
        let mut notes = bar(layer.relative, most);
        if layer.non_finite > 0 {
            notes.push_str(" NaN or infinite");
        }
        if layer.uncompared > 0 {
            notes.push_str(&format!(" {} not compared", count(layer.uncompared, "tensor")));
        }
        vec![
            Cell::styled("~", Style::Warn),
            Cell::styled(name, Style::Warn),
            Cell::new(format!("{} of {}", layer.changed, layer.tensors)),
            Cell::new(share(layer.unequal, layer.count)),
            Cell::new(number(layer.relative)),
            Cell::new(number(layer.rms)),
            Cell::new(brief(layer.max_abs)),
            Cell::new(cosine(layer.cosine)),
            Cell::styled(notes.trim_start().to_owned(), Style::Group),
        ]
    };
    table::write(out, &columns, changed.len(), &row, 0, session.width(), session.paint())?;
    let same = all.iter().filter(|layer| !layer.is_change() && layer.name.is_some()).count();
    if same > 0 {
        let line = format!("{} did not change", count(same as u64, "layer"));
        writeln!(out, "{}", session.paint().styled(&line, Style::Dim))?;
    }
    writeln!(out)?;
    Ok(())
}

/// Draws a number as a bar, whose full width is `most`.
fn bar(x: Option<f64>, most: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let Some(x) = x.filter(|x| *x > 0.0) else { return String::new() };
    let part = if most > 0.0 { (x / most).min(1.0) } else { 1.0 };
    let eighths = ((part * (BAR * 8) as f64).round() as usize).max(1);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn bars_are_as_long_as_their_numbers() {
        assert_eq!(bar(Some(2.0), 2.0), "████████████");
        assert_eq!(bar(Some(0.5), 2.0), "███");
        assert_eq!(bar(Some(1.0 / 6.0), 2.0), "█");
        assert_eq!(bar(Some(1e-9), 2.0), "▏");
        assert_eq!(bar(Some(f64::INFINITY), 2.0), "████████████");
        assert_eq!(bar(Some(0.0), 0.0), "");
        assert_eq!(bar(None, 2.0), "");
    }
}
