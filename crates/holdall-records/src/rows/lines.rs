//! Lines of text, read with bounded memory.

use super::{at_line, failed};
use holdall_core::Result;
use holdall_schema::record::rules::TOO_LARGE;
use std::io::{BufRead as _, BufReader, Read};

/// A reader of lines that skips blank ones.
pub(super) struct Lines {
    reader: BufReader<Box<dyn Read + Send>>,
    line: Vec<u8>,
    /// The number of lines that were read.
    line_number: u64,
    max_len: u64,
}

impl Lines {
    /// Creates a reader of lines of at most `max_len` bytes.
    pub(super) fn new(reader: Box<dyn Read + Send>, max_len: u64) -> Lines {
        let reader = BufReader::with_capacity(1 << 20, reader);
        Lines { reader, line: Vec::new(), line_number: 0, max_len }
    }

    /// Returns the underlying reader, if no line was read yet.
    pub(super) fn into_reader(self) -> Box<dyn Read + Send> {
        self.reader.into_inner()
    }

    /// Returns the next line without its line end, and its number, counted from 1.
    pub(super) fn next(&mut self, name: &str) -> Result<Option<(u64, &[u8])>> {
        loop {
            self.line.clear();
            let cap = self.max_len.saturating_add(1);
            let mut part = (&mut self.reader).take(cap);
            let n = part.read_until(b'\n', &mut self.line).map_err(|e| failed(e, name))?;
            if n == 0 {
                return Ok(None);
            }
            self.line_number += 1;
            if self.line.len() as u64 > self.max_len {
                let e = TOO_LARGE.broken(format!("the line has more than {} bytes", self.max_len));
                return Err(at_line(e, self.line_number, name));
            }
            if self.line.iter().any(|b| !b.is_ascii_whitespace()) {
                break;
            }
        }
        Ok(Some((self.line_number, &self.line)))
    }
}
