//! A file that has all its bytes and is not published yet.

use crate::ledger::read_back;
use crate::sink::Sink;
use holdall_core::ledger::Record;
use holdall_core::{Encode, Result};

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
        if !encoder.writes_attributes() {
            record.set_attributes(None);
        }
        if let (true, Some(source)) = (reads_back, sink.read_back()?) {
            read_back(&*source, &mut record, encoder)?;
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
