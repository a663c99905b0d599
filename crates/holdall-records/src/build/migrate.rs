//! Records of one schema as records of another.

use super::DatasetWriter;
use crate::Records;
use crate::reread::Reread;
use holdall_core::Result;
use holdall_schema::{Checker, Converters, Resolution, ResolveOptions, resolve};
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
        made.map_err(|e| self.in_context(e))
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
        self.migrate_checked(records, range, resolution, converters, None)
    }

    /// The same, where each record must be what standard keywords say, too.
    pub(crate) fn migrate_checked(
        &mut self,
        records: &Records,
        range: Range<u64>,
        resolution: &Resolution,
        converters: &Converters<'_>,
        checker: Option<&Checker<'_>>,
    ) -> Result<()> {
        let limits = self.limits.clone();
        let mut reread = Reread::new(records, resolution, converters, &limits)
            .map_err(|e| self.in_context(e))?;
        for record in records.iter(range)? {
            let record = record?;
            let made = reread.record(&record).and_then(|(bytes, heap)| {
                if let Some(checker) = checker {
                    checker.one_record(self.schema.record_value(self.ty, bytes, heap, &limits)?)?;
                }
                self.raw(bytes, heap)
            });
            made.map_err(|e| self.in_context(e.within(format!("record {}", record.index()))))?;
        }
        Ok(())
    }
}
