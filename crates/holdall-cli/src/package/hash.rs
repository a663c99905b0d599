//! `holdall hash`.

use crate::exit::{Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::text::escape_path;
use crate::session::Session;
use clap::Args;
use holdall::carton::hex;
use holdall::fields;
use std::io::Write as _;
use std::path::PathBuf;

/// Print the model hash of packages: one hash for all files of a package
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall hash model.carton
  holdall hash *.carton --json

The hash is the hash of the list of files with their hashes. It is read, not \
computed from the files; `holdall verify` checks the files.")]
pub(crate) struct HashArgs {
    /// Packages
    #[arg(required = true, value_name = "PACKAGE")]
    packages: Vec<PathBuf>,
}

/// Prints the hashes.
pub(crate) fn run(session: &Session, args: &HashArgs) -> Result<Status, Failure> {
    input::check_once(&args.packages)?;
    session.each(&args.packages, |path| {
        let package = super::expect(session, path)?;
        let hash = package.hash().map(|hash| hex(&hash));
        if session.json() {
            writeln!(session.out(), "{}", as_json(&fields!(source: package.name(), hash: hash)))?;
            return Ok(Status::Fine);
        }
        let Some(hash) = hash else {
            let rule = &holdall::carton::rules::NO_FILE;
            let e = rule.broken("the folder has no `MANIFEST`, so it has no hash");
            let e = e.in_source(package.name());
            return Err(e.with_hint("`holdall pack` makes a package of it").into());
        };
        match args.packages.len() {
            1 => writeln!(session.out(), "{hash}")?,
            _ => writeln!(session.out(), "{hash}  {}", escape_path(package.name()))?,
        }
        Ok(Status::Fine)
    })
}
