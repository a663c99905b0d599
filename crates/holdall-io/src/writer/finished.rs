//! A file that has all its bytes and is not published yet.

use crate::index::decode_index;
use crate::sink::Sink;
use holdall_core::ledger::{self, Expected, Record, Side};
use holdall_core::{Encode, Index, LIMITS, Limits, Result};

/// A file that has all its bytes, and is what was written as far as a reader can tell. Dropped before
/// [`Finished::publish`], it leaves nothing behind.
pub struct Finished<S: Sink> {
    sink: S,
    record: Record,
    len: u64,
}

impl<S: Sink> Finished<S> {
    /// Reads back what `sink` has, and compares it with the record of what was written.
    pub(super) fn new(
        mut sink: S,
        mut record: Record,
        encoder: &dyn Encode,
        reads_back: bool,
    ) -> Result<Finished<S>> {
        let source = if reads_back { sink.read_back()? } else { None };
        let written = match source {
            Some(source) => Some(decode_index(&*source, &unlimited())?),
            None => None,
        };
        if !encoder.writes_attributes() {
            record.set_attributes(written.as_ref().map(|index| index.attributes().clone()));
        }
        if let Some(index) = &written {
            compare(&record, index, encoder)?;
        }
        let len = sink.len();
        Ok(Finished { sink, record, len })
    }

    /// What was written.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Publishes the file. Gives also what was written.
    ///
    /// # Errors
    /// Io; nothing is published then.
    pub fn publish_with_record(self) -> Result<(S::Done, Record)> {
        Ok((self.sink.finish()?, self.record))
    }

    /// Publishes the file.
    ///
    /// # Errors
    /// Io; nothing is published then.
    pub fn publish(self) -> Result<S::Done> {
        self.sink.finish()
    }
}

/// Compares what was given to the encoder with what a decoder finds in the file: nothing may be missing.
fn compare(record: &Record, index: &Index, encoder: &dyn Encode) -> Result<()> {
    let mut expected = Expected::new();
    if encoder.needs_digest().is_some() {
        // Checksums that belong to the container: a decoder may use them without giving them out.
        expected.choose_digests();
    }
    let mut ledger = ledger::compare(Side::Record(record), Side::Index(index), &expected);
    ledger.unaccounted.append(&mut ledger.left_behind);
    ledger.check().map(drop)
}

/// Limits for a file that was just written: whatever its source was opened with, it is as large as it is.
fn unlimited() -> Limits {
    const MOST: u64 = 1 << 40;
    let mut limits = Limits::default();
    for limit in LIMITS {
        // At most what the table allows.
        let _ = limit.set(&mut limits, limit.most.min(MOST));
    }
    limits
}
