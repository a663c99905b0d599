//! The report: for the terminal, as Markdown and as JSON.

use crate::args::Args;
use crate::files::Workload;
use crate::machine::Machine;
use crate::measure::{Measured, Results, Verdict};
use crate::rows::{Comparison, Goal, Kind, Target};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

pub struct Report<'a> {
    pub machine: Machine,
    pub args: &'a Args,
    pub results: &'a [Results],
}

/// Prints the comparisons, their contestants and their goals.
pub fn list(comparisons: &[Comparison]) {
    for c in comparisons {
        println!("{}\n    {}", c.name, c.what);
        for contestant in c.contestants {
            println!("    {:<5} {}", kind(contestant.kind), contestant.name);
        }
        for goal in c.goals {
            println!("    goal  {}: {}", goal.ours, target(&goal.target));
        }
    }
}

impl Report<'_> {
    /// Returns the report in columns for a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for r in self.results {
            let _ = writeln!(text, "\n{}\n{}", r.comparison.name, r.comparison.what);
            let head =
                ["", "median", "min .. max", "GB/s", "×", "cores", "memory"].map(String::from);
            columns(&mut text, std::iter::once(head).chain(r.measured.iter().map(|m| cells(r, m))));
            for (goal, verdict) in verdicts(r) {
                let _ = writeln!(text, "  {}", outcome(goal, &verdict));
                if !verdict.met && !goal.note.is_empty() {
                    let _ = writeln!(text, "         {}", goal.note);
                }
            }
        }
        text
    }

    /// Returns the page of the documentation.
    pub fn markdown(&self) -> String {
        let mut page = String::from(
            "# Benchmarks\n\n\
             Written by `cargo xtask bench --write docs/benchmarks.md`; do not edit. `cargo xtask bench --list` \
             lists the comparisons; the code is in `benches/`.\n\n\
             The contestants of a comparison run one after the other in rounds, each run in its \
             own process, which times itself. Memory is allocated and freed before each run, so that a virtual machine \
             provides it. A *floor* is the simplest code that moves the same bytes. Times are medians; a \
             multiple (×) is the ratio of medians to the fastest floor, or to the fastest peer if there is no \
             floor. *Cores* is processor time over wall time, *memory* the peak of anonymous memory.\n\n",
        );
        if self.args.quick {
            page.push_str("**Small files (`--quick`): these numbers mean nothing.**\n\n");
        }
        let _ = writeln!(
            page,
            "Measured on {}, {} rounds after a warm-up.\n",
            self.machine.date, self.args.rounds
        );
        page.push_str("| machine | |\n| --- | --- |\n");
        for (name, value) in &self.machine.facts {
            let _ = writeln!(page, "| {name} | {value} |");
        }
        let versions = self.machine.versions.iter().map(|(n, v)| format!("{n} {v}"));
        let _ = writeln!(page, "| versions | {} |", versions.collect::<Vec<_>>().join(", "));
        self.goals(&mut page);
        for r in self.results {
            let _ = writeln!(page, "\n## {}\n\n{}\n", r.comparison.name, r.comparison.what);
            page.push_str("| | | median | min .. max | GB/s | × | cores | memory |\n");
            page.push_str("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
            for m in &r.measured {
                let [name, rest @ ..] = cells(r, m);
                let name =
                    if m.contestant.kind == Kind::Ours { format!("**{name}**") } else { name };
                let _ = writeln!(
                    page,
                    "| {name} | {} | {} |",
                    kind(m.contestant.kind),
                    rest.join(" | ")
                );
            }
        }
        page
    }

    fn goals(&self, page: &mut String) {
        page.push_str("\n## Goals\n\n| comparison | ours | target | reached | |\n");
        page.push_str("| --- | --- | --- | ---: | --- |\n");
        let mut missed = String::new();
        for r in self.results {
            for (goal, verdict) in verdicts(r) {
                let met = if verdict.met { "met" } else { "**missed**" };
                let name = r.comparison.name;
                let against = against(&goal.target, &verdict);
                let (target, value) = (target(&goal.target), value(&goal.target, verdict.value));
                let _ = writeln!(
                    page,
                    "| {name} | {} | {target} | {value}{against} | {met} |",
                    goal.ours
                );
                if !verdict.met && !goal.note.is_empty() {
                    let _ = writeln!(missed, "- `{name}`, {}: {}", goal.ours, goal.note);
                }
            }
        }
        if !missed.is_empty() {
            let _ = write!(page, "\nWhy some goals are missed:\n\n{missed}");
        }
    }

    /// Returns all numbers as JSON.
    pub fn json(&self) -> Value {
        let comparisons = self.results.iter().map(|r| {
            let contestants = r.measured.iter().map(|m| {
                json!({
                    "name": m.contestant.name,
                    "kind": kind(m.contestant.kind),
                    "median_nanos": m.median(),
                    "nanos": m.runs.iter().map(|r| r.nanos).collect::<Vec<_>>(),
                    "cpu_nanos": m.runs.iter().map(|r| r.cpu_nanos).collect::<Vec<_>>(),
                    "anonymous_peak": m.anonymous_peak,
                })
            });
            let goals = verdicts(r).map(|(goal, v)| {
                json!({
                    "ours": v.ours, "target": target(&goal.target), "against": v.against,
                    "value": v.value, "met": v.met,
                })
            });
            json!({
                "name": r.comparison.name,
                "bytes": r.bytes(),
                "contestants": contestants.collect::<Vec<_>>(),
                "goals": goals.collect::<Vec<_>>(),
            })
        });
        json!({
            "date": self.machine.date,
            "quick": self.args.quick,
            "rounds": self.args.rounds,
            "machine": self.machine.facts.iter().map(|(k, v)| json!([k, v])).collect::<Vec<_>>(),
            "versions": self.machine.versions.iter().map(|(k, v)| json!([k, v])).collect::<Vec<_>>(),
            "comparisons": comparisons.collect::<Vec<_>>(),
        })
    }
}

