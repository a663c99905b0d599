//! `holdall delta`.

use crate::exit::{ARGUMENTS, Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::text::{Grouped, Size, count, escape, escape_path, shape};
use crate::session::Session;
use crate::writing::{self, Writing};
use clap::{Args, Subcommand};
use holdall::delta::{
    ApplyOptions, ApplyReport, ChecksumKind, ConvertOptions, DeltaLayout, DeltaReport, DeltaSource,
    FoldOptions, InPlaceOptions, MakeOptions, MakeReport, UpdateOptions, UpdateReport, Updates,
    apply, apply_in_place, apply_updates, convert, fold, make, show, show_updates,
};
use holdall::plain::ToPlain as _;
use holdall::{FileSink, fields};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Store what a fine-tune or a training step changed, and apply it to the base
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall delta make base.safetensors tuned.safetensors -o tuned.delta.zt
  holdall delta show tuned.delta.zt
  holdall delta apply base.safetensors tuned.delta.zt -o tuned.safetensors
  holdall delta apply model.zt tuned.delta.zt --in-place
  holdall delta fold monday.zt tuesday.zt -o both.zt
  holdall delta apply checkpoint updates --to 7 -o checkpoint-7
  holdall delta convert updates --to 7 --base checkpoint -o 7.delta.zt

A delta is a zTensor file. It names its base by digests: another base is refused before anything is written, and \
the result has the digests of the target. The weight updates of slime, SGLang, miles, stitch and TRL are recognised by \
themselves.")]
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
        /// The delta to write: a zTensor file, or what LAYOUT is stored in
        #[arg(short, long, value_name = "DELTA")]
        output: PathBuf,
        #[command(flatten)]
        into: Written,
        /// Replace DELTA if it exists
        #[arg(short, long)]
        force: bool,
    },
    /// Write the model that a delta or weight updates make of their base
    Apply {
        /// The model that the delta was made from
        base: PathBuf,
        /// The delta, or a folder or file of weight updates
        delta: PathBuf,
        /// The model to write: a file, or for a model in several files also a folder
        #[arg(short, long, value_name = "TARGET", required_unless_present = "in_place")]
        output: Option<PathBuf>,
        /// Change BASE itself, a zTensor file, which is the whole base until it is the whole target
        #[arg(long, conflicts_with_all = ["output", "format", "force", "to", "from"])]
        in_place: bool,
        #[command(flatten)]
        versions: Versions,
        /// The output format, with a version if wanted, such as `ztensor@1.2` [default: by TARGET's extension]
        #[arg(long, value_name = "FORMAT")]
        format: Option<String>,
        #[command(flatten)]
        writing: Writing,
        /// Replace TARGET if it exists
        #[arg(short, long)]
        force: bool,
    },
    /// List the tensors of a delta, or the versions of weight updates
    Show {
        /// The delta, or a folder or file of weight updates
        delta: PathBuf,
    },
    /// Write a delta or weight updates in another layout
    Convert {
        /// The delta, or a folder or file of weight updates
        delta: PathBuf,
        /// The model that they were made from; not needed between layouts of TRL
        #[arg(long)]
        base: Option<PathBuf>,
        /// The delta to write: a zTensor file, or what LAYOUT is stored in
        #[arg(short, long, value_name = "OUT")]
        output: PathBuf,
        #[command(flatten)]
        into: Written,
        #[command(flatten)]
        versions: Versions,
        /// Replace OUT if it exists
        #[arg(short, long)]
        force: bool,
    },
    /// Write one delta that has the effect of several, applied in this order
    Fold {
        /// The deltas, zTensor files
        #[arg(required = true)]
        deltas: Vec<PathBuf>,
        /// The delta to write, a zTensor file
        #[arg(short, long, value_name = "DELTA")]
        output: PathBuf,
        /// Replace DELTA if it exists
        #[arg(short, long)]
        force: bool,
    },
}

/// The layout of a delta that is written.
#[derive(Debug, Args)]
struct Written {
    /// `holdall`, `slime-xor` or `slime-overwrite` (a folder weight_vNNNNNN in OUT), `trl-v1`, `trl-v2-raw` or `trl-v2-gap`
    /// (a file)
    #[arg(long, default_value = "holdall", value_parser = layout)]
    layout: DeltaLayout,
    /// The number of the version that is written [default: that of the source, or 1]
    #[arg(long, value_name = "VERSION")]
    number: Option<u64>,
    /// The checksums of the layouts of slime: `xxh3-128`, `blake3` or `adler32`
    #[arg(long, value_name = "KIND", default_value = "xxh3-128", value_parser = checksums)]
    checksums: ChecksumKind,
}

