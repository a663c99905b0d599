//! `--stats`: statistics of tensors' values, as columns, as lines with a histogram, or as JSON.

use crate::exit::Failure;
use crate::number::{self, share};
use crate::output::style::Style;
use crate::output::table::{Cell, Column};
use crate::output::text::Grouped;
use crate::session::Session;
use holdall::stats::{Histogram, Measure, Stats};
use holdall::{ErrorKind, Number, StatsOptions, Tensor};

/// Number of bins of a histogram, each of which is one column wide.
const BINS: usize = 48;
/// Height of a histogram, in lines.
const LINES: u64 = 3;

/// Computes the statistics of each tensor; `None` for unsupported layouts and unreadable tensors.
pub(super) fn compute(
    session: &Session,
    tensors: &[Tensor],
    histogram: bool,
) -> Result<Vec<Option<Stats>>, Failure> {
    let passes = if histogram { 2 } else { 1 };
    let lens = tensors.iter().flat_map(|t| t.components().collect::<Vec<_>>());
    let total: u64 = lens.map(|c| c.decoded_len.unwrap_or(0)).sum();
    // One progress bar for all tensors; otherwise, each would add to the total when it is started.
    let total = total.saturating_mul(passes);
    let mut work = session.silent_work();
    if let Some(bar) = session.bar("reading") {
        work = work.on_progress(move |done, _| bar.show(done, total));
    }
    let bins = if histogram { BINS } else { 0 };
    let options = StatsOptions::new().with_bins(bins).with_work(work);
    let one = |tensor: &Tensor| {
        if tensor.fault().is_some() {
            return Ok(None);
        }
        match holdall::stats::stats(tensor, &options) {
            Ok(stats) => Ok(Some(stats)),
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
            Err(e) => Err(e.into()),
        }
    };
    tensors.iter().map(one).collect()
}

/// Returns the columns of a table of statistics, after name, dtype and shape.
pub(super) fn columns() -> [Column; 7] {
    [
        Column::right("min"),
        Column::right("max"),
        Column::right("mean"),
        Column::right("std"),
        Column::right("zeros").dropped(0),
        Column::right("NaN"),
        Column::right("inf"),
    ]
}

/// Returns the cells of those columns.
pub(super) fn cells(stats: Option<&Stats>) -> [Cell; 7] {
    let Some(s) = stats else { return std::array::from_fn(|_| Cell::styled("-", Style::Dim)) };
    let number = |x: Option<f64>| Cell::new(x.map_or("-".to_owned(), number::short));
    let bad = |n: u64| {
        let style = if n > 0 { Style::Warn } else { Style::Dim };
        Cell::styled(Grouped(n).to_string(), style)
    };
    [
        Cell::new(number_text(s.min)),
        Cell::new(number_text(s.max)),
        number(s.mean),
        number(s.std),
        Cell::new(share(s.zeros, s.count)),
        bad(s.nan),
        bad(s.inf + s.neg_inf),
    ]
}

fn number_text(x: Option<Number>) -> String {
    match x {
        None => "-".to_owned(),
        Some(Number::Integer(i)) => i.to_string(),
        Some(x) => number::short(x.to_f64()),
    }
}

/// Returns statistics as lines of key and value, and the lines of the histogram.
pub(super) fn lines(s: &Stats) -> Vec<(&'static str, String)> {
    let float = |x: Option<f64>| x.map_or("-".to_owned(), number::short);
    let suffix = match s.measure {
        Measure::Magnitude => " (of magnitudes)",
        _ => "",
    };
    let mut out = vec![
        ("min", format!("{}{suffix}", number_text(s.min))),
        ("max", number_text(s.max)),
        ("mean", float(s.mean)),
        ("std", float(s.std)),
        ("zeros", zeros_line(s)),
    ];
    let non_finite = [("NaN", s.nan), ("inf", s.inf), ("-inf", s.neg_inf)];
    let non_finite: Vec<String> = non_finite
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{} {name}", Grouped(*n)))
        .collect();
    out.push((
        "not finite",
        if non_finite.is_empty() { "none".to_owned() } else { non_finite.join(", ") },
    ));
    // A histogram of identical values is not informative.
    if let Some(h) = s.histogram.as_ref().filter(|h| h.counts.len() > 1) {
        for (at, line) in histogram(h).into_iter().enumerate() {
            out.push((if at == 0 { "histogram" } else { "" }, line));
        }
    }
    out
}

fn zeros_line(s: &Stats) -> String {
    if s.zeros == 0 {
        return "none".to_owned();
    }
    let mut text =
        format!("{} of {} ({})", Grouped(s.zeros), Grouped(s.count), share(s.zeros, s.count));
    if s.implied_zeros > 0 {
        text.push_str(&format!(", {} of them not stored", Grouped(s.implied_zeros)));
    }
    text
}

/// Draws a histogram with block characters, and the ends of its range below.
fn histogram(h: &Histogram) -> Vec<String> {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = h.counts.iter().copied().max().unwrap_or(0).max(1);
    // In eighths of a line, at least one if there are any values.
    let height = |n: u64| {
        let full = u128::from(LINES * 8);
        let eighths = (u128::from(n) * full / u128::from(most)) as u64;
        if n > 0 { eighths.max(1) } else { 0 }
    };
    let mut out = Vec::new();
    for line in (0..LINES).rev() {
        let block = |n: &u64| BLOCKS[height(*n).saturating_sub(line * 8).min(8) as usize];
        out.push(h.counts.iter().map(block).collect::<String>().trim_end().to_owned());
    }
    let (min, max) = (number::short(h.min), number::short(h.max));
    let room = h.counts.len().saturating_sub(min.len() + max.len()).max(1);
    out.push(format!("{min}{}{max}", " ".repeat(room)));
    out
}
