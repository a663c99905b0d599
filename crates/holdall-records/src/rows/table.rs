//! Tables: CSV and TSV with names in the first line.

use super::{at_line, failed};
use crate::rules::TABLE;
use csv::{ErrorKind, Reader, ReaderBuilder};
use holdall_core::{Error, Result};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The fields of a row.
pub(crate) use csv::StringRecord as Fields;

/// A reader of the rows of a table.
pub(super) struct Table {
    reader: Reader<Box<dyn Read + Send>>,
    names: Vec<String>,
    comma: u8,
    row: Fields,
    /// The first invalid quote in the text read so far.
    quotes: Arc<Fault>,
}

impl Table {
    /// Creates a reader of a table with `comma` between its fields, or with the delimiter of its first line if that is
    /// `None`.
    pub(super) fn new(
        reader: Box<dyn Read + Send>,
        comma: Option<u8>,
        name: &str,
    ) -> Result<Table> {
        let (comma, reader) = match comma {
            Some(comma) => (comma, reader),
            None => delimited(reader).map_err(|e| failed(e, name))?,
        };
        let mut builder = ReaderBuilder::new();
        builder.delimiter(comma).buffer_capacity(1 << 20);
        let quotes = Arc::new(Fault::default());
        let reader: Box<dyn Read + Send> = Box::new(Quotes {
            reader,
            comma,
            at: At::Start,
            line: 1,
            opened: 0,
            fault: quotes.clone(),
        });
        let mut reader = builder.from_reader(reader);
        let names: Vec<String> = match reader.headers() {
            Ok(names) => names.iter().map(str::to_owned).collect(),
            Err(e) => return Err(csv_error(e, 1, name)),
        };
        if names.is_empty() {
            return Err(TABLE.broken("the first line with names is missing").in_source(name));
        }
        Ok(Table { reader, names, comma, row: Fields::new(), quotes })
    }

    /// Returns the character that separates the fields.
    pub(super) fn delimiter(&self) -> char {
        char::from(self.comma)
    }

    /// Returns the names in the first line.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the next row and the number of its line, counted from 1.
    pub(super) fn next(&mut self, name: &str) -> Result<Option<(u64, &Fields)>> {
        let line = self.reader.position().line();
        let read = self.reader.read_record(&mut self.row);
        self.quotes.check(name)?;
        match read {
            Ok(false) => Ok(None),
            Ok(true) => {
                let line = self.row.position().map_or(line, csv::Position::line);
                Ok(Some((line, &self.row)))
            }
            Err(e) => Err(csv_error(e, line, name)),
        }
    }
}

/// The possible delimiters of fields; if several are equally frequent, the first one is used.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Detects the delimiter in the first line, and returns it with a reader of the whole text.
fn delimited(mut reader: Box<dyn Read + Send>) -> io::Result<(u8, Box<dyn Read + Send>)> {
    /// Largest number of bytes of the first line to look at.
    const MAX_FIRST_LINE: usize = 1 << 20;
    let mut start = Vec::new();
    let mut found = (b',', false);
    while !found.1 && start.len() < MAX_FIRST_LINE {
        let (before, more) = (start.len(), start.len().max(1 << 12));
        reader.by_ref().take(more as u64).read_to_end(&mut start)?;
        if start.len() == before {
            break;
        }
        found = first_line(&start);
    }
    Ok((found.0, Box::new(io::Cursor::new(start).chain(reader))))
}

/// Returns the delimiter of the first line that is not empty, and whether that line ends in `text`.
fn first_line(text: &[u8]) -> (u8, bool) {
    let mut counts = [0usize; DELIMITERS.len()];
    let (mut is_start, mut is_quoted, mut is_empty, mut ends) = (true, false, true, false);
    for b in text {
        let delimiter = DELIMITERS.iter().position(|d| d == b).filter(|_| !is_quoted);
        match b {
            b'"' if is_start || is_quoted => is_quoted = !is_quoted,
            b'\n' | b'\r' if !is_quoted && is_empty => continue,
            b'\n' | b'\r' if !is_quoted => {
                ends = true;
                break;
            }
            _ => {}
        }
        if let Some(count) = delimiter.and_then(|at| counts.get_mut(at)) {
            *count += 1;
        }
        (is_start, is_empty) = (delimiter.is_some(), false);
    }
    // Commas take precedence, because the other characters may be parts of names. `max_by_key` returns the last of
    // equal items.
    let others = DELIMITERS.iter().zip(counts).skip(1).rev().filter(|(_, count)| *count > 0);
    let most = others.max_by_key(|(_, count)| *count).map_or(b',', |(delimiter, _)| *delimiter);
    (if counts[0] > 0 { b',' } else { most }, ends)
}

/// The position of an invalid quote in a table, if any. Without this check, a lenient reader would take the rest of the
/// table for one cell.
#[derive(Default)]
struct Fault {
    /// The line of a quote that is never closed, counted from 1; 0 if every quote is closed.
    unclosed: AtomicU64,
    after: AtomicU64,
}

impl Fault {
    fn check(&self, name: &str) -> Result<()> {
        let wrong =
            |line: u64, message: &'static str| Err(at_line(TABLE.broken(message), line, name));
        match (self.after.load(Ordering::Relaxed), self.unclosed.load(Ordering::Relaxed)) {
            (0, 0) => Ok(()),
            (0, line) => wrong(line, "a quote is opened here that is never closed"),
            (line, _) => {
                wrong(line, "there is text between a closing quote and the end of the cell")
            }
        }
    }
}

/// The position of a reader within a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    Plain,
    Quoted,
    /// After a quote in a quoted cell: either the end of the cell, or the first of two quotes.
    Quote,
}

/// A reader that checks the quotes of a table.
struct Quotes {
    reader: Box<dyn Read + Send>,
    comma: u8,
    at: At,
    line: u64,
    /// The line of the last opening quote.
    opened: u64,
    fault: Arc<Fault>,
}

impl Read for Quotes {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buf)?;
        for &b in buf.get(..n).unwrap_or_default() {
            self.at = match (self.at, b) {
                (At::Start, b'"') => {
                    self.opened = self.line;
                    At::Quoted
                }
                (At::Quoted, b'"') => At::Quote,
                (At::Quoted, _) | (At::Quote, b'"') => At::Quoted,
                (_, b'\n' | b'\r') => At::Start,
                (_, b) if b == self.comma => At::Start,
                (At::Quote, _) => {
                    let line = &self.fault.after;
                    let _ =
                        line.compare_exchange(0, self.line, Ordering::Relaxed, Ordering::Relaxed);
                    At::Plain
                }
                (At::Start | At::Plain, _) => At::Plain,
            };
            self.line += u64::from(b == b'\n');
        }
        if n == 0 && !buf.is_empty() && self.at == At::Quoted {
            self.fault.unclosed.store(self.opened, Ordering::Relaxed);
        }
        Ok(n)
    }
}

fn csv_error(e: csv::Error, line: u64, name: &str) -> Error {
    let line = e.position().map_or(line, csv::Position::line);
    let message = match e.kind() {
        ErrorKind::Utf8 { err, .. } => format!("field {} is not UTF-8", err.field() + 1),
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("expected {expected_len} fields as in the first line, found {len}")
        }
        _ => e.to_string(),
    };
    match e.into_kind() {
        ErrorKind::Io(io) => failed(io, name),
        _ => at_line(TABLE.broken(message), line, name),
    }
}
