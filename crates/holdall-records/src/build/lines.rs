//! Encodes lines of JSON as records, on several threads and in order.

use super::dataset::DatasetWriter;
use super::merge::{Merge, THREADS, in_order};
use crate::rules::LINE;
use holdall_core::{Error, Result};
use holdall_io::error::io;
use holdall_schema::Encoder;
use std::io::Read;

/// Bytes of text in a batch; more if one line is longer.
const BATCH: usize = 256 << 10;
/// Bytes of the records of a batch, which may be much longer than their text; more if one record is longer.
const RECORDS: usize = 1 << 20;
/// Length of the longest line, in bytes.
const LONGEST: usize = 64 << 20;

/// A reader of lines in batches.
pub(super) struct Lines<R> {
    from: R,
    /// Bytes that were read, but not returned yet.
    rest: Vec<u8>,
    /// If `rest` is longer than a batch: the number of its first bytes that are known to contain no line end.
    searched: usize,
    /// The number of the next line, counted from 1.
    next: u64,
    at_end: bool,
}

/// Some lines and the records that they are encoded to.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    /// The number of the batch's first line.
    first: u64,
    records: Vec<u8>,
    heap: Vec<u8>,
    count: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(from: R) -> Lines<R> {
        Lines { from, rest: Vec::new(), searched: 0, next: 1, at_end: false }
    }

    /// Reads the next lines, at most `most`, into `batch`. Returns whether there are any.
    fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool> {
        batch.text.clear();
        while !self.at_end && self.rest.len() < BATCH {
            self.read()?;
        }
        let mut end = self.end(most);
        while end == 0 && !self.at_end {
            if self.rest.len() > LONGEST {
                let message = format!("line {} has more than {LONGEST} bytes", self.next);
                return Err(LINE.broken(message));
            }
            self.read()?;
            end = self.end(most);
        }
        if end == 0 {
            // The last line may have no line end.
            end = self.rest.len();
        }
        batch.text.extend_from_slice(self.rest.get(..end).unwrap_or_default());
        self.rest.drain(..end);
        self.searched = 0;
        batch.first = self.next;
        self.next += line_ends(&batch.text) as u64;
        Ok(!batch.text.is_empty())
    }

    /// Returns the end of the last complete line of a batch, or 0 if no line is complete.
    fn end(&mut self, most: usize) -> usize {
        let is_end = |b: &u8| *b == b'\n';
        let (batch, beyond) = self.rest.split_at(self.rest.len().min(BATCH));
        let end = match batch.iter().rposition(is_end) {
            Some(at) => at + 1,
            None => {
                // Bytes of a line longer than a batch are searched only once.
                let from = self.searched.max(BATCH) - BATCH;
                self.searched = self.rest.len();
                match beyond.iter().skip(from).position(is_end) {
                    Some(at) => return batch.len() + from + at + 1,
                    None => return 0,
                }
            }
        };
        let whole = batch.get(..end).unwrap_or_default();
        if line_ends(whole) <= most {
            return end;
        }
        let mut whole = whole.iter();
        (0..most).map(|_| whole.by_ref().position(is_end).map_or(0, |at| at + 1)).sum()
    }

    fn read(&mut self) -> Result<()> {
        let before = self.rest.len();
        self.rest.resize(before + BATCH, 0);
        let count = loop {
            match self.from.read(self.rest.get_mut(before..).unwrap_or_default()) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other.map_err(|e| io(e, "reading lines of JSON"))?,
            }
        };
        self.rest.truncate(before + count);
        self.at_end = count == 0;
        Ok(())
    }
}

/// Adds a record for each line.
pub(super) fn encode<R: Read>(
    to: &mut DatasetWriter,
    mut lines: Lines<R>,
    threads: usize,
) -> Result<()> {
    // The threads use a clone of the schema, because the writer is changed while they work.
    let (schema, limits, ty, stride) = (to.schema.clone(), to.limits.clone(), to.ty, to.stride);
    let merge = Merge::new(&schema, ty, to);
    let most = (RECORDS / stride).max(1);
    let threads = threads.min(THREADS);
    in_order(
        threads,
        |spare| {
            let mut batch = spare.unwrap_or_default();
            Ok(lines.fill(&mut batch, most)?.then_some(batch))
        },
        || Encoder::new(&schema, ty, &limits),
        |encoder, mut batch| batch.encode(encoder, stride).map(|()| batch),
        |mut batch| {
            merge.take(&mut batch.records, &batch.heap, batch.count, to)?;
            Ok(batch)
        },
    )
}

impl Batch {
    fn encode(&mut self, encoder: &mut Encoder<'_>, stride: usize) -> Result<()> {
        self.records.clear();
        self.heap.clear();
        self.count = 0;
        let (mut rest, mut next) = (self.text.as_slice(), self.first);
        while !rest.is_empty() {
            let (line, number) = (rest.get(..line_len(rest)).unwrap_or_default(), next);
            rest = rest.get(line.len() + 1..).unwrap_or_default();
            next += 1;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let start = self.records.len();
            self.records.resize(start + stride, 0);
            let slot = self.records.get_mut(start..).unwrap_or_default();
            let slot = slot.get_mut(..encoder.size()).unwrap_or_default();
            encoder.text(line, slot, &mut self.heap).map_err(|e| in_line(e, number))?;
            self.count += 1;
        }
        Ok(())
    }
}

/// Counts the line ends in `bytes`. The sums are in `u8`, so that the compiler can vectorize the loop.
fn line_ends(bytes: &[u8]) -> usize {
    let few = |bytes: &[u8]| bytes.iter().map(|b| u8::from(*b == b'\n')).sum::<u8>();
    bytes.chunks(usize::from(u8::MAX)).map(|chunk| usize::from(few(chunk))).sum()
}

/// Returns the length of the first line without its line end. Compares many bytes at a time.
fn line_len(bytes: &[u8]) -> usize {
    let has_no_end = |chunk: &&[u8; 32]| !chunk.iter().fold(false, |any, b| any | (*b == b'\n'));
    let (chunks, _) = bytes.as_chunks();
    let before = chunks.iter().take_while(has_no_end).count() * 32;
    let rest = bytes.get(before..).unwrap_or_default();
    before + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
}

#[cold]
fn in_line(e: Error, line: u64) -> Error {
    e.within(format!("line {line}"))
}