/// Which of several weight updates are applied.
#[derive(Debug, Args)]
struct Versions {
    /// Of weight updates, the version to reach [default: the newest]
    #[arg(long, value_name = "VERSION")]
    to: Option<u64>,
    /// Of weight updates, the version of BASE [default: what it says, or 0]
    #[arg(long, value_name = "VERSION")]
    from: Option<u64>,
}

fn layout(text: &str) -> Result<DeltaLayout, String> {
    DeltaLayout::from_name(text).ok_or_else(|| {
        let all: Vec<&str> = DeltaLayout::ALL.iter().map(|layout| layout.name()).collect();
        format!("write one of {}", all.join(", "))
    })
}

fn checksums(text: &str) -> Result<ChecksumKind, String> {
    ChecksumKind::from_name(text).map_err(|_| {
        let all: Vec<&str> = ChecksumKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("write one of {}", all.join(", "))
    })
}

impl Versions {
    /// Checks that versions are not requested of a single delta.
    fn check_absent(&self, delta: &Path) -> Result<(), Failure> {
        let given = match (self.to, self.from) {
            (Some(_), _) => "--to",
            (None, Some(_)) => "--from",
            (None, None) => return Ok(()),
        };
        let message =
            format!("{given} is about weight updates, and `{}` is a delta", delta.display());
        Err(ARGUMENTS.broken(message).into())
    }
}

/// Opens a delta or weight updates, and recognises which. A file of standard input or at an address is a delta.
fn open(session: &Session, path: &Path) -> Result<DeltaSource, Failure> {
    if !path.exists() {
        return Ok(DeltaSource::Delta(input::open(session, path)?));
    }
    match Updates::open(path, &input::options_for(session, path))? {
        Some(updates) => Ok(DeltaSource::Updates(Box::new(updates))),
        None => Ok(DeltaSource::Delta(input::open(session, path)?)),
    }
}

/// Makes, applies, shows, converts or folds deltas.
pub(crate) fn run(session: &Session, args: &DeltaArgs) -> Result<Status, Failure> {
    match &args.action {
        Action::Make { base, target, output, into, force } => {
            let is_file = into.layout == DeltaLayout::Holdall;
            if is_file {
                FileSink::check(output, *force)?;
            }
            let (base, target) = (input::open(session, base)?, input::open(session, target)?);
            let mut options = MakeOptions::default();
            (options.layout, options.version) = (into.layout, into.number);
            options.checksums = into.checksums;
            options.write =
                options.write.with_work(session.work("comparing")).with_overwrite(*force);
            made(session, output, &make(&base, &target, output, &options)?)?;
        }
        Action::Apply { base, delta, in_place: true, writing, .. } => {
            let DeltaSource::Delta(file) = open(session, delta)? else {
                let message = "weight updates are not applied in place; name the target with `-o`";
                return Err(ARGUMENTS.broken(message).into());
            };
            let mut options = InPlaceOptions::default();
            options.open = input::options_for(session, base);
            options.write = writing.options(session.work("applying"));
            let report = apply_in_place(base, &file, &options)?;
            applied(session, base, &report, false)?;
        }
        Action::Apply { output: None, .. } => {
            return Err(ARGUMENTS.broken("name the target with `-o`").into());
        }
        Action::Apply {
            base,
            delta,
            output: Some(output),
            versions,
            format,
            writing,
            force,
            ..
        } => {
            if !(*force && output.is_dir()) {
                FileSink::check(output, *force)?;
            }
            let source = open(session, delta)?;
            let base = input::open(session, base)?;
            let write = writing.options(session.work("applying")).with_overwrite(*force);
            let write = writing::in_format(write, format.as_deref())?;
            let report = match &source {
                DeltaSource::Updates(updates) => {
                    let mut options = UpdateOptions::default();
                    (options.to, options.from, options.write) = (versions.to, versions.from, write);
                    apply_updates(&base, updates, output, &options)?
                }
                DeltaSource::Delta(file) => {
                    versions.check_absent(delta)?;
                    let mut options = ApplyOptions::default();
                    options.write = write;
                    apply(&base, file, output, &options)?
                }
            };
            applied(session, output, &report, true)?;
        }
        Action::Show { delta } => match open(session, delta)? {
            DeltaSource::Updates(updates) => {
                let report = show_updates(&updates)?;
                if session.json() {
                    let fields = fields!(source: updates.name()).and(report.to_plain());
                    writeln!(session.out(), "{}", as_json(&fields))?;
                } else {
                    updates_text(session, &report)?;
                }
            }
            DeltaSource::Delta(file) => {
                let report = show(&file)?;
                if session.json() {
                    let fields = fields!(source: file.name()).and(report.to_plain());
                    writeln!(session.out(), "{}", as_json(&fields))?;
                } else {
                    text(session, &report)?;
                }
            }
        },
        Action::Convert { delta, base, output, into, versions, force } => {
            let source = open(session, delta)?;
            if let DeltaSource::Delta(_) = source {
                versions.check_absent(delta)?;
            }
            let base = base.as_deref().map(|base| input::open(session, base)).transpose()?;
            let mut options = ConvertOptions::default();
            (options.layout, options.version) = (into.layout, into.number);
            (options.to, options.from) = (versions.to, versions.from);
            options.checksums = into.checksums;
            options.write =
                options.write.with_work(session.work("converting")).with_overwrite(*force);
            made(session, output, &convert(&source, base.as_ref(), output, &options)?)?;
        }
        Action::Fold { deltas, output, force } => {
            FileSink::check(output, *force)?;
            let deltas: Result<Vec<_>, _> =
                deltas.iter().map(|delta| input::open(session, delta)).collect();
            let mut options = FoldOptions::default();
            options.write = options.write.with_work(session.work("folding")).with_overwrite(*force);
            made(session, output, &fold(&deltas?, output, &options)?)?;
        }
    }
    Ok(Status::Fine)
}

