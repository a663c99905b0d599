//! Adds batches to a dataset, or checks them against a schema.

use super::Batched;
use crate::DatasetWriter;
use crate::arrow::json;
use crate::arrow::write::{Mismatch, Rows};
use crate::check::{CheckReport, FindingLocation};
use crate::rows::{Fill, FillOptions};
use crate::rules::ARROW;
use arrow_array::{Array as _, StructArray};
use holdall_core::Result;
use holdall_schema::{Checker, Document, SchemaLimits, TypeId};
use serde_json::Value;

impl DatasetWriter {
    /// Adds a record for each row.
    pub(crate) fn add_batches(&mut self, batched: Batched, options: &FillOptions) -> Result<()> {
        let (schema, kind, limits) = (self.schema.clone(), self.kind.clone(), self.limits.clone());
        let vocabulary = self.vocabulary.clone();
        let checks = options.checks(&kind, &vocabulary);
        let checker = || match checks {
            true => Checker::with_vocabulary(&schema, &kind, &vocabulary, &limits).map(Some),
            false => Ok(None),
        };
        let (ty, unknown, mismatch) = (self.ty, options.unknown, batched.mismatch);
        if options.files().is_some() {
            check_options(options, mismatch)?;
            let mut fill = Fill::new(&schema, &kind, ty, &vocabulary, options, &limits)?;
            let before = self.len();
            return batched.values(&mut |value| {
                let added = fill.put_value(value?, self);
                added.map_err(|e| e.within(format!("row {}", self.len() - before)))
            });
        }
        let rows = Rows { schema: &schema, ty, limits: &limits, unknown, mismatch };
        self.blocks(batched.batches, &rows, checker).map_err(|e| self.in_context(e))
    }
}

impl Batched {
    /// Checks which rows are records of `schema`, which is the schema of a record.
    pub(crate) fn check(
        self,
        schema: &Document,
        ty: TypeId,
        options: &FillOptions,
        limits: &SchemaLimits,
        report: &mut CheckReport,
    ) -> Result<()> {
        check_options(options, self.mismatch)?;
        let own = &schema.schema;
        let checker = Checker::with_vocabulary(own, &schema.json, &schema.vocabulary, limits)?;
        if options.files().is_some() {
            let mut fill = Fill::new(own, &schema.json, ty, &schema.vocabulary, options, limits)?;
            return self.values(&mut |value| {
                if let Err(e) = value.and_then(|value| fill.check_value(value)) {
                    report.add(FindingLocation::Record(report.records), e);
                }
                report.records += 1;
                Ok(())
            });
        }
        let (unknown, mismatch) = (options.unknown, self.mismatch);
        let rows = Rows { schema: own, ty, limits, unknown, mismatch };
        for batch in self.batches {
            rows.each(&batch?, &mut |_, record| {
                let checked = record.and_then(|(record, heap)| {
                    own.check_record(ty, record, heap, limits)?;
                    checker.one_record(own.record_value(ty, record, heap, limits)?)
                });
                if let Err(e) = checked {
                    report.add(FindingLocation::Record(report.records), e);
                }
                report.records += 1;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Calls `with` for each row as a JSON value.
    fn values(self, with: &mut dyn FnMut(Result<Value>) -> Result<()>) -> Result<()> {
        for batch in self.batches {
            let rows = StructArray::from(batch?);
            for row in 0..rows.len() {
                with(json::value(&rows, row))?;
            }
        }
        Ok(())
    }
}

/// Refuses members that are read from files, unless the rows are not from a file themselves.
fn check_options(options: &FillOptions, mismatch: Mismatch) -> Result<()> {
    match options.files().filter(|_| mismatch == Mismatch::Refuse) {
        Some((_, members)) => {
            let first = members.first().map_or("", String::as_str);
            let message = format!(
                "`{first}` cannot be read from files: rows of Parquet and Arrow files contain the bytes themselves"
            );
            Err(ARROW.broken(message).with_hint(
                "put the bytes into the column, or pass the records as lines of JSON or a table",
            ))
        }
        None => Ok(()),
    }
}
