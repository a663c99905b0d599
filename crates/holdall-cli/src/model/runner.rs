//! `holdall runner`: tests programs that run models, and offers the built-in runners as such programs.

use crate::exit::{Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::remedy::advice;
use crate::output::style::Style;
use crate::output::text::{count, printable};
use crate::session::Session;
use clap::{Args, Subcommand};
use holdall::carton::Package;
use holdall::fields;
use holdall::plain::Plain;
use holdall_run::process::{check, serve};
use holdall_run::{LogLine, Program, Runners, Settings};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Programs that run models: test one, or be one
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall runner check -- python3 -m holdall.runners.torchscript
  holdall runner check --package model.carton -- ./my-runner --fast

A runner is a program that implements the protocol of docs/spec/runner.md. `holdall run \
--runner-command COMMAND` starts it, and so does a configuration file:

  [runners.torchscript]
  command = [\"python3\", \"-m\", \"holdall.runners.torchscript\"]")]
pub(crate) struct RunnerArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Check(CheckArgs),
    Serve(ServeArgs),
}

/// Test whether a program is a valid runner: its handshake, its responses to wrong inputs and invalid frames, and how
/// it ends
#[derive(Debug, Args)]
struct CheckArgs {
    /// A package whose model the runner can run; also runs its self-tests
    #[arg(long, value_name = "PACKAGE")]
    package: Option<PathBuf>,

    /// Maximum seconds for each answer
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = super::seconds)]
    timeout: Duration,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Act as a built-in runner for the program that started this one, over standard input
#[derive(Debug, Args)]
#[command(hide = true)]
struct ServeArgs {
    /// The name of the runner, such as onnx
    runner: String,

    /// Run ONNX graphs with this library of ONNX Runtime
    #[cfg(feature = "run-onnxruntime")]
    #[arg(long, value_name = "LIBRARY")]
    onnxruntime: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(session: &Session, args: &RunnerArgs) -> Result<Status, Failure> {
    match &args.action {
        Action::Check(args) => tried(session, args),
        Action::Serve(args) => served(args),
    }
}

fn tried(session: &Session, args: &CheckArgs) -> Result<Status, Failure> {
    let open = |path: &PathBuf| Package::open_with(path, &input::options(session));
    let package = args.package.as_ref().map(open).transpose()?;
    let name = package.as_ref().map_or("", |package| package.description().runner.name.as_str());
    crate::signals::leave_nothing_behind();
    let prefix = session.err_paint().styled("runner:", Style::Dim).to_string();
    let is_quiet = session.global.quiet;
    let settings = Settings::default().with_timeout(args.timeout).with_log(move |line: LogLine| {
        if !is_quiet {
            // If standard error cannot be written to, the error cannot be reported.
            let _ = writeln!(std::io::stderr(), "{prefix} {}", printable(&line.text));
        }
    });
    let program = Program::new(name, args.command.clone());
    let mut printed = Ok(());
    let trials = check::check(&program, package.as_ref(), &settings.runner, &mut |trial| {
        if !session.json() && printed.is_ok() {
            printed = report_trial(session, trial);
        }
    })?;
    printed?;
    let failed = trials.iter().filter(|trial| trial.error.is_some()).count();
    let passed = trials.len() - failed;
    let out = &mut *session.out();
    if session.json() {
        let trials = Plain::list(&trials);
        writeln!(out, "{}", as_json(&fields!(passed: passed, failed: failed, trials: trials)))?;
    } else if !is_quiet {
        let trials = count(trials.len() as u64, "trial");
        writeln!(out, "{trials}: {passed} passed, {failed} failed")?;
    }
    Ok(if failed == 0 { Status::Fine } else { Status::Bad })
}

fn report_trial(session: &Session, trial: &check::CheckResult) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    match &trial.error {
        None if session.global.quiet => {}
        None => writeln!(out, "{}  {}", paint.styled("ok", Style::Good), trial.requirement)?,
        Some(e) => {
            writeln!(out, "{}  {}", paint.styled("failed", Style::Bad), trial.requirement)?;
            writeln!(out, "  {}", printable(&e.to_string()))?;
            if let Some(hint) = advice(e) {
                writeln!(out, "  {} {}", paint.styled("hint:", Style::Note), printable(&hint))?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

fn served(args: &ServeArgs) -> Result<Status, Failure> {
    #[allow(unused_mut)]
    let mut runners = Runners::default();
    #[cfg(feature = "run-onnxruntime")]
    if let Some(library) = &args.onnxruntime {
        runners = runners.with(holdall_run::onnx::OnnxRuntime::load(library)?);
    }
    serve::serve(runners.find(&args.runner)?)?;
    Ok(Status::Fine)
}

/// Returns the runners with the ONNX engine in a separate process, which is this program. Returns them unchanged if the
/// path of this program is unknown.
pub(super) fn with_separate_onnx(runners: Runners, engine: Option<&Path>) -> Runners {
    if !runners.names().contains(&"onnx") {
        return runners;
    }
    let Some(mut command) = crate::signals::this_program() else { return runners };
    command.extend(["runner", "serve", "onnx"].map(OsString::from));
    if let Some(library) = engine {
        let library = library.canonicalize().unwrap_or_else(|_| library.to_owned());
        command.extend(["--onnxruntime".into(), library.into()]);
    }
    runners.with(Program::new("onnx", command))
}
