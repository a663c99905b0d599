//! Rows that come in batches of columns: those of Parquet and Arrow files, which are read and written here, and those
//! of other programs.
//!
//! The decoders are those of the `arrow` project. Before a footer, page or message is passed to them, the lengths,
//! counts and depths in it are checked against the file and the limits. A panic in a decoder becomes an error.

#[cfg_attr(not(feature = "parquet"), path = "no_files.rs")]
mod files;
mod fill;
#[cfg(feature = "parquet")]
mod ipc;
#[cfg(feature = "parquet")]
mod pages;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod thrift;
#[cfg(feature = "parquet")]
mod write;

#[cfg(feature = "parquet")]
use files::{Source, batches, guarded};
#[cfg(feature = "parquet")]
pub use write::{TableReport, TableWriter};

use crate::arrow::write::Mismatch;
use crate::rows::RecordForm;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use holdall_core::{Limits, Result};
use holdall_io::{ByteSource, Work};
use serde_json::Value;
use std::sync::Arc;

/// An iterator over batches of rows.
pub(crate) struct Batched {
    /// The schema of the columns, if it is known before the first batch.
    schema: Option<SchemaRef>,
    batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send>,
    /// All batches, if they are in memory. They are those of `batches`, too.
    table: Option<Vec<RecordBatch>>,
    mismatch: Mismatch,
}

impl Batched {
    /// Starts to read a file of this format. `work` counts the bytes that are read.
    pub(crate) fn open(
        source: Arc<dyn ByteSource>,
        form: RecordForm,
        limits: &Limits,
        work: &Work,
    ) -> Result<Batched> {
        files::open(source, form, limits, work)
    }

    /// Returns rows whose values are converted to those of their members.
    pub(crate) fn from_batches(
        batches: impl Iterator<Item = Result<RecordBatch>> + Send + 'static,
    ) -> Batched {
        let batches = Box::new(batches);
        Batched { schema: None, batches, table: None, mismatch: Mismatch::Convert }
    }

    /// Returns the rows of batches in memory, like [`Batched::from_batches`].
    pub(crate) fn from_table(batches: Vec<RecordBatch>) -> Batched {
        let table = Some(batches.clone());
        Batched { table, ..Batched::from_batches(batches.into_iter().map(Ok)) }
    }

    /// Returns all batches, if they are in memory.
    pub(crate) fn table(&self) -> Option<&[RecordBatch]> {
        self.table.as_deref()
    }

    /// Returns the schema of a row, if it is known before the first batch.
    pub(crate) fn row_schema(&self) -> Result<Option<Value>> {
        self.schema.as_ref().map(|schema| crate::arrow::row_schema(schema)).transpose()
    }
}
