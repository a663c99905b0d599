//! Reads records, one after the other, from lines of JSON, a JSON array, a table (CSV, TSV) or columns (Parquet,
//! Arrow).
//!
//! ```no_run
//! # fn main() -> holdall_core::Result<()> {
//! use holdall_records::{Build, FillOptions, Rows};
//! # let kind = serde_json::json!({});
//! let mut build = Build::create("points.mt", &holdall_io::WriteOptions::new())?;
//! let mut points = build.dataset_with_schema("points", &kind)?;
//! points.fill(Rows::open("points.csv")?, &FillOptions::new())?;
//! build.add(points)?;
//! build.finish()?;
//! # Ok(())
//! # }
//! ```

mod columns;
mod files;
mod fill;
mod lines;
mod source;
#[cfg_attr(not(feature = "tables"), path = "no_table.rs")]
mod table;

pub use fill::FillOptions;
pub use source::{RowSink, RowSource};

pub(super) use columns::{Columns, column, unnamed};
pub(super) use fill::Fill;
pub(super) use source::infer_rows;
pub(super) use table::Fields;

use super::rules::ARRAY_LEN;
use crate::batched::Batched;
use holdall_core::{Error, Limits, Result};
use holdall_io::error::io;
use holdall_io::source::{FileSource, MemorySource, SourceReader};
use holdall_io::{ByteSource, Location, OpenOptions, Work, with_work};
use holdall_json::{Reader, Token};
use lines::Lines;
use serde_json::Value;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use table::Table;

/// The file format of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordForm {
    /// A JSON value on each line.
    Ndjson,
    /// One JSON array of values, or values one after the other.
    Json,
    /// Comma-separated fields, names in the first line. If the first line contains no commas, but semicolons, tabs or
    /// bars (`|`), those separate the fields.
    Csv,
    /// Tab-separated fields, names in the first line.
    Tsv,
    /// Columns in a Parquet file.
    Parquet,
    /// Columns in an Arrow IPC file or stream.
    Arrow,
}

impl RecordForm {
    /// All formats.
    pub const ALL: [RecordForm; 6] = [
        RecordForm::Ndjson,
        RecordForm::Json,
        RecordForm::Csv,
        RecordForm::Tsv,
        RecordForm::Parquet,
        RecordForm::Arrow,
    ];

    /// Returns the format for a file name: `.json`, `.csv`, `.tsv` or `.tab`, `.parquet` or `.pq`, `.arrow`, `.arrows`,
    /// `.ipc` or `.feather`, otherwise lines of JSON.
    pub fn from_path(path: impl AsRef<Path>) -> RecordForm {
        match path.as_ref().extension().and_then(|e| e.to_str()) {
            Some("json") => RecordForm::Json,
            Some("csv") => RecordForm::Csv,
            Some("tsv" | "tab") => RecordForm::Tsv,
            Some("parquet" | "pq") => RecordForm::Parquet,
            Some("arrow" | "arrows" | "ipc" | "feather") => RecordForm::Arrow,
            _ => RecordForm::Ndjson,
        }
    }

    /// Detects Parquet and Arrow by the first bytes of a file. Returns `None` for other formats.
    pub(crate) fn of_bytes(start: &[u8]) -> Option<RecordForm> {
        match start {
            [b'P', b'A', b'R', b'1', ..] => Some(RecordForm::Parquet),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => {
                Some(RecordForm::Arrow)
            }
            _ => None,
        }
    }

    /// Detects Parquet and Arrow by the first bytes of the file at a path. Returns `None` for other formats.
    pub fn of_file(path: impl AsRef<Path>) -> Option<RecordForm> {
        let file = std::fs::File::open(path).ok()?;
        // A pipe could not be read a second time.
        let is_file = file.metadata().is_ok_and(|m| m.is_file());
        let mut start = Vec::new();
        let read = is_file && file.take(8).read_to_end(&mut start).is_ok();
        RecordForm::of_bytes(&start).filter(|_| read)
    }

    /// Returns `true` if the format has columns with types, so that no schema is needed: Parquet and Arrow.
    pub fn has_types(self) -> bool {
        matches!(self, RecordForm::Parquet | RecordForm::Arrow)
    }

    /// Returns the name of the format: `ndjson`, `json`, `csv`, `tsv`, `parquet` or `arrow`.
    pub fn as_str(self) -> &'static str {
        match self {
            RecordForm::Ndjson => "ndjson",
            RecordForm::Json => "json",
            RecordForm::Csv => "csv",
            RecordForm::Tsv => "tsv",
            RecordForm::Parquet => "parquet",
            RecordForm::Arrow => "arrow",
        }
    }
}

