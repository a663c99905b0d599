//! Tables: CSV and TSV, names in the first line.

use super::{at_line, failed};
use crate::exit::TABLE;
use csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};
use holdall::{Error, Result};
use std::io::Read;

/// Rows of text.
pub(crate) struct Table {
    reader: Reader<Box<dyn Read + Send>>,
    name: String,
    names: Vec<String>,
    row: StringRecord,
}

impl Table {
    pub(super) fn new(reader: Box<dyn Read + Send>, comma: u8, name: String) -> Result<Table> {
        let mut builder = ReaderBuilder::new();
        builder.delimiter(comma).buffer_capacity(1 << 20);
        let mut reader = builder.from_reader(reader);
        let names = match reader.headers() {
            Ok(names) => names.iter().map(str::to_owned).collect(),
            Err(e) => return Err(told(e, 1, &name)),
        };
        Ok(Table { reader, name, names, row: StringRecord::new() })
    }

    /// What the first line says.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The next row, and the number of its line, from 1.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &StringRecord)>> {
        let line = self.reader.position().line();
        match self.reader.read_record(&mut self.row) {
            Ok(false) => Ok(None),
            Ok(true) => {
                let line = self.row.position().map_or(line, csv::Position::line);
                Ok(Some((line, &self.row)))
            }
            Err(e) => Err(told(e, line, &self.name)),
        }
    }
}

fn told(e: csv::Error, line: u64, name: &str) -> Error {
    let line = e.position().map_or(line, csv::Position::line);
    let message = match e.kind() {
        ErrorKind::Utf8 { err, .. } => format!("field {} is not UTF-8", err.field() + 1),
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields, where the first line has {expected_len}")
        }
        _ => e.to_string(),
    };
    match e.into_kind() {
        ErrorKind::Io(io) => failed(io, name),
        _ => at_line(TABLE.broken(message), line, name),
    }
}
