//! `holdall verify` of a package.

use crate::exit::{Failure, Status};
use crate::output::style::Style;
use crate::output::text::{Grouped, Size, count, escape, escape_path, printable};
use crate::session::Session;
use holdall::carton::{Package, PackageReport, PackageVerifyOptions, Strictness, hex};
use holdall::verify::Verdict;
use std::io::Write as _;

/// Verifies the package and prints the result.
pub(crate) fn run(
    session: &Session,
    package: &Package,
    strictness: Strictness,
) -> Result<Status, Failure> {
    let options = PackageVerifyOptions::new()
        .with_strictness(strictness)
        .with_work(session.work("verifying"));
    let report = package.verify(&options)?;
    drop(options);
    if session.json() {
        writeln!(session.out(), "{}", super::json::report(package, &report))?;
    } else {
        text(session, package, &report, strictness)?;
    }
    Ok(match report.verdict() {
        Verdict::Sound => Status::Fine,
        Verdict::Bad => Status::Bad,
        _ => Status::Incomplete,
    })
}

fn text(
    session: &Session,
    package: &Package,
    report: &PackageReport,
    strictness: Strictness,
) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    for finding in &report.findings {
        writeln!(out, "{} {}", paint.styled("bad:", Style::Bad), printable(&finding.to_string()))?;
    }
    let more = report.finding_count - report.findings.len() as u64;
    if more > 0 {
        writeln!(out, "{} and {} more", paint.styled("bad:", Style::Bad), Grouped(more))?;
    }
    let away = report.first_linked.as_ref().map(|first| {
        let files = count(report.linked, "file");
        format!("{files} only linked, and not read (the first: `{}`)", escape(first))
    });
    if session.global.quiet {
        if report.verdict() == Verdict::Incomplete {
            let what = paint.styled("not fully verified:", Style::Warn);
            if let Some(away) = away {
                writeln!(out, "{what} {}: {away}", escape_path(package.name()))?;
            }
            for e in &report.over_limit {
                writeln!(out, "{what} {}", printable(&e.to_string()))?;
            }
        }
        return Ok(());
    }
    let verdict = match report.verdict() {
        Verdict::Sound => paint.styled("sound:", Style::Good),
        Verdict::Bad => paint.styled("bad:", Style::Bad),
        _ => paint.styled("not fully verified:", Style::Warn),
    };
    writeln!(out, "{verdict} {}", paint.styled(escape_path(package.name()), Style::Title))?;
    let mut lines = vec![(
        "checked",
        format!("{}, {} read", count(report.files, "file"), Size(report.read_len)),
    )];
    if report.hashed > 0 {
        lines.push(("hashes", format!("{} match", Grouped(report.hashed))));
    }
    if report.tensors > 0 {
        let tensors = count(report.tensors, "tensor");
        lines.push(("tensors", format!("{tensors} as described in the index")));
    }
    if let Some(hash) = package.hash() {
        lines.push(("model hash", hex(&hash)));
    }
    for (key, value) in lines {
        writeln!(out, "  {}{value}", paint.styled(format!("{key:<14}"), Style::Dim))?;
    }
    let not = "not verified";
    if report.unhashed > 0 {
        let files = count(report.unhashed, "file");
        let key = paint.styled(format!("{not:<14}"), Style::Warn);
        writeln!(out, "  {key}{files} without a hash: changes cannot be detected")?;
    }
    if let Some(away) = away {
        writeln!(out, "  {}{away}", paint.styled(format!("{not:<14}"), Style::Warn))?;
    }
    for e in &report.over_limit {
        let key = paint.styled(format!("{not:<14}"), Style::Warn);
        writeln!(out, "  {key}{}", printable(&e.to_string()))?;
    }
    let more = report.over_limit_count - report.over_limit.len() as u64;
    if more > 0 {
        writeln!(
            out,
            "  {}and {} more",
            paint.styled(format!("{not:<14}"), Style::Warn),
            Grouped(more)
        )?;
    }
    if strictness == Strictness::Usual {
        for warning in report.warnings.iter().map(|w| printable(&w.to_string())) {
            writeln!(out, "  {} {warning}", paint.styled("warning:", Style::Warn))?;
        }
    }
    Ok(())
}
