//! `holdall verify`.

use crate::args::SelectionArgs;
use crate::exit::{ARGUMENTS, Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::text::{Grouped, Size, count, escape, escape_path, plural, printable};
use crate::session::Session;
use clap::Args;
use holdall::plain::ToPlain as _;
use holdall::verify::{Reason, Strictness, Unverified, Verdict};
use holdall::{File, VerifyOptions, VerifyReport};
use std::io::Write as _;
use std::path::PathBuf;

/// Check structure, digests, compressed data, indices and boolean bytes, and all hashes of a package
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall verify model.zt                       exit status 0: sound, 1: bad, 4: not fully verified
  holdall verify *.safetensors --quiet          print only errors
  holdall verify model.zt --json | jq .unverified
  holdall verify model.carton --strict          a package: warnings count as errors
  holdall verify model.zt -s 'layers.0.*'       only these tensors; of a package, those of its tests

The report also says what could not be verified: a file without digests can be valid in form, and changed in \
content.")]
pub(crate) struct VerifyArgs {
    /// Files, or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Treat all FILEs as one model, in this order: shards without an index
    #[arg(long)]
    together: bool,

    #[command(flatten)]
    select: SelectionArgs,

    /// Treat each warning as a finding
    #[arg(long)]
    strict: bool,
}

/// Verifies each file.
pub(crate) fn run(session: &Session, args: &VerifyArgs) -> Result<Status, Failure> {
    input::check_once(&args.files)?;
    session.each(&input::group_models(&args.files, args.together), |paths| {
        let [path, ..] = paths else { return Ok(Status::Fine) };
        #[cfg(feature = "carton")]
        let is_alone = paths.len() == 1;
        let strictness = match args.strict {
            true => Strictness::Strict,
            false => Strictness::Usual,
        };
        // A package is verified with all its files, unless tensors are selected.
        #[cfg(feature = "carton")]
        if is_alone
            && args.select.is_all()
            && let Some(package) = crate::package::open(session, path)?
        {
            return crate::package::verify::run(session, &package, strictness);
        }
        let is_model = holdall::is_model_folder(path);
        if path.is_dir() && !is_model && !args.select.is_all() {
            let e =
                ARGUMENTS.broken("`-s` and `-x` select tensors of one file, but this is a folder");
            let e = e.with_hint("verify all of it, or `holdall pack` it first");
            return Err(e.in_source(path.display()).into());
        }
        let file = input::open_all(session, paths)?;
        #[cfg(feature = "carton")]
        if args.select.is_all()
            && let Some(package) = crate::package::from_file(&file)?
        {
            return crate::package::verify::run(session, &package, strictness);
        }
        let options = VerifyOptions::new()
            .with_select(args.select.parse()?)
            .with_strictness(strictness)
            .with_work(session.work("verifying"));
        let report = holdall::verify(&file, &options)?;
        drop(options);
        if session.json() {
            writeln!(session.out(), "{}", json(&file, &report))?;
        } else {
            text(session, &file, &report, strictness)?;
        }
        Ok(match report.verdict() {
            Verdict::Sound => Status::Fine,
            Verdict::Bad => Status::Bad,
            _ => Status::Incomplete,
        })
    })
}

fn text(
    session: &Session,
    file: &File,
    report: &VerifyReport,
    strictness: Strictness,
) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    let name = escape_path(file.name());
    for finding in &report.findings {
        writeln!(out, "{} {}", paint.styled("bad:", Style::Bad), printable(&finding.to_string()))?;
    }
    let more = report.finding_count - report.findings.len() as u64;
    if more > 0 {
        writeln!(out, "{} and {} more", paint.styled("bad:", Style::Bad), Grouped(more))?;
    }
    if session.global.quiet {
        // There are no findings, but the status is not 0: print the reason.
        let refused = report.unverified.iter().filter(|u| u.reason == Reason::Unsupported);
        for u in refused.filter(|_| report.verdict() == Verdict::Incomplete) {
            let what = paint.styled("not fully verified:", Style::Warn);
            writeln!(out, "{what} {name}: {}", unverified_line(u))?;
        }
        return Ok(());
    }
    let name = paint.styled(&name, Style::Title);
    let verdict = match report.verdict() {
        Verdict::Sound => format!("{} {name}", paint.styled("sound:", Style::Good)),
        Verdict::Bad => {
            let found = count(report.finding_count, "finding");
            format!("{} {name}, {found}", paint.styled("bad:", Style::Bad))
        }
        _ => format!("{} {name}", paint.styled("not fully verified:", Style::Warn)),
    };
    writeln!(out, "{verdict}")?;
    for (key, value) in lines(report) {
        writeln!(out, "  {}{value}", paint.styled(format!("{key:<14}"), Style::Dim))?;
    }
    for (at, unverified) in report.unverified.iter().enumerate() {
        let key = if at == 0 { "not verified" } else { "" };
        let key = paint.styled(format!("{key:<14}"), Style::Warn);
        writeln!(out, "  {key}{}", unverified_line(unverified))?;
    }
    // With `--strict`, they are among the findings above.
    let warnings = report.warnings.iter().filter(|_| strictness == Strictness::Usual);
    for warning in warnings {
        let text = printable(&warning.to_string());
        writeln!(out, "  {} {text}", paint.styled("warning:", Style::Warn))?;
    }
    Ok(())
}

