//! Replaces the module `batched` in builds without Arrow.

use crate::DatasetWriter;
use crate::check::CheckReport;
use crate::rows::{FillOptions, RecordForm};
use crate::rules::NO_PARQUET;
use holdall_core::{Limits, Result};
use holdall_io::{ByteSource, Work};
use holdall_schema::{Document, SchemaLimits, TypeId};
use serde_json::Value;
use std::sync::Arc;

/// Batches of rows; never constructed in these builds.
pub(crate) enum Batched {}

impl Batched {
    pub(crate) fn open(
        _: Arc<dyn ByteSource>,
        form: RecordForm,
        _: &Limits,
        _: &Work,
    ) -> Result<Batched> {
        let name = if form == RecordForm::Parquet { "Parquet" } else { "Arrow" };
        Err(NO_PARQUET.broken(format!("this build does not read {name} files")))
    }

    pub(crate) fn row_schema(&self) -> Result<Option<Value>> {
        match *self {}
    }

    pub(crate) fn check(
        self,
        _: &Document,
        _: TypeId,
        _: &FillOptions,
        _: &SchemaLimits,
        _: &mut CheckReport,
    ) -> Result<()> {
        match self {}
    }
}

impl DatasetWriter {
    pub(crate) fn add_batches(&mut self, batched: Batched, _: &FillOptions) -> Result<()> {
        match batched {}
    }
}
