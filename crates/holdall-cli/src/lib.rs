//! The `holdall` command: inspects, verifies, converts, compares, extracts and edits tensor and model files. `main.rs`
//! is the executable; the Python package has the same command.
//!
//! Each command is a module with a function `run`. Shared modules: `commands` is the command tree, `args` has shared
//! arguments, `input` opens files and standard input, `output` writes text and JSON, `progress` draws bars, and `exit`
//! turns errors into messages and an exit status.

#![cfg_attr(docsrs, feature(doc_cfg))]
mod args;
mod build;
mod commands;
mod completions;
mod convert;
mod delta;
mod diff;
mod edit;
mod elements;
mod exit;
mod extract;
mod formats;
mod given;
mod input;
mod inspect;
#[cfg(all(feature = "http", feature = "carton"))]
mod links;
#[cfg(feature = "carton")]
mod model;
mod number;
mod output;
#[cfg(feature = "carton")]
mod package;
mod platform;
mod progress;
mod recipe;
mod records;
mod rules;
mod salvage;
#[cfg(feature = "pytorch")]
mod scan;
mod schema;
mod serve;
mod session;
mod signals;
mod tables;
mod verify;
mod view;
mod writing;

pub use args::size;
pub use signals::{own_signals, set_program_command};

use clap::{CommandFactory, FromArgMatches};
use commands::{Cli, Command};
use exit::{EarlyOptions, Failure, Status};
use session::Session;
use std::ffi::OsString;

/// Runs a command line, whose first argument is the name of the program, and returns the exit status.
pub fn run(mut args: Vec<OsString>) -> u8 {
    platform::outlive_file_limits();
    if args.get(1).is_some_and(|command| command == "help") {
        // `holdall help --help` prints the same as `holdall help`.
        args.retain(|arg| arg != "--help" && arg != "-h");
    }
    let early = EarlyOptions::from_args(args.iter().cloned());
    let command = Cli::command().color(early.color.clap());
    let parsed = command.try_get_matches_from(args).and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(e) => return exit::report_usage(e, &early),
    };
    let session = Session::new(cli.global);
    let done = session.read_layouts().and_then(|()| dispatch(&session, cli.command));
    match done.and_then(|status| session.finish().map(|()| status)) {
        Ok(status) => status.into(),
        Err(Failure::Closed) => 0,
        Err(Failure::Reported(code)) => code,
        Err(Failure::Error(e)) => exit::report(&e, session.json(), session.err_paint()),
    }
}

fn dispatch(session: &Session, command: Command) -> Result<Status, Failure> {
    match command {
        Command::Inspect(args) => inspect::run(session, &args),
        Command::Verify(args) => verify::run(session, &args),
        Command::Diff(args) => diff::run(session, &args),
        Command::Convert(args) => convert::run(session, &args),
        Command::Edit(args) => edit::run(session, &args),
        #[cfg(feature = "carton")]
        Command::Pack(args) => package::pack::run(session, &args),
        #[cfg(feature = "carton")]
        Command::Unpack(args) => package::unpack::run(session, &args),
        #[cfg(feature = "carton")]
        Command::Hash(args) => package::hash::run(session, &args),
        Command::Extract(args) => extract::run(session, &args),
        #[cfg(feature = "carton")]
        Command::Test(args) => model::test::run(session, &args),
        #[cfg(feature = "carton")]
        Command::Run(args) => model::run::run(session, &args),
        #[cfg(feature = "carton")]
        Command::Runner(args) => model::runner::run(session, &args),
        Command::Build(args) => build::run(session, &args),
        Command::Records(args) => records::run(session, &args),
        Command::Recipe(args) => recipe::run(session, &args),
        Command::Schema(args) => schema::run(session, &args),
        #[cfg(all(feature = "http", feature = "carton"))]
        Command::Shrink(args) => links::shrink::run(session, &args),
        #[cfg(all(feature = "http", feature = "carton"))]
        Command::Fetch(args) => links::fetch::run(session, &args),
        Command::Serve(args) => serve::run(session, &args),
        Command::Delta(args) => delta::run(session, &args),
        Command::Salvage(args) => salvage::run(session, &args),
        Command::View(args) => view::run(session, &args),
        #[cfg(feature = "pytorch")]
        Command::Scan(args) => scan::run(session, &args),
        Command::Formats => formats::run(session),
        Command::Rules(args) => rules::run(session, &args),
        Command::Completions(args) => completions::run(session, &args),
        Command::Man(args) => completions::man(session, &args),
    }
}
