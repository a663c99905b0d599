//! Adds batches to a dataset, or checks them against a schema.

use super::Batched;
use crate::DatasetWriter;
use crate::arrow::write::Rows;
use crate::check::{CheckReport, FindingLocation};
use crate::rows::FillOptions;
use crate::rules::ARROW;
use holdall_core::Result;
use holdall_schema::{Checker, Document, SchemaLimits, TypeId};

impl DatasetWriter {
    /// Adds a record for each row.
    pub(crate) fn batches(&mut self, batched: Batched, options: &FillOptions) -> Result<()> {
        check_options(options)?;
        let (schema, kind, limits) = (self.schema.clone(), self.kind.clone(), self.limits.clone());
        let vocabulary = self.vocabulary.clone();
        let checker = match options.checks(&kind, &vocabulary) {
            true => Some(Checker::with_vocabulary(&schema, &kind, &vocabulary, &limits)?),
            false => None,
        };
        let ty = self.ty;
        let rows = Rows { schema: &schema, ty, limits: &limits, unknown: options.unknown };
        let before = self.len();
        for batch in batched.batches {
            rows.each(&batch?, &mut |_, record| {
                let added = record.and_then(|(record, heap)| {
                    if let Some(checker) = &checker {
                        checker.one_record(schema.record_value(ty, record, heap, &limits)?)?;
                    }
                    self.raw(record, heap)
                });
                added.map_err(|e| e.within(format!("row {}", self.len() - before)))
            })
            .map_err(|e| self.in_context(e))?;
        }
        Ok(())
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
        check_options(options)?;
        let own = &schema.schema;
        let checker = Checker::with_vocabulary(own, &schema.json, &schema.vocabulary, limits)?;
        let rows = Rows { schema: own, ty, limits, unknown: options.unknown };
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
}

fn check_options(options: &FillOptions) -> Result<()> {
    match options.files() {
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
