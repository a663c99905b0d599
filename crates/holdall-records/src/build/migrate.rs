//! Records of one schema as records of another.

use super::DatasetWriter;
use crate::Records;
use holdall_core::Result;
use holdall_schema::{Converters, Encoder, Resolution, ResolveOptions, resolve};
use std::ops::Range;

impl DatasetWriter {
    /// How `records` become records of this dataset: members match by name, numbers widen, and what
    /// `options` say of renames and converters. To be asked for once, for all of them.
    ///
    /// # Errors
    /// As [`resolve`].
    pub fn resolve(&self, records: &Records, options: &ResolveOptions) -> Result<Resolution> {
        let mut options = options.clone();
        let most = &mut options.limits.decoded_len;
        *most = (*most).min(records.0.limits.decoded_len);
        let made = resolve(records.schema(), records.ty(), &self.schema, self.ty, &options);
        made.map_err(|e| self.place(e))
    }

    /// Adds the records of those places, made into records of this dataset as `resolution` says, which
    /// [`DatasetWriter::resolve`] gave for the same `records`. Memory does not grow with their number.
    ///
    /// # Errors
    /// `records/index`; `evolve/no-converter` for one that `converters` lack, and whatever those say; the
    /// rules of sections 3 to 5 for records that are not sound; Io. All name the record, and those before
    /// it were added.
    pub fn migrate(
        &mut self,
        records: &Records,
        range: Range<u64>,
        resolution: &Resolution,
        converters: &Converters<'_>,
    ) -> Result<()> {
        let mut migrator = resolution.migrator(converters).map_err(|e| self.place(e))?;
        let mut copier = Encoder::new(records.schema(), records.ty(), &self.limits)?;
        let (mut copy, mut copy_heap) = (vec![0; resolution.from_size()], Vec::new());
        let (mut out, mut heap) = (vec![0; resolution.to_size()], Vec::new());
        for record in records.iter(range)? {
            let record = record?;
            heap.clear();
            let made = match records.heap() {
                Some(whole) => migrator.record(record.bytes(), whole, &mut out, &mut heap),
                // Its entries lie far away: it is brought into a heap of its own.
                None => {
                    copy_heap.clear();
                    copier.value(&record.to_value()?, &mut copy, &mut copy_heap)?;
                    migrator.record(&copy, &copy_heap, &mut out, &mut heap)
                }
            };
            made.and_then(|()| self.raw(&out, &heap))
                .map_err(|e| self.place(e.within(format!("record {}", record.index()))))?;
        }
        Ok(())
    }
}
