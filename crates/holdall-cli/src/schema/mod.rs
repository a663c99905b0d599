//! `holdall schema`: shows, checks, compares and infers schemas, generates code, and migrates files.

mod check;
mod code;
mod diff;
pub(crate) mod evolution;
mod header;
mod infer;
mod layout;
mod migrate;
mod plan;
pub(crate) mod read;
mod show;
mod table;

use crate::exit::{Failure, Status};
use crate::session::Session;
use clap::{Args, Subcommand};

/// Work with schemas of records: show layouts, check, compare, infer, migrate
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema layout point.json                 the offsets of a record's members
  holdall schema check point.json points.ndjson    check the schema, and whether the records fit it
  holdall schema diff old.json new.json            check whether the new schema can read old files
  holdall schema infer points.csv -o point.json    infer a schema from data
  holdall schema code point.json --lang rust       structs that mirror the records
  holdall schema header model.json                 a schema for plain validators

A schema is JSON: `{\"TypeDef:Struct\": [\"x\", \"y\"], \"properties\": {…}}`. The specification \
(docs/spec/metatensor.md) describes its keywords.")]
pub(crate) struct SchemaArgs {
    #[command(subcommand)]
    action: Action,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
enum Action {
    Layout(layout::LayoutArgs),
    Check(check::CheckArgs),
    Diff(diff::DiffArgs),
    Infer(infer::InferArgs),
    Code(code::CodeArgs),
    Header(header::HeaderArgs),
    Migrate(migrate::MigrateArgs),
}

/// Runs the subcommand.
pub(crate) fn run(session: &Session, args: &SchemaArgs) -> Result<Status, Failure> {
    match &args.action {
        Action::Layout(args) => layout::run(session, args),
        Action::Check(args) => check::run(session, args),
        Action::Diff(args) => diff::run(session, args),
        Action::Infer(args) => infer::run(session, args),
        Action::Code(args) => code::run(session, args),
        Action::Header(args) => header::run(session, args),
        Action::Migrate(args) => migrate::run(session, args),
    }
}