/// Options for opening rows.
#[derive(Debug, Clone)]
pub struct RowsOptions {
    form: Option<RecordForm>,
    opening: OpenOptions,
    limits: Limits,
    array_len: u64,
    work: Work,
}

impl Default for RowsOptions {
    fn default() -> RowsOptions {
        RowsOptions::new()
    }
}

impl RowsOptions {
    /// Returns the default options: the format is detected by the file's first bytes or its extension, [`Limits`] are
    /// the default, and JSON arrays have at most 4 GiB.
    pub fn new() -> RowsOptions {
        RowsOptions {
            form: None,
            opening: OpenOptions::new(),
            limits: Limits::default(),
            array_len: 4 << 30,
            work: Work::default(),
        }
    }

    /// Sets the format, regardless of the file's name.
    pub fn with_form(mut self, form: RecordForm) -> RowsOptions {
        self.form = Some(form);
        self
    }

    /// Sets the limits. A line of JSON has at most as many bytes as a component may decode to.
    pub fn with_limits(mut self, limits: Limits) -> RowsOptions {
        self.limits = limits;
        self
    }

    /// Sets the largest length in bytes of a JSON array, which is read into memory.
    pub fn with_array_len(mut self, bytes: u64) -> RowsOptions {
        self.array_len = bytes;
        self
    }

    /// Sets the options for opening addresses and files in archives.
    pub fn with_open_options(mut self, options: OpenOptions) -> RowsOptions {
        self.opening = options;
        self
    }

    /// Opens a file of records, a pipe, an address or a file in an archive: everything that [`OpenOptions::open`]
    /// accepts.
    ///
    /// # Errors
    /// Returns the errors of [`RowsOptions::read`], or an I/O error.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Rows> {
        let path = path.as_ref();
        let location = Location::new(path);
        if location.as_path().is_none() {
            let (source, name) = self.opening.checked_source_at(&location)?;
            return self.open_source(source, name, Path::new(location.file_name()));
        }
        let failed = |e: io::Error| io(e, "opening").in_source(path.display());
        let file = std::fs::File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if metadata.is_file() {
            self.work.begin(metadata.len());
        }
        let form = self
            .form
            .or_else(|| RecordForm::of_file(path))
            .unwrap_or_else(|| RecordForm::from_path(path));
        if form.has_types() && metadata.is_file() {
            return self.batched(
                Arc::new(FileSource::open(path)?),
                form,
                path.display().to_string(),
            );
        }
        self.start(Box::new(file), form, path.display().to_string())
    }

    /// Opens the records of a source. The extension of `file` decides the format.
    fn open_source(&self, source: Arc<dyn ByteSource>, name: String, file: &Path) -> Result<Rows> {
        self.work.begin(source.len());
        let start = source.read_range(0..source.len().min(8))?;
        let by_bytes = || RecordForm::of_bytes(&start);
        let form = self.form.or_else(by_bytes).unwrap_or_else(|| RecordForm::from_path(file));
        match form.has_types() {
            true => self.batched(source, form, name),
            false => self.start(Box::new(SourceReader::new(source)), form, name),
        }
    }

    /// Reads records from `from`. Without [`RowsOptions::with_form`], they are lines of JSON. `name` is used in errors.
    ///
    /// # Errors
    /// Returns `records/array-len` if a JSON array is too long, `input/table` for an invalid table, an error of the
    /// `json/…` rules, `records/no-tables` in a build without the feature `tables`, or an I/O error.
    pub fn read(&self, from: impl Read + Send + 'static, name: impl Into<String>) -> Result<Rows> {
        self.start(Box::new(from), self.form.unwrap_or(RecordForm::Ndjson), name.into())
    }

    fn start(&self, reader: Box<dyn Read + Send>, form: RecordForm, name: String) -> Result<Rows> {
        let reader = Counted { reader, work: self.work.clone() };
        let reader = without_mark(reader).map_err(|e| failed(e, &name))?;
        let depth = self.limits.depth;
        let cells = match form {
            RecordForm::Ndjson => Cells::Lines(Lines::new(reader, self.limits.decoded_len)),
            RecordForm::Json => {
                let text = self.whole(reader, &name)?;
                let at = spans(&text, depth).map_err(|e| e.in_source(&name))?.into_iter();
                Cells::Array { text, at }
            }
            RecordForm::Csv => Cells::Table(Table::new(reader, None, &name)?),
            RecordForm::Tsv => Cells::Table(Table::new(reader, Some(b'\t'), &name)?),
            // These formats are read from the end, so they are loaded into memory.
            RecordForm::Parquet | RecordForm::Arrow => {
                let all = self.whole(reader, &name)?;
                return self.batched(Arc::new(MemorySource::new(all)), form, name);
            }
        };
        Ok(Rows { cells, name, depth })
    }

    fn batched(&self, source: Arc<dyn ByteSource>, form: RecordForm, name: String) -> Result<Rows> {
        let batches = Batched::open(source, form, &self.limits, &self.work);
        let batches = batches.map_err(|e| e.in_source(&name))?;
        Ok(Rows { cells: Cells::Batches(Some(batches)), name, depth: self.limits.depth })
    }

    fn whole(&self, reader: Box<dyn Read + Send>, name: &str) -> Result<Vec<u8>> {
        let cap = self.array_len;
        let mut text = Vec::new();
        let read = reader.take(cap.saturating_add(1)).read_to_end(&mut text);
        read.map_err(|e| failed(e, name))?;
        if text.len() as u64 > cap {
            let message = format!("the input has more than {cap} bytes");
            return Err(ARRAY_LEN.broken(message).in_source(name));
        }
        Ok(text)
    }
}

