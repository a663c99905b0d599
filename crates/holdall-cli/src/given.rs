//! Records that the user provides: their format, and the files that they name.

use crate::exit::Failure;
use crate::input;
use crate::session::Session;
use clap::{Args, ValueEnum};
use holdall::Work;
use holdall::operations::Operation;
use holdall::records::{FillOptions, Rows, RowsOptions};
use holdall::schema::{Null, Unknown};
use std::path::{Path, PathBuf};

/// The format of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordFormArg {
    /// A JSON value on each line
    Ndjson,
    /// One JSON array of values, or values one after the other
    Json,
    /// Comma-separated fields, with names in the first line
    Csv,
    /// Tab-separated fields, with names in the first line
    Tsv,
    /// Columns in a Parquet file
    Parquet,
    /// Columns in an Arrow IPC file or stream
    Arrow,
}

impl From<RecordFormArg> for holdall::records::RecordForm {
    fn from(form: RecordFormArg) -> Self {
        match form {
            RecordFormArg::Ndjson => Self::Ndjson,
            RecordFormArg::Json => Self::Json,
            RecordFormArg::Csv => Self::Csv,
            RecordFormArg::Tsv => Self::Tsv,
            RecordFormArg::Parquet => Self::Parquet,
            RecordFormArg::Arrow => Self::Arrow,
        }
    }
}

/// The files whose bytes become members of records.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// The folder with the files that records name
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,

    /// Fill this member with the bytes (or text) of the file in --files that the record names; can be repeated
    #[arg(long = "file-member", value_name = "MEMBER", requires = "files")]
    pub(crate) members: Vec<String>,
}

/// Deviations from the schema that are accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lenience {
    pub(crate) ignore_unknown: bool,
    pub(crate) null_absent: bool,
}

/// Returns the options for converting records to those of a schema.
pub(crate) fn fill_options(files: &Files, lenience: Lenience) -> FillOptions {
    let mut options = FillOptions::new();
    if lenience.ignore_unknown {
        options = options.with_unknown(Unknown::Ignore);
    }
    if lenience.null_absent {
        options = options.with_null(Null::Absent);
    }
    match &files.files {
        Some(folder) => options.with_files(folder, files.members.iter().cloned()),
        None => options,
    }
}

/// Opens records; `-` is standard input. `work` counts the bytes read.
pub(crate) fn open(
    session: &Session,
    path: &Path,
    form: Option<RecordFormArg>,
    work: Work,
) -> Result<Rows, Failure> {
    input::check_location(Operation::Build, path)?;
    let mut options = RowsOptions::new()
        .with_limits(session.global.limits())
        .with_array_len(session.global.stdin_len())
        .with_open_options(input::options(session))
        .with_work(work);
    if let Some(form) = form {
        options = options.with_form(form.into());
    }
    Ok(match path.as_os_str() == "-" {
        true => options.read(std::io::stdin(), input::STDIN)?,
        false => options.open(path)?,
    })
}
