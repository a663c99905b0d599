//! A completely written file that is not published yet.

use crate::ledger::read_back;
use crate::sink::Sink;
use holdall_core::ledger::Record;
use holdall_core::{Encode, Result};

/// A completely written file that is not published yet, and whose content was compared with what was written if it
/// could be read back. Dropping it without [`Finished::publish`] removes all traces of it.
pub struct Finished<S: Sink> {
    sink: S,
    record: Record,
    len: u64,
}

impl<S: Sink> Finished<S> {
    /// If `reads_back`, decodes the file in `sink` and compares the result with the record of what was written.
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

    /// Returns the record of what was written.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the length of the file in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Publishes the file and returns the record of what was written.
    ///
    /// # Errors
    /// Returns an `Io` error; the file is not published then.
    pub fn publish_with_record(self) -> Result<(S::Done, Record)> {
        Ok((self.sink.finish()?, self.record))
    }

    /// Publishes the file.
    ///
    /// # Errors
    /// Returns an `Io` error; the file is not published then.
    pub fn publish(self) -> Result<S::Done> {
        self.sink.finish()
    }
}
