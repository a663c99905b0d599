//! Reading any bytes as a Parquet or an Arrow file returns rows, or an error of the file. Each row is a record of the
//! kind that the file states, or a finding, and a second reading gives the same result.
//!
//! Panics in the decoders of other crates are caught, and count as errors.

use crate::limits;
use crate::walk::is_of_the_file;
use holdall::Error;
use holdall::records::{FillOptions, RecordForm, Rows, RowsOptions, check_rows};
use holdall::schema::{Document, Reading, SchemaLimits};
use std::io::Cursor;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let first = read(data);
    assert_eq!(first, read(data), "another answer the second time");
}

/// Returns the number of rows and their errors, or the code of the file's error.
fn read(data: &[u8]) -> Result<(u64, Vec<&'static str>), &'static str> {
    let rows = open(data).map_err(code)?;
    let kind = rows.row_schema().map_err(code)?.expect("columns say what they are");
    let limits = SchemaLimits::default();
    let schema = Document::new(kind, "input", Reading::Record, &limits).map_err(code)?;
    let report = check_rows(rows, &schema, &FillOptions::new(), &limits).map_err(code)?;
    Ok((report.records, report.findings.into_iter().map(|f| code(f.error)).collect()))
}

/// Returns the code of an error of the file. Columns and rows that are not records break the same rules as those of a
/// caller.
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
