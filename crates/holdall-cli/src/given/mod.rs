//! Records as the user gives them: lines of JSON, one JSON array, or a table (CSV, TSV).

mod columns;
pub(crate) mod files;
mod lines;
mod table;

pub(crate) use columns::Columns;
pub(crate) use files::{FileMembers, Files};
pub(crate) use table::Table;

use crate::exit::{Failure, STDIN_LEN};
use crate::input;
use crate::session::Session;
use clap::ValueEnum;
use holdall::{Error, Result, Work};
use holdall_schema::json::Reader;
use lines::Lines;
use std::io::{self, Read};
use std::path::Path;

/// How records are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A JSON value on each line
    Ndjson,
    /// One JSON array of values, or one value
    Json,
    /// Fields with commas between them, names in the first line
    Csv,
    /// The same with tabs
    Tsv,
}

impl Form {
    /// The form of a file of that name; lines of JSON where the name says nothing.
    pub(crate) fn of(path: &Path) -> Form {
        match path.extension().and_then(|e| e.to_str()) {
            Some("json") => Form::Json,
            Some("csv") => Form::Csv,
            Some("tsv" | "tab") => Form::Tsv,
            _ => Form::Ndjson,
        }
    }
}

/// Records, one after the other.
pub(crate) enum Rows {
    /// JSON texts.
    Json(Texts),
    /// Rows of a table.
    Table(Table),
}

/// JSON texts, one after the other.
pub(crate) enum Texts {
    Lines(Lines),
    /// All text is in memory, and where each value lies in it.
    Whole {
        text: Vec<u8>,
        at: std::vec::IntoIter<Span>,
    },
}

/// A value of a text.
pub(crate) struct Span {
    start: usize,
    end: usize,
    line: u64,
}

impl Texts {
    /// The next text and the number of its line, from 1.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        match self {
            Texts::Lines(lines) => lines.next(),
            Texts::Whole { text, at } => {
                Ok(at.next().map(|s| (s.line, text.get(s.start..s.end).unwrap_or_default())))
            }
        }
    }
}

/// Opens records; `-` is standard input. The work is told of the bytes that are read.
pub(crate) fn open(
    session: &Session,
    path: &Path,
    form: Option<Form>,
    work: &Work,
) -> Result<Rows, Failure> {
    let name = input::shown(path);
    let mut reader = reader(path, work)?;
    let limits = session.global.limits();
    match form.unwrap_or_else(|| Form::of(path)) {
        Form::Ndjson => {
            let lines = Lines::new(reader, name, limits.decoded_len);
            Ok(Rows::Json(Texts::Lines(lines)))
        }
        Form::Json => {
            let cap = session.global.stdin_len();
            let mut text = Vec::new();
            let read = reader.by_ref().take(cap.saturating_add(1)).read_to_end(&mut text);
            read.map_err(|e| failed(e, &name))?;
            if text.len() as u64 > cap {
                let e = STDIN_LEN.broken(format!("there are more than {cap} bytes"));
                return Err(e
                    .with_hint("write a record on each line: that is not read at once")
                    .in_source(name)
                    .into());
            }
            let at = spans(&text, limits.depth).map_err(|e| e.in_source(&name))?.into_iter();
            Ok(Rows::Json(Texts::Whole { text, at }))
        }
        Form::Csv => Ok(Rows::Table(Table::new(reader, b',', name)?)),
        Form::Tsv => Ok(Rows::Table(Table::new(reader, b'\t', name)?)),
    }
}

/// The bytes of a file, or of standard input when it is `-`; the work is told of them.
pub(crate) fn reader(path: &Path, work: &Work) -> Result<Box<dyn Read + Send>, Failure> {
    let (len, reader) = input::stream(path)?;
    work.begin(len.unwrap_or(0));
    let reader = Counted { reader, work: work.clone() };
    without_mark(reader).map_err(|e| failed(e, &input::shown(path)).into())
}

/// A reader of what follows the mark that some programs put before UTF-8.
fn without_mark(mut reader: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut start = Vec::new();
    reader.by_ref().take(MARK.len() as u64).read_to_end(&mut start)?;
    if start == MARK {
        start.clear();
    }
    Ok(Box::new(io::Cursor::new(start).chain(reader)))
}

/// The byte order mark in UTF-8.
pub(crate) const MARK: &[u8] = "\u{feff}".as_bytes();

/// Where the values of an array lie; a value that is none is one.
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
    if reader.peek()? == holdall_schema::json::Token::Array {
        reader.begin_array()?;
        while reader.next_item()? {
            take(&mut reader)?;
        }
    } else {
        take(&mut reader)?;
    }
    reader.end()?;
    Ok(all)
}

/// The same error, said to be in that line of that source.
#[cold]
pub(crate) fn at_line(e: Error, line: u64, source: &str) -> Error {
    let located = e.rule().broken(format!("line {line}: {}", e.message()));
    let located = match e.hint() {
        Some(hint) => located.with_hint(hint.to_owned()),
        None => located,
    };
    located.in_source(source)
}

/// Reading `name` failed.
#[cold]
pub(crate) fn failed(e: io::Error, name: &str) -> Error {
    let rule = &holdall::error::IO;
    rule.broken(format!("reading: {e}")).with_io(e).in_source(name)
}

/// A reader that tells the work what was read.
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
