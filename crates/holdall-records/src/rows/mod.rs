//! Records as people have them, one after the other: lines of JSON, one JSON array, a table (CSV, TSV), or columns (Parquet,
//! Arrow).
//!
//! ```no_run
//! # fn main() -> holdall_core::Result<()> {
//! use holdall_records::{Build, FillOptions, Rows};
//! # let kind = serde_json::json!({});
//! let mut build = Build::create("points.mt", &holdall_io::WriteOptions::new())?;
//! let mut points = build.dataset_of("points", &kind)?;
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
#[cfg_attr(not(feature = "tables"), path = "no_table.rs")]
mod table;

pub use fill::FillOptions;

pub(super) use columns::{Columns, column, unnamed};
pub(super) use fill::Fill;
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

/// How records are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordForm {
    /// A JSON value on each line.
    Ndjson,
    /// One JSON array of values, or values one after the other.
    Json,
    /// Fields with commas between them, names in the first line; or with semicolons, tabs or bars (`|`), where there are such
    /// in the first line and no commas.
    Csv,
    /// Fields with tabs between them, names in the first line.
    Tsv,
    /// Columns in a Parquet file.
    Parquet,
    /// Columns in an Arrow IPC file or stream.
    Arrow,
}

impl RecordForm {
    /// Every form.
    pub const ALL: [RecordForm; 6] = [
        RecordForm::Ndjson,
        RecordForm::Json,
        RecordForm::Csv,
        RecordForm::Tsv,
        RecordForm::Parquet,
        RecordForm::Arrow,
    ];

    /// The form of a file of that name: `.json`, `.csv`, `.tsv` or `.tab`, `.parquet` or `.pq`, `.arrow`, `.arrows`, `.ipc` or
    /// `.feather`, otherwise lines of JSON.
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

    /// The form of a file that starts so, where that says it: of Parquet and Arrow.
    pub(crate) fn of_bytes(start: &[u8]) -> Option<RecordForm> {
        match start {
            [b'P', b'A', b'R', b'1', ..] => Some(RecordForm::Parquet),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => {
                Some(RecordForm::Arrow)
            }
            _ => None,
        }
    }

    /// The form of the file at a path, where its first bytes say it: of Parquet and Arrow.
    pub fn of_file(path: impl AsRef<Path>) -> Option<RecordForm> {
        let file = std::fs::File::open(path).ok()?;
        // A pipe could not be read a second time.
        let is_file = file.metadata().is_ok_and(|m| m.is_file());
        let mut start = Vec::new();
        let read = is_file && file.take(8).read_to_end(&mut start).is_ok();
        RecordForm::of_bytes(&start).filter(|_| read)
    }

    /// Whether it has columns with types, so that no schema has to be given: Parquet, Arrow.
    pub fn has_types(self) -> bool {
        matches!(self, RecordForm::Parquet | RecordForm::Arrow)
    }

    /// Its name: `ndjson`, `json`, `csv`, `tsv`, `parquet`, `arrow`.
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

/// How rows are opened.
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
    /// The form by the file's first bytes or its extension, the default [`Limits`], and JSON arrays of at most 4 GiB.
    pub fn new() -> RowsOptions {
        RowsOptions {
            form: None,
            opening: OpenOptions::new(),
            limits: Limits::default(),
            array_len: 4 << 30,
            work: Work::default(),
        }
    }

    /// The form, whatever the file is called.
    pub fn with_form(mut self, form: RecordForm) -> RowsOptions {
        self.form = Some(form);
        self
    }

    /// What is read at most: a line of JSON has no more bytes than a component may decode to.
    pub fn with_limits(mut self, limits: Limits) -> RowsOptions {
        self.limits = limits;
        self
    }

    /// Bytes of a JSON array, which is read into memory.
    pub fn with_array_len(mut self, bytes: u64) -> RowsOptions {
        self.array_len = bytes;
        self
    }

    /// Opens addresses and files in archives under these options.
    pub fn with_open_options(mut self, options: OpenOptions) -> RowsOptions {
        self.opening = options;
        self
    }

    /// Opens a file of records, a pipe, an address, or a file in an archive: what [`OpenOptions::open`] takes.
    ///
    /// # Errors
    /// As [`RowsOptions::read`]; Io.
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