fn verdicts(r: &Results) -> impl Iterator<Item = (&'static Goal, Verdict)> {
    r.comparison.goals.iter().filter_map(|goal| Some((goal, r.verdict(goal).ok()?)))
}

fn cells(r: &Results, m: &Measured) -> [String; 7] {
    let (min, max) = m.spread();
    let median = m.median();
    let multiple = r.yardstick().map_or(1.0, |y| median as f64 / y.median() as f64);
    [
        m.contestant.name.to_owned(),
        time(median),
        format!("{} .. {}", time(min), time(max)),
        if r.comparison.rate {
            format!("{:.2}", r.bytes() as f64 / median as f64)
        } else {
            "–".into()
        },
        format!("{multiple:.2}"),
        format!("{:.1}", m.busy() * crate::floor::cores() as f64),
        memory(m.anonymous_peak as f64),
    ]
}

fn outcome(goal: &Goal, verdict: &Verdict) -> String {
    format!(
        "{} {}: {}{} (target {})",
        if verdict.met { "met   " } else { "MISSED" },
        verdict.ours,
        value(&goal.target, verdict.value),
        against(&goal.target, verdict),
        target(&goal.target),
    )
}

fn against(target: &Target, verdict: &Verdict) -> String {
    match target {
        _ if verdict.against.is_empty() => String::new(),
        Target::BeyondAtMost(..) | Target::MemoryBeyondAtMost(..) => {
            format!(" beyond {}", verdict.against)
        }
        _ => format!(" of {}", verdict.against),
    }
}

fn target(target: &Target) -> String {
    match target {
        Target::TimeAtMost(most, against) => format!("time ≤ {most} × {}", or(against)),
        Target::SpeedAtLeast(least, against) => format!("speed ≥ {least} × {}", or(against)),
        Target::MemoryAtMost(most) => format!("memory ≤ {}", memory(*most as f64)),
        Target::MemoryAtMostFile(most, _) => format!("memory ≤ {most} × the file"),
        Target::BeyondAtMost(most, against) => {
            format!("time ≤ {} beyond {}", time(*most), or(against))
        }
        Target::MemoryAtMostOf(most, other) => format!("memory ≤ {most} × {other}"),
        Target::MemoryBeyondAtMost(most, other) => {
            format!("memory ≤ {} beyond {other}", memory(*most as f64))
        }
        Target::SizeAtMost(most, file, other, more) => {
            let (file, other) = (file_name(*file), file_name(*other));
            let more =
                if *more > 0 { format!(" + {}", memory(*more as f64)) } else { String::new() };
            format!("size of {file} ≤ {most} × ({other}{more})")
        }
        Target::OutputAtLeast(least) => {
            format!("output ≥ {} a second and core", memory(*least as f64))
        }
        Target::BusyAtLeast(least) => format!("cores busy ≥ {:.0} %", least * 100.0),
    }
}

fn file_name(file: Workload) -> String {
    file.path(Path::new("")).display().to_string()
}

fn or(names: &[&str]) -> String {
    match names {
        [one] => (*one).to_owned(),
        many => format!("the fastest of {}", many.join("; ")),
    }
}

fn value(target: &Target, value: f64) -> String {
    match target {
        Target::TimeAtMost(..)
        | Target::SpeedAtLeast(..)
        | Target::MemoryAtMostFile(..)
        | Target::MemoryAtMostOf(..)
        | Target::SizeAtMost(..) => format!("{value:.2} ×"),
        Target::BeyondAtMost(..) => time(value as u64),
        Target::MemoryAtMost(_) | Target::MemoryBeyondAtMost(..) | Target::OutputAtLeast(_) => {
            memory(value)
        }
        Target::BusyAtLeast(_) => format!("{:.0} %", value * 100.0),
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Ours => "ours",
        Kind::Floor => "floor",
        Kind::Peer => "peer",
    }
}

/// Formats a time with three digits and a unit.
fn time(nanos: u64) -> String {
    let nanos = nanos as f64;
    let (value, unit) = match nanos {
        ..1e6 => (nanos / 1e3, "µs"),
        ..1e9 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

fn memory(bytes: f64) -> String {
    if bytes < 1e9 { format!("{:.0} MB", bytes / 1e6) } else { format!("{:.2} GB", bytes / 1e9) }
}

/// Writes rows of cells, the first aligned to the left and the others to the right.
fn columns<const N: usize>(text: &mut String, rows: impl Iterator<Item = [String; N]>) {
    let rows: Vec<[String; N]> = rows.collect();
    let width = |i: usize| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in &rows {
        let _ = write!(text, "  {:<w$}", row[0], w = widths[0]);
        for (cell, w) in row.iter().zip(widths).skip(1) {
            let _ = write!(text, "  {cell:>w$}");
        }
        text.push('\n');
    }
}
