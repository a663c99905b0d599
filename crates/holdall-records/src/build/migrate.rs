//! Adds records of another schema, converted to this dataset's schema.

use super::DatasetWriter;
use crate::Records;
use crate::reread::Reread;
use holdall_core::Result;
use holdall_schema::{Checker, Converters, Resolution, ResolveOptions, resolve};
use std::ops::Range;

impl DatasetWriter {
    /// Decides how `records` are converted to records of this dataset: members match by name, numbers widen, and
    /// `options` give renames and converters. Call it once for all of the records.
    ///
    /// # Errors
    /// Returns the same errors as [`resolve`].
    pub fn resolve(&self, records: &Records, options: &ResolveOptions) -> Result<Resolution> {
        let mut options = options.clone();
        let most = &mut options.limits.decoded_len;
        *most = (*most).min(records.0.limits.decoded_len);
        let made = resolve(records.schema(), records.ty(), &self.schema, self.ty, &options);
        made.map_err(|e| self.in_context(e))
    }

    /// Adds the records of a range, converted according to `resolution`, which [`DatasetWriter::resolve`] returned for
    /// the same `records`. Memory does not grow with their number.
    ///
    /// # Errors
    /// Returns `records/index` if the range is out of bounds; `evolve/no-converter` if `converters` lack a converter;
    /// the errors of converters; an error of the rules in sections 3 to 5 of the specification if a record is invalid;
    /// or an I/O error. Each error names the record; the records before it have been added.
    pub fn migrate(
        &mut self,
        records: &Records,
        range: Range<u64>,
        resolution: &Resolution,
        converters: &Converters<'_>,
    ) -> Result<()> {
        self.migrate_checked(records, range, resolution, converters, None)
    }

    /// Does the same as [`DatasetWriter::migrate`], and also checks each record against standard keywords.
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
