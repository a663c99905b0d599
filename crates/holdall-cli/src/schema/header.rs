//! `holdall schema header`.

use super::{infer, read};
use crate::exit::{Failure, Status};
use crate::session::Session;
use clap::Args;
use holdall::schema::Reading;
use std::path::PathBuf;

/// Print the JSON Schema with which plain validators can check a header's tensors
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema header model.json -o header.json   of a schema
  holdall schema header old.mt                      of a file without `header_schema`

A schema describes records, but the header of a file has references to them. The printed schema describes the \
references, with standard keywords only, so that any JSON Schema validator can check `tensors` of a header. Metatensor \
files that need it store it under `header_schema` (docs/spec/metatensor.md, 2.10).")]
pub(crate) struct HeaderArgs {
    /// The schema of a file (JSON), a tensor file, or `-` for standard input
    #[arg(value_name = "SCHEMA|FILE")]
    source: PathBuf,

    /// Write the schema into this file
    #[arg(short, long, value_name = "SCHEMA")]
    output: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(short, long, requires = "output")]
    force: bool,
}

/// Prints the schema.
pub(crate) fn run(session: &Session, args: &HeaderArgs) -> Result<Status, Failure> {
    let schema = read::schema(session, &args.source, Reading::ByContent)?.header_schema()?;
    infer::put(session, &schema, args.output.as_deref(), args.force)?;
    Ok(Status::Fine)
}
