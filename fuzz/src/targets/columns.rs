//! Whatever bytes are read as a Parquet or an Arrow file, they end in rows or in an error of the file's: each row is a record
//! of the kind that the file says, or a finding, and a second reading is the same.
//!
//! Where the decoders of others panic, that is caught, and is an error as well.

use crate::limits;
use crate::walk::is_of_the_file;
use holdall::Error;
use holdall::records::{FillOptions, RecordForm, Rows, RowsOptions, check_rows};
use holdall::schema::{Document, Reading, SchemaLimits};
use std::io::Cursor;

/// Panics where it does not hold.
pub fn run(data: &[u8]) {
    let first = read(data);
    assert_eq!(first, read(data), "another answer the second time");
}

/// How many rows there are and what is wrong with them; or the code of what is wrong with the file.
fn read(data: &[u8]) -> Result<(u64, Vec<&'static str>), &'static str> {
    let rows = open(data).map_err(code)?;
    let kind = rows.kind().map_err(code)?.expect("columns say what they are");
    let limits = SchemaLimits::default();
    let schema = Document::new(kind, "input", Reading::Record, &limits).map_err(code)?;
    let report = check_rows(rows, &schema, &FillOptions::new(), &limits).map_err(code)?;
    Ok((report.records, report.findings.into_iter().map(|f| code(f.error)).collect()))
}

/// The code of an error that is the file's. Columns and rows that are not records break the same rules as those of a caller.
fn code(e: Error) -> &'static str {
    if e.code() != "records/arrow" && !e.code().starts_with("record/") {
        is_of_the_file(&e);
    }
    e.code()
}

fn open(data: &[u8]) -> holdall::Result<Rows> {
    let form = match data {
        [b'P', b'A', b'R', b'1', ..] => RecordForm::Parquet,
        [.., b'P', b'A', b'R', b'1'] => RecordForm::Parquet,
        _ => RecordForm::Arrow,
    };
    let options = RowsOptions::new().with_form(form).with_limits(limits::tight());
    options.read(Cursor::new(data.to_vec()), "input")
}