/// Reports a delta that was written.
fn made(session: &Session, output: &Path, report: &MakeReport) -> Result<(), Failure> {
    if session.json() {
        writeln!(session.out(), "{}", as_json(&report.to_plain()))?;
    } else if !session.global.quiet {
        let name = session.paint().styled(escape_path(&output.display().to_string()), Style::Title);
        let (elements, len) = (Grouped(report.elements), Size(report.len));
        let compared = match report.target_len {
            0 => len.to_string(),
            target => format!("{} → {len} ({})", Size(target), percent(report.len, target)),
        };
        writeln!(
            session.out(),
            "{name}: {} changed ({elements} elements), {} whole, {} equal, {} removed; {compared}",
            count(report.changed, "tensor"),
            report.whole,
            report.unchanged,
            report.removed,
        )?;
    }
    for what in &report.not_covered {
        session.note(format!("not in the delta: {what}"));
    }
    Ok(())
}

/// Reports a model that was written.
fn applied(
    session: &Session,
    output: &Path,
    report: &ApplyReport,
    is_copy: bool,
) -> Result<(), Failure> {
    if report.was_applied {
        let what = if is_copy { "its copy was written" } else { "nothing was changed" };
        session.warn(format_args!("the base is the target already: {what}"));
    }
    if session.json() {
        writeln!(session.out(), "{}", as_json(&report.to_plain()))?;
    } else if !session.global.quiet {
        let name = session.paint().styled(escape_path(&output.display().to_string()), Style::Title);
        let version = match report.version {
            Some(version) => format!("version {version}, {}, ", count(report.steps, "update")),
            None => String::new(),
        };
        writeln!(
            session.out(),
            "{name}: {version}{}, {} changed, {} replaced or new, {} removed, {}",
            count(report.tensors, "tensor"),
            report.changed,
            report.whole,
            report.removed,
            Size(report.len),
        )?;
    }
    Ok(())
}

fn updates_text(session: &Session, report: &UpdateReport) -> Result<(), Failure> {
    let out = &mut *session.out();
    for update in &report.updates {
        let from = match update.base {
            Some(base) => format!("from {base}"),
            None => "whole".to_owned(),
        };
        let encoding = match (update.base, update.checksums) {
            (None, _) => String::new(),
            (_, Some(kind)) => format!("{}, {kind}, ", update.encoding),
            (_, None) => format!("{}, ", update.encoding),
        };
        let (tensors, len) =
            (count(update.tensors.len() as u64, "tensor"), Size(update.stored_len));
        writeln!(out, "{:>6}  {from:8}  {encoding}{tensors}, {len}", update.version)?;
    }
    if let [update] = report.updates.as_slice() {
        for tensor in &update.tensors {
            let changed = match tensor.changed {
                Some(n) => format!("{} elements, ", Grouped(n)),
                None => String::new(),
            };
            writeln!(out, "{}  {changed}{}", escape(&tensor.name), Size(tensor.stored_len))?;
        }
    }
    Ok(())
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