with_work!(RowsOptions);

/// A reader of records, for [`DatasetWriter::fill`](super::DatasetWriter::fill), [`check_rows`](super::check_rows) and
/// [`infer`](super::infer()). Lines and tables need memory for one record at a time, a JSON array for all of its text.
#[derive(Debug)]
pub struct Rows {
    cells: Cells,
    name: String,
    depth: usize,
}

enum Cells {
    Lines(Lines),
    /// The whole text in memory, and the position of each value in it.
    Array {
        text: Vec<u8>,
        at: std::vec::IntoIter<Span>,
    },
    Table(Table),
    /// Batches of columns; `None` once they have been taken.
    Batches(Option<Batched>),
    /// Rows that their source encodes; `None` once they have been taken.
    Source(Option<Box<dyn RowSource>>),
}

/// One record that was read.
pub(super) enum Row<'r> {
    /// The JSON text of the record.
    Json(&'r [u8]),
    /// A row of a table. The names of its columns are [`Rows::names`].
    Table(&'r Fields),
}

impl Rows {
    /// Opens a file of records; its first bytes or its extension decide the format. See [`RowsOptions`].
    ///
    /// # Errors
    /// Returns the same errors as [`RowsOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Rows> {
        RowsOptions::new().open(path)
    }

    /// Returns the rows of batches of columns, which have no [`Rows::row_schema`]. `name` is used in errors. Columns
    /// whose type is not that of their member are converted as JSON values are: integers to floats, base64 text to
    /// bytes, text to times, structs to unions.
    #[cfg(feature = "arrow")]
    pub fn from_batches(
        batches: impl Iterator<Item = Result<arrow_array::RecordBatch>> + Send + 'static,
        name: impl Into<String>,
    ) -> Rows {
        let batches = Batched::from_batches(batches);
        let depth = Limits::default().depth;
        Rows { cells: Cells::Batches(Some(batches)), name: name.into(), depth }
    }

    /// Returns the rows of batches in memory, like [`Rows::from_batches`]. [`Build::add_rows`](crate::Build::add_rows)
    /// needs no temporary files for them.
    #[cfg(feature = "arrow")]
    pub fn from_table(batches: Vec<arrow_array::RecordBatch>, name: impl Into<String>) -> Rows {
        let depth = Limits::default().depth;
        let batches = Batched::from_table(batches);
        Rows { cells: Cells::Batches(Some(batches)), name: name.into(), depth }
    }

    /// Returns the rows of a source that encodes them itself. `name` is used in errors.
    pub fn from_source(source: impl RowSource + 'static, name: impl Into<String>) -> Rows {
        let (cells, depth) = (Cells::Source(Some(Box::new(source))), Limits::default().depth);
        Rows { cells, name: name.into(), depth }
    }

    /// Returns the name to use in errors: the path of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the names in the first line of a table.
    pub fn names(&self) -> Option<&[String]> {
        match &self.cells {
            Cells::Table(table) => Some(table.names()),
            _ => None,
        }
    }

    /// Returns the character that separates the fields of a table.
    pub fn delimiter(&self) -> Option<char> {
        match &self.cells {
            Cells::Table(table) => Some(table.delimiter()),
            _ => None,
        }
    }

    /// Returns the largest nesting depth of JSON.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the next record and the number of its line, counted from 1.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Row<'_>)>> {
        let name = &self.name;
        match &mut self.cells {
            Cells::Lines(lines) => {
                Ok(lines.next(name)?.map(|(line, text)| (line, Row::Json(text))))
            }
            Cells::Array { text, at } => Ok(at.next().map(|span| {
                (span.line, Row::Json(text.get(span.start..span.end).unwrap_or_default()))
            })),
            Cells::Table(table) => Ok(table.next(name)?.map(|(line, row)| (line, Row::Table(row)))),
            // Callers take batches and sources first, so none are read one row at a time.
            Cells::Batches(_) | Cells::Source(_) => Ok(None),
        }
    }

    /// Returns the schema of a row if the file's format has types: see [`RecordForm::has_types`].
    ///
    /// # Errors
    /// Returns `records/arrow` if a column has a type that records have no kind for.
    pub fn row_schema(&self) -> Result<Option<Value>> {
        match &self.cells {
            Cells::Batches(Some(batches)) => {
                batches.row_schema().map_err(|e| e.in_source(&self.name))
            }
            _ => Ok(None),
        }
    }

    /// Returns the batches of columns in memory, if the rows are such.
    #[cfg(feature = "arrow")]
    pub(super) fn table(&self) -> Option<&[arrow_array::RecordBatch]> {
        match &self.cells {
            Cells::Batches(Some(batches)) => batches.table(),
            _ => None,
        }
    }

    /// Takes the batches of columns, if this is a file of columns. No rows are left afterwards.
    pub(super) fn take_batches(&mut self) -> Option<Batched> {
        match &mut self.cells {
            Cells::Batches(batches) => batches.take(),
            _ => None,
        }
    }

    /// Takes the source of rows that are neither text nor columns. No rows are left afterwards.
    pub(super) fn take_source(&mut self) -> Option<Box<dyn RowSource>> {
        match &mut self.cells {
            Cells::Source(source) => source.take(),
            _ => None,
        }
    }

    /// Takes the reader of JSON lines, if these are JSON lines and none was read yet. No rows are left afterwards.
    pub(super) fn take_lines(&mut self) -> Option<Box<dyn Read + Send>> {
        match std::mem::replace(&mut self.cells, Cells::empty()) {
            Cells::Lines(lines) => Some(lines.into_reader()),
            other => {
                self.cells = other;
                None
            }
        }
    }

    /// Adds the number of a line to an error.
    #[cold]
    pub(super) fn at_line(&self, e: Error, line: u64) -> Error {
        at_line(e, line, &self.name)
    }
}

