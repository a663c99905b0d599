//! Converts the records of a file to another schema, for migrations and checks.

use crate::{Record, Records};
use holdall_core::Result;
use holdall_schema::{Converters, Encoder, Migrator, Resolution, SchemaLimits};

/// Converts records of one schema to another, one after the other.
pub(crate) struct Reread<'r> {
    records: &'r Records,
    migrator: Migrator<'r>,
    copier: Encoder<'r>,
    copy: Vec<u8>,
    copy_heap: Vec<u8>,
    out: Vec<u8>,
    heap: Vec<u8>,
}

impl<'r> Reread<'r> {
    pub(crate) fn new(
        records: &'r Records,
        resolution: &'r Resolution,
        converters: &'r Converters<'_>,
        limits: &SchemaLimits,
    ) -> Result<Reread<'r>> {
        Ok(Reread {
            records,
            migrator: resolution.migrator(converters)?,
            copier: Encoder::new(records.schema(), records.ty(), limits)?,
            copy: vec![0; resolution.from_size()],
            copy_heap: Vec::new(),
            out: vec![0; resolution.to_size()],
            heap: Vec::new(),
        })
    }

    /// Returns the bytes of a record under the other schema, and the heap that its entries refer to.
    pub(crate) fn record(&mut self, record: &Record<'_>) -> Result<(&[u8], &[u8])> {
        self.heap.clear();
        match self.records.heap() {
            Some(whole) => {
                self.migrator.record(record.bytes(), whole, &mut self.out, &mut self.heap)?;
            }
            // The heap is not in memory, so the record is copied into a heap with only its own data.
            None => {
                self.copy_heap.clear();
                let value = record.to_value()?;
                self.copier.value(&value, &mut self.copy, &mut self.copy_heap)?;
                let (copy, heap) = (&self.copy, &self.copy_heap);
                self.migrator.record(copy, heap, &mut self.out, &mut self.heap)?;
            }
        }
        Ok((&self.out, &self.heap))
    }
}