/// Describes what was checked, for each kind of check that applied.
fn lines(report: &VerifyReport) -> Vec<(&'static str, String)> {
    let what =
        format!("{}, {}", count(report.tensors, "tensor"), count(report.components, "component"));
    let read = format!("{} of {} read", Size(report.read_len), Size(report.stored_len));
    let mut out = vec![("checked", format!("{what}, {read}"))];
    let checked = report.checked();
    if !checked.is_empty() {
        let one = |(name, n): &(&str, u64)| format!("{} {name}", Grouped(*n));
        let all: Vec<String> = checked.iter().map(one).collect();
        out.push(("digests", format!("{} match", all.join(", "))));
    }
    if let Some(content) = &report.content {
        out.push(("content", content.clone()));
    }
    if report.decoded > 0 {
        out.push(("compressed", format!("{} decode as declared", Grouped(report.decoded))));
    }
    if report.bools > 0 {
        out.push(("bool", format!("{} with only 0 and 1", count(report.bools, "component"))));
    }
    if report.sparse > 0 {
        let tensors = count(report.sparse, "tensor");
        out.push(("sparse", format!("{tensors} with indices inside the shape")));
    }
    if report.quantized > 0 {
        let tensors = count(report.quantized, "tensor");
        out.push(("quantized", format!("{tensors} with components that fit the shape")));
    }
    if report.described > 0 {
        let tensors = count(report.described, "tensor");
        out.push(("described", format!("{tensors} with a value for every element")));
    }
    if report.records > 0 {
        let tensors = count(report.records, "tensor");
        out.push(("records", format!("{tensors} with records that fit their schema")));
    }
    if report.blobs > 0 {
        let tensors = count(report.blobs, "tensor");
        out.push(("blobs", format!("{tensors} with valid entries")));
    }
    out
}

fn unverified_line(u: &Unverified) -> String {
    let n = Grouped(u.count);
    let s = plural(u.count);
    let location = match &u.component {
        Some(component) => format!("`{}`, `{}`", escape(&u.tensor), escape(component)),
        None => format!("`{}`", escape(&u.tensor)),
    };
    let what = match u.reason {
        Reason::NoDigest => {
            format!("{n} component{s} without a digest: changes cannot be detected")
        }
        Reason::UnknownDigest => format!("{n} component{s} with a digest of an unknown algorithm"),
        Reason::UnknownLayout => format!("{n} tensor{s} of an unknown layout"),
        Reason::UnknownLogicalType => {
            format!("{n} component{s} of an unknown logical type")
        }
        _ if u.count == 1 => printable(&u.message),
        _ => format!("{}, and {} more", printable(&u.message), Grouped(u.count - 1)),
    };
    if u.count == 1 {
        format!("{what} ({location})")
    } else {
        format!("{what} (the first: {location})")
    }
}

fn json(file: &File, report: &VerifyReport) -> String {
    as_json(&file.to_plain().and(report.to_plain()))
}
