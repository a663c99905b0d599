//! `holdall test`.

use super::Running;
use crate::exit::{Failure, Status};
use crate::number::short;
use crate::output::as_json;
use crate::output::remedy::advice;
use crate::output::style::Style;
use crate::output::text::{count, escape, escape_path, printable};
use crate::session::Session;
use clap::Args;
use holdall::fields;
use holdall::plain::Plain;
use holdall_run::self_test::{ToleranceOverride, self_tests};
use holdall_run::{OutputReport, TestReport};
use std::io::Write as _;

/// Run the self-tests of a package and compare the model's outputs
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall test iris.carton                     exit status 0: all passed, 1: one failed
  holdall test iris.carton --rtol 1e-3         with a larger tolerance
  holdall test iris.carton --json | jq '.tests[].outputs[].max_abs'

An output is close if |found - expected| <= atol + rtol * |expected|; integers and strings must \
be equal. A model's code runs with all your rights: test packages that you trust.")]
pub(crate) struct TestArgs {
    #[command(flatten)]
    running: Running,

    /// Relative tolerance [default: the package's, otherwise 1e-5]
    #[arg(long, value_name = "X", value_parser = tolerance, allow_hyphen_values = true)]
    rtol: Option<f64>,

    /// Absolute tolerance [default: the package's, otherwise 1e-8]
    #[arg(long, value_name = "X", value_parser = tolerance, allow_hyphen_values = true)]
    atol: Option<f64>,

    /// Treat NaN as equal to NaN
    #[arg(long)]
    equal_nan: bool,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let found: Option<f64> = text.parse().ok();
    found
        .filter(|x| *x >= 0.0)
        .ok_or_else(|| "expected a number of at least 0, for example 1e-5".to_owned())
}

/// Runs all self-tests.
pub(crate) fn run(session: &Session, args: &TestArgs) -> Result<Status, Failure> {
    let package = args.running.open(session)?;
    let change = ToleranceOverride {
        rtol: args.rtol,
        atol: args.atol,
        equal_nan: args.equal_nan.then_some(true),
    };
    if package.description().self_tests.is_empty() {
        session.warn(format_args!("{}: there are no self-tests", escape_path(package.name())));
    }
    let mut model = args.running.load(session, &package)?;
    let mut printed = Ok(());
    let value = |name: &str| package.value(name);
    let reports = self_tests(&mut model, &value, change, &mut |report| {
        if !session.json() && printed.is_ok() {
            printed = text(session, report);
        }
    });
    printed?;
    let passed = reports.iter().filter(|r| r.passed()).count();
    let failed = reports.len() - passed;
    let out = &mut *session.out();
    if session.json() {
        let fields = fields! {
            package: package.name(),
            passed: passed,
            failed: failed,
            tests: Plain::list(&reports),
        };
        writeln!(out, "{}", as_json(&fields))?;
    } else if !session.global.quiet {
        writeln!(
            out,
            "{}: {passed} passed, {failed} failed",
            count(reports.len() as u64, "self-test")
        )?;
    }
    Ok(if failed == 0 { Status::Fine } else { Status::Bad })
}

fn text(session: &Session, report: &TestReport) -> Result<(), Failure> {
    let passed = report.passed();
    if passed && session.global.quiet {
        return Ok(());
    }
    let out = &mut *session.out();
    let paint = session.paint();
    let word = match passed {
        true => paint.styled("ok", Style::Good),
        false => paint.styled("failed", Style::Bad),
    };
    writeln!(out, "{word}  {}", escape(&report.name))?;
    if let Some(e) = &report.error {
        writeln!(out, "  {}", printable(&e.to_string()))?;
        if let Some(hint) = advice(e) {
            writeln!(out, "  {} {}", paint.styled("hint:", Style::Note), printable(&hint))?;
        }
    }
    for output in &report.outputs {
        writeln!(out, "  {}: {}", escape(&output.name), describe(output))?;
    }
    out.flush()?;
    Ok(())
}

fn describe(output: &OutputReport) -> String {
    let c = &output.comparison;
    if let Some(mismatch) = &c.mismatch {
        return printable(mismatch);
    }
    let far = match c.max_abs {
        0.0 => None,
        f64::INFINITY => Some("the largest difference is infinite".to_owned()),
        abs => Some(format!("at most {} off, relative {}", short(abs), short(c.max_rel))),
    };
    match &c.first {
        None => far.unwrap_or_else(|| "equal".to_owned()),
        Some(first) => {
            let part = first.part.map_or(String::new(), |p| format!("tensor {p}, "));
            // Strings and NaN have no distance.
            let far = far.map_or(String::new(), |far| format!("; {far}"));
            format!(
                "{} of {} too far; first at {part}{:?}: {}, expected {}{far}",
                c.differ,
                count(c.count, "element"),
                first.index,
                printable(&first.found),
                printable(&first.expected)
            )
        }
    }
}