    /// Opens records that a source has, whose file is called `file`.
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

    /// Reads records from `from`, lines of JSON unless told otherwise. `name` is what errors call it.
    ///
    /// # Errors
    /// `records/array-len`, `input/table`, the `json/…` rules; `records/no-tables` in a build without the
    /// feature `tables`; Io.
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
            // They are read from their ends.
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
            let message = format!("there are more than {cap} bytes");
            return Err(ARRAY_LEN.broken(message).in_source(name));
        }
        Ok(text)
    }
}

with_work!(RowsOptions);

/// Records that are read one after the other: for
/// [`DatasetWriter::fill`](super::DatasetWriter::fill), [`check_rows`](super::check_rows) and
/// [`infer`](super::infer()). Lines and tables take memory for one record at a time, a JSON array for all of it.
#[derive(Debug)]
pub struct Rows {
    cells: Cells,
    name: String,
    depth: usize,
}

enum Cells {
    Lines(Lines),
    /// All text is in memory, and where each value lies in it.
    Array {
        text: Vec<u8>,
        at: std::vec::IntoIter<Span>,
    },
    Table(Table),
    /// Batches, until they are taken.
    Batches(Option<Batched>),
}

/// One record that was read.
pub(super) enum Row<'r> {
    /// Its JSON text.
    Json(&'r [u8]),
    /// A row of a table, whose names are [`Rows::names`].
    Table(&'r Fields),
}

impl Rows {
    /// Opens a file of records, whose form its extension says: see [`RowsOptions`].
    ///
    /// # Errors
    /// As [`RowsOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Rows> {
        RowsOptions::new().open(path)
    }

    /// What errors call them: the path of their file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names in the first line of a table.
    pub fn names(&self) -> Option<&[String]> {
        match &self.cells {
            Cells::Table(table) => Some(table.names()),
            _ => None,
        }
    }

    /// What stands between the fields of a table.
    pub fn delimiter(&self) -> Option<char> {
        match &self.cells {
            Cells::Table(table) => Some(table.delimiter()),
            _ => None,
        }
    }

    /// How deep JSON may nest in them.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// The next record, and the number of its line, from 1.
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
            // Nobody asks for rows of them: they are taken first.
            Cells::Batches(_) => Ok(None),
        }
    }

    /// The schema of a record that is a row, where the file says it: where [`RecordForm::has_types`].
    ///
    /// # Errors
    /// `records/arrow` for a column of a type that records have no kind for.
    pub fn kind(&self) -> Result<Option<Value>> {
        match &self.cells {
            Cells::Batches(Some(batches)) => {
                batches.kind().map(Some).map_err(|e| e.in_source(&self.name))
            }
            _ => Ok(None),
        }
    }

    /// The batches of columns, where they are that; nothing is left then.
    pub(super) fn take_batches(&mut self) -> Option<Batched> {
        match &mut self.cells {
            Cells::Batches(batches) => batches.take(),
            _ => None,
        }
    }

    /// The bytes of lines of JSON, where they are that and none was read; nothing is left then.
    pub(super) fn take_lines(&mut self) -> Option<Box<dyn Read + Send>> {
        match std::mem::replace(&mut self.cells, Cells::empty()) {
            Cells::Lines(lines) => Some(lines.into_reader()),
            other => {
                self.cells = other;
                None
            }
        }
    }

    /// The same error, said to be in that line.
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
        })
    }
}

/// A value of a text.
struct Span {
    start: usize,
    end: usize,
    line: u64,
}

/// Where the values of an array lie; a value that is not an array is one.
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
        // Lines of JSON have this extension, too.
        take(&mut reader)?;
        while reader.end().is_err() {
            take(&mut reader)?;
        }
    }
    Ok(all)
}

/// The byte order mark in UTF-8, which some programs put before text.
pub(super) const MARK: &[u8] = "\u{feff}".as_bytes();

/// A reader of what follows the mark.
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

/// Reading `name` failed.
#[cold]
fn failed(e: io::Error, name: &str) -> Error {
    // That of the work, where it was no longer wanted.
    if let Some(cancelled) = e.get_ref().and_then(|e| e.downcast_ref::<Error>()) {
        return cancelled.clone();
    }
    io(e, "reading").in_source(name)
}

/// A reader that tells how far it is.
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
