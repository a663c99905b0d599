//! `holdall unpack`.

use crate::exit::{Failure, Status};
use crate::output::as_json;
use crate::output::text::{count, escape_path};
use crate::session::Session;
use crate::writing;
use clap::Args;
use holdall::carton::UnpackOptions;
use holdall::{fields, plain::Plain};
use std::io::Write as _;
use std::path::PathBuf;

/// Write the files of a package into a new folder, each checked against its hash
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall unpack model.carton                    into the folder `model`
  holdall unpack model.carton -o here --force    replaces the folder `here`
  holdall unpack model.carton --model -o weights only what is under model/

The folder appears once everything is written and every hash is right, or not \
at all. It opens like the package: `holdall inspect model`.")]
pub(crate) struct UnpackArgs {
    /// A package
    #[arg(value_name = "PACKAGE")]
    package: PathBuf,

    /// The folder to create [default: in the current folder, named after PACKAGE without its extension]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Write only the files in `model/`, without that folder
    #[arg(long)]
    model: bool,

    /// Replace the whole folder if it exists
    #[arg(short, long)]
    force: bool,
}

/// Unpacks a package.
pub(crate) fn run(session: &Session, args: &UnpackArgs) -> Result<Status, Failure> {
    let package = super::expect(session, &args.package)?;
    let to = match &args.output {
        Some(to) => to.clone(),
        None => match args.package.extension() {
            Some(_) => PathBuf::from(args.package.file_stem().unwrap_or_default()),
            None => {
                let rule = &crate::exit::ARGUMENTS;
                let e = rule.broken(
                    "the package's name has no extension, so there is no default folder name",
                );
                return Err(e.with_hint("name the folder with `-o`").into());
            }
        },
    };
    let options =
        UnpackOptions::new().with_overwrite(args.force).with_work(session.work("unpacking"));
    crate::signals::leave_nothing_behind();
    let report = match args.model {
        true => package.unpack_model_with(&to, &options)?,
        false => package.unpack_with(&to, &options)?,
    };
    drop(options);
    if session.json() {
        let report = fields!(
            folder: to.display().to_string(),
            files: report.files,
            left_behind: Plain::list(&report.left_behind),
        );
        writeln!(session.out(), "{}", as_json(&report))?;
    } else if !session.global.quiet {
        let to = escape_path(&to.display().to_string());
        writeln!(session.out(), "{to}: {}", count(report.files, "file"))?;
        writing::left_behind(session, &report.left_behind);
    }
    Ok(Status::Fine)
}
