//! `holdall schema migrate`.

use super::read;
use crate::exit::{Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::text::{Size, count, escape};
use crate::session::Session;
use crate::writing::{self, Writing};
use clap::Args;
use holdall::fields;
use holdall::records::{Migration, MigrationReport};
use holdall::schema::Reading;
use holdall::schema::evolve::rules::DROPS_MEMBER;
use holdall::{Error, File};
use std::io::Write as _;
use std::path::PathBuf;

/// Write a file anew under another schema: its records, or the tensors of a model
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema migrate old.mt new.json -o new.mt                  members match by name
  holdall schema migrate old.mt new.json -o new.mt --rename text=caption
  holdall schema migrate old.mt new.json -o new.mt --drop           leave out what is no longer there
  holdall schema migrate model.mt whole.json -o new.mt --rename up.weight=w1 --drop

Numbers widen, values of enums and variants of unions match by name, and members that are new take
their default or are absent; `holdall schema diff` says beforehand what it comes to. Nothing is left
out unless --drop says so. Everything else in the file stays as it is. Records go through one by one:
memory does not grow with the file.")]
pub(crate) struct MigrateArgs {
    /// The file, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The new schema (JSON): of a record, or of the whole file
    #[arg(value_name = "SCHEMA")]
    schema: PathBuf,

    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// The dataset that a record's schema is for [default: the only one]
    #[arg(short, long, value_name = "PATH")]
    path: Option<String>,

    /// The member that is NEW in the new schema is OLD in the file, in the same struct, or so is a tensor;
    /// may be given again
    #[arg(long, value_name = "NEW=OLD", value_parser = rename)]
    rename: Vec<(String, String)>,

    /// Leave out members, and tensors, that the new schema does not have
    #[arg(long)]
    drop: bool,

    /// Replace OUT if it is there
    #[arg(short, long)]
    force: bool,

    /// The format, perhaps with a version [default: as the extension of OUT says]
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,

    #[command(flatten)]
    writing: Writing,
}

fn rename(text: &str) -> Result<(String, String), String> {
    let (new, old) = text.split_once('=').ok_or("write NEW=OLD, for example text=caption")?;
    Ok((new.to_owned(), old.to_owned()))
}

/// Migrates.
pub(crate) fn run(session: &Session, args: &MigrateArgs) -> Result<Status, Failure> {
    input::check_once([&args.file, &args.schema])?;
    writing::check_is_file(&args.output)?;
    let file = input::open(session, &args.file)?;
    let schema = read::schema(session, &args.schema, Reading::ByContent)?;
    let options =
        args.writing.of_records(session.work("writing"), args.to.as_deref(), args.force)?;
    let mut migration = Migration::new(schema).with_limits(session.global.limits().of_schemas());
    if let Some(path) = &args.path {
        migration = migration.with_dataset(path);
    }
    for (new, old) in &args.rename {
        migration = migration.with_rename(new, old);
    }
    if args.drop {
        migration = migration.with_drop();
    }
    let migration = migration.with_work(session.work("migrating"));
    let migrated = migration.run(&file, &args.output, &options);
    drop((migration, options));
    tell(session, &file, args, &migrated.map_err(advised)?)?;
    Ok(Status::Fine)
}

/// An error about what would be left out, with the options that say what becomes of it.
fn advised(e: Error) -> Error {
    if e.code() != DROPS_MEMBER.code {
        return e;
    }
    e.with_hint("`--rename NEW=OLD` says where it is now, `--drop` leaves it out")
}

fn tell(
    session: &Session,
    file: &File,
    args: &MigrateArgs,
    report: &MigrationReport,
) -> Result<(), Failure> {
    let target = args.output.display().to_string();
    if session.json() {
        let fields = fields! {
            source: file.name(),
            target: &target,
            records: report.records,
            tensors: report.tensors,
            dropped: &report.dropped,
            target_len: report.target_len,
        };
        writeln!(session.out(), "{}", as_json(&fields))?;
        return Ok(());
    }
    let what = match report.records {
        0 => count(report.tensors, "tensor"),
        records => count(records, "record"),
    };
    let mut text =
        format!("{}: {what} under the new schema, {}", escape(&target), Size(report.target_len));
    if !report.dropped.is_empty() {
        let dropped: Vec<String> =
            report.dropped.iter().map(|p| format!("`{}`", escape(p))).collect();
        text.push_str(&format!("; left out: {}", dropped.join(", ")));
    }
    session.note(text);
    Ok(())
}
