//! Parquet and Arrow files: detecting and writing them. `given` and `build` read them.

#[cfg(feature = "parquet")]
use crate::exit::ARGUMENTS;
use crate::exit::{Failure, Status};
use crate::given;
use crate::session::Session;
#[cfg(not(feature = "parquet"))]
use holdall::records::rules::NO_PARQUET;
use holdall::records::{Blob, Query, RecordForm, Records};
use std::ops::Range;
use std::path::Path;

/// Returns the form of the output, by `--to` or the extension, if it is a file of columns.
pub(crate) fn target(to: Option<&str>, output: &Path) -> Option<RecordForm> {
    match to {
        Some("parquet") => Some(RecordForm::Parquet),
        Some("arrow") => Some(RecordForm::Arrow),
        Some(_) => None,
        None => Some(RecordForm::from_path(output)).filter(|form| form.has_types()),
    }
}

/// Returns the form of an existing file, by its first bytes or its extension, or of a file at an address, by its extension,
/// if it is a file of columns.
pub(crate) fn source(input: &Path) -> Option<given::RecordFormArg> {
    let is_address = || input.to_str().is_some_and(|text| text.contains("://"));
    let by_name = || {
        let form = Some(RecordForm::from_path(input)).filter(|form| form.has_types());
        form.filter(|_| input.is_file() || is_address())
    };
    match RecordForm::of_file(input).or_else(by_name)? {
        RecordForm::Parquet => Some(given::RecordFormArg::Parquet),
        _ => Some(given::RecordFormArg::Arrow),
    }
}

/// The rows of a file of columns.
// Unused in builds without support for such files.
#[cfg_attr(not(feature = "parquet"), allow(dead_code))]
pub(crate) enum Columns<'a> {
    /// The records that a query returns, with these members, or with all.
    Records(&'a Records, Query<'a>, &'a [String]),
    /// Runs of a blob, as one column.
    Blob(&'a Blob, Range<u64>),
}

/// Writes a file of columns, and reports it.
#[cfg(feature = "parquet")]
pub(crate) fn write(
    session: &Session,
    rows: Columns<'_>,
    form: RecordForm,
    out: &Path,
    force: bool,
) -> Result<Status, Failure> {
    match rows {
        Columns::Records(records, query, columns) => {
            let columns = records.arrow(columns)?;
            written(session, form, out, force, &columns.schema(), |writer| {
                writer.records(&columns, query.run()?)
            })
        }
        Columns::Blob(blob, range) => {
            let schema = blob.arrow(range.start..range.start)?.schema();
            written(session, form, out, force, &schema, |writer| runs(writer, blob, range))
        }
    }
}

/// Writes runs of a blob, in batches.
#[cfg(feature = "parquet")]
fn runs(
    writer: &mut holdall::records::TableWriter,
    blob: &Blob,
    range: Range<u64>,
) -> holdall::Result<u64> {
    /// Maximum bytes and runs per batch.
    const BYTES: u64 = 32 << 20;
    const RUNS: u64 = 8192;
    let mut at = range.start;
    while at < range.end {
        let (start, mut bytes) = (at, 0u64);
        while at < range.end && at - start < RUNS && (bytes < BYTES || at == start) {
            bytes = bytes.saturating_add(blob.get(at)?.len() as u64);
            at += 1;
        }
        writer.batch(&blob.arrow(start..at)?)?;
    }
    Ok(range.end - range.start)
}

/// Writes a file with the rows that `fill` adds, and reports it.
#[cfg(feature = "parquet")]
fn written(
    session: &Session,
    form: RecordForm,
    out: &Path,
    force: bool,
    schema: &holdall::records::arrow::arrow_schema::SchemaRef,
    fill: impl FnOnce(&mut holdall::records::TableWriter) -> holdall::Result<u64>,
) -> Result<Status, Failure> {
    use crate::output::as_json;
    use crate::output::text::{Size, count, escape_path};
    use crate::writing;
    use holdall::records::TableWriter;
    use std::io::Write as _;
    if out.as_os_str() == "-" {
        let e = ARGUMENTS.broken("columns cannot be written to standard output");
        return Err(e.with_hint("name a file").into());
    }
    let options = holdall::WriteOptions::new();
    let options = options.with_overwrite(force).with_work(session.silent_work());
    let target = writing::Output::begin(session, out, force)?;
    let mut writer = TableWriter::create(target.path(), form, schema, &options)?;
    fill(&mut writer)?;
    let report = writer.finish()?;
    target.publish()?;
    let name = out.display().to_string();
    if session.json() {
        let fields = holdall::fields! {
            target: &name,
            format: form.as_str(),
            records: report.rows,
            target_len: report.target_len,
        };
        writeln!(session.out(), "{}", as_json(&fields))?;
        return Ok(Status::Fine);
    }
    let kind = if form == RecordForm::Parquet { "Parquet" } else { "Arrow" };
    let (rows, size) = (count(report.rows, "record"), Size(report.target_len));
    session.note(format_args!("{}: {kind}, {rows}, {size}", escape_path(&name)));
    Ok(Status::Fine)
}

/// Returns an error: this build does not support such files.
#[cfg(not(feature = "parquet"))]
pub(crate) fn write(
    _: &Session,
    _: Columns<'_>,
    form: RecordForm,
    _: &Path,
    _: bool,
) -> Result<Status, Failure> {
    let name = if form == RecordForm::Parquet { "Parquet" } else { "Arrow" };
    Err(NO_PARQUET.broken(format!("this build does not write {name} files")).into())
}
