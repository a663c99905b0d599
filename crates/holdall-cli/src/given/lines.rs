//! Lines of text, in bounded memory.

use super::{at_line, failed};
use holdall::Result;
use holdall_schema::record::rules::TOO_LARGE;
use std::io::{BufRead as _, BufReader, Read};

/// Lines that are not blank.
pub(crate) struct Lines {
    reader: BufReader<Box<dyn Read + Send>>,
    name: String,
    line: Vec<u8>,
    number: u64,
    most: u64,
}

impl Lines {
    /// Lines of at most `most` bytes.
    pub(super) fn new(reader: Box<dyn Read + Send>, name: String, most: u64) -> Lines {
        let reader = BufReader::with_capacity(1 << 20, reader);
        Lines { reader, name, line: Vec::new(), number: 0, most }
    }

    /// The next line without its end, and its number from 1.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        loop {
            self.line.clear();
            let cap = self.most.saturating_add(1);
            let mut part = (&mut self.reader).take(cap);
            let n = part.read_until(b'\n', &mut self.line).map_err(|e| failed(e, &self.name))?;
            if n == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.line.len() as u64 > self.most {
                let e = TOO_LARGE.broken(format!("the line has more than {} bytes", self.most));
                return Err(at_line(e, self.number, &self.name));
            }
            if self.line.iter().any(|b| !b.is_ascii_whitespace()) {
                break;
            }
        }
        Ok(Some((self.number, &self.line)))
    }
}
