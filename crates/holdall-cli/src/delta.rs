//! `holdall delta`.

use crate::exit::{Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::text::{Grouped, Size, count, escape, shape};
use crate::session::Session;
use crate::writing::{self, Writing};
use clap::{Args, Subcommand};
use holdall::delta::{ApplyOptions, DeltaReport, MakeOptions, apply, make, show};
use holdall::plain::ToPlain as _;
use holdall::{FileSink, fields};
use std::io::Write as _;
use std::path::PathBuf;

/// Store what a fine-tune or a training step changed, and apply it to the base
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall delta make base.safetensors tuned.safetensors -o tuned.delta.zt
  holdall delta show tuned.delta.zt
  holdall delta apply base.safetensors tuned.delta.zt -o tuned.safetensors

A delta is a zTensor file. It names its base by digests: another base is refused before anything is written, and \
the result has the digests of the target.")]
pub(crate) struct DeltaArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write the delta from one model to another
    Make {
        /// The model that the receiver has
        base: PathBuf,
        /// The model that the receiver gets
        target: PathBuf,
        /// The delta to write, a zTensor file
        #[arg(short, long, value_name = "DELTA")]
        output: PathBuf,
        /// Replace DELTA if it exists
        #[arg(short, long)]
        force: bool,
    },
    /// Write the model that a delta makes of its base
    Apply {
        /// The model that the delta was made from
        base: PathBuf,
        /// The delta
        delta: PathBuf,
        /// The model to write
        #[arg(short, long, value_name = "TARGET")]
        output: PathBuf,
        /// The output format, with a version if wanted, such as `ztensor@1.2` [default: by TARGET's extension]
        #[arg(long, value_name = "FORMAT")]
        to: Option<String>,
        #[command(flatten)]
        writing: Writing,
        /// Replace TARGET if it exists
        #[arg(short, long)]
        force: bool,
    },
    /// List the tensors of a delta
    Show {
        /// The delta
        delta: PathBuf,
    },
}

/// Makes, applies or shows a delta.
pub(crate) fn run(session: &Session, args: &DeltaArgs) -> Result<Status, Failure> {
    match &args.action {
        Action::Make { base, target, output, force } => {
            FileSink::check(output, *force)?;
            let (base, target) = (input::open(session, base)?, input::open(session, target)?);
            let mut options = MakeOptions::default();
            options.write =
                options.write.with_work(session.work("comparing")).with_overwrite(*force);
            let report = make(&base, &target, output, &options)?;
            if session.json() {
                writeln!(session.out(), "{}", as_json(&report.to_plain()))?;
            } else if !session.global.quiet {
                let name = session.paint().on(escape(&output.display().to_string()), Style::Title);
                let (elements, len) = (Grouped(report.elements), Size(report.len));
                writeln!(
                    session.out(),
                    "{name}: {} changed ({elements} elements), {} whole, {} equal, {} removed; {} → {len} ({})",
                    count(report.changed, "tensor"),
                    report.whole,
                    report.unchanged,
                    report.removed,
                    Size(report.target_len),
                    percent(report.len, report.target_len),
                )?;
            }
            for what in &report.not_covered {
                session.note(format!("not in the delta: {what}"));
            }
        }
        Action::Apply { base, delta, output, to, writing, force } => {
            FileSink::check(output, *force)?;
            let (base, delta) = (input::open(session, base)?, input::open(session, delta)?);
            let write = writing.options(session.work("applying")).with_overwrite(*force);
            let mut options = ApplyOptions::default();
            options.write = writing::in_format(write, to.as_deref())?;
            let report = apply(&base, &delta, output, &options)?;
            if report.was_applied {
                session.warn("the base is the target already: its copy was written");
            }
            if session.json() {
                writeln!(session.out(), "{}", as_json(&report.to_plain()))?;
            } else if !session.global.quiet {
                let name = session.paint().on(escape(&output.display().to_string()), Style::Title);
                writeln!(
                    session.out(),
                    "{name}: {}, {} changed, {} replaced or new, {} removed, {}",
                    count(report.tensors, "tensor"),
                    report.changed,
                    report.whole,
                    report.removed,
                    Size(report.len),
                )?;
            }
        }
        Action::Show { delta } => {
            let file = input::open(session, delta)?;
            let report = show(&file)?;
            if session.json() {
                let fields = fields!(source: file.name()).and(report.to_plain());
                writeln!(session.out(), "{}", as_json(&fields))?;
            } else {
                text(session, &report)?;
            }
        }
    }
    Ok(Status::Fine)
}

fn text(session: &Session, report: &DeltaReport) -> Result<(), Failure> {
    let out = &mut *session.out();
    let width = report.tensors.iter().map(|t| escape(&t.name).len()).max().unwrap_or(0).min(60);
    for t in &report.tensors {
        let changed = match t.changed {
            Some(n) => format!("{:>9} of {} elements", percent(n, t.count), Grouped(t.count)),
            None => format!("{:>9}", "whole"),
        };
        let (name, dims, len) = (escape(&t.name), shape(&t.shape), Size(t.stored_len));
        writeln!(out, "{name:width$}  {:5} {dims}  {changed}, {len}", t.dtype)?;
    }
    for name in &report.removed {
        writeln!(out, "{}  removed", escape(name))?;
    }
    let (stored, all) = (report.tensors.len() as u64, Grouped(report.target_tensors));
    let stored = count(stored, "tensor");
    writeln!(out, "{stored} in the delta, {all} in the target, {}", Size(report.len))?;
    Ok(())
}

/// Formats a share: `0.42 %`.
fn percent(part: u64, whole: u64) -> String {
    let share = 100. * part as f64 / whole.max(1) as f64;
    match share {
        _ if share >= 10. => format!("{share:.0} %"),
        _ if share >= 0.1 || part == 0 => format!("{share:.1} %"),
        _ => format!("{share:.4} %"),
    }
}