impl Cells {
    fn empty() -> Cells {
        Cells::Array { text: Vec::new(), at: Vec::new().into_iter() }
    }
}

impl std::fmt::Debug for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Cells::Lines(_) => "lines",
            Cells::Array { .. } => "array",
            Cells::Table(_) => "table",
            Cells::Batches(_) => "batches",
            Cells::Source(_) => "source",
        })
    }
}

/// The position of a value in a text.
struct Span {
    start: usize,
    end: usize,
    line: u64,
}

/// Returns the positions of the values of an array. A value that is not an array counts as one value.
fn spans(text: &[u8], depth: usize) -> Result<Vec<Span>> {
    let mut reader = Reader::new(text, 0, depth)?;
    let mut all = Vec::new();
    let (mut line, mut counted) = (1u64, 0usize);
    let mut take = |reader: &mut Reader<'_>| -> Result<()> {
        reader.peek()?;
        let start = usize::try_from(reader.offset()).unwrap_or(usize::MAX);
        reader.skip()?;
        let end = usize::try_from(reader.offset()).unwrap_or(usize::MAX);
        let before = text.get(counted..start).unwrap_or_default();
        line += before.iter().filter(|b| **b == b'\n').count() as u64;
        counted = start;
        all.push(Span { start, end, line });
        Ok(())
    };
    if reader.peek()? == Token::Array {
        reader.begin_array()?;
        while reader.next_item()? {
            take(&mut reader)?;
        }
        reader.end()?;
    } else {
        // Files of JSON lines can have this extension, too.
        take(&mut reader)?;
        while reader.end().is_err() {
            take(&mut reader)?;
        }
    }
    Ok(all)
}

/// The byte order mark in UTF-8, which some programs write before text.
pub(super) const MARK: &[u8] = "\u{feff}".as_bytes();

/// Returns a reader that skips a byte order mark.
fn without_mark(mut reader: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut start = Vec::new();
    reader.by_ref().take(MARK.len() as u64).read_to_end(&mut start)?;
    if start == MARK {
        start.clear();
    }
    Ok(Box::new(io::Cursor::new(start).chain(reader)))
}

#[cold]
fn at_line(e: Error, line: u64, source: &str) -> Error {
    e.within(format!("line {line}")).in_source(source)
}

/// Returns the error for a failed read of `name`.
#[cold]
fn failed(e: io::Error, name: &str) -> Error {
    // A cancelled read returns the error of the cancelled work.
    if let Some(cancelled) = e.get_ref().and_then(|e| e.downcast_ref::<Error>()) {
        return cancelled.clone();
    }
    io(e, "reading").in_source(name)
}

/// A reader that reports its progress.
struct Counted {
    reader: Box<dyn Read + Send>,
    work: Work,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buf)?;
        self.work.advance(n as u64).map_err(io::Error::other)?;
        Ok(n)
    }
}
