//! Files of Parquet and Arrow: rows that come in batches, and batches on their way into such files.
//!
//! The decoders are those of the `arrow` project. Before they see a footer, a page or a message, what it says of lengths,
//! counts and depths is checked against the file and the limits; where they panic all the same, that is an error.

mod fill;
mod ipc;
mod pages;
mod parquet;
mod thrift;
mod write;

pub use write::{TableReport, TableWriter};

use crate::rows::RecordForm;
use crate::rules::{COLUMNS, COLUMNS_LIMIT};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use holdall_core::codec::most_decoded;
use holdall_core::{Error, Limits, Result};
use holdall_io::{ByteSource, Work};
use serde_json::Value;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The batches of a file, one after the other.
pub(crate) struct Batched {
    schema: SchemaRef,
    batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send>,
}

impl Batched {
    /// Begins to read a file of that form. `work` counts its bytes.
    pub(crate) fn open(
        source: Arc<dyn ByteSource>,
        form: RecordForm,
        limits: &Limits,
        work: &Work,
    ) -> Result<Batched> {
        work.begin(source.len());
        let file = Source { bytes: source, limits: limits.clone(), work: work.clone() };
        match form {
            RecordForm::Parquet => parquet::open(file),
            _ => ipc::open(file),
        }
    }

    /// The schema of a record that is a row.
    pub(crate) fn kind(&self) -> Result<Value> {
        crate::arrow::kind(&self.schema)
    }
}

/// A file that is read, and what of it may be asked.
#[derive(Clone)]
struct Source {
    bytes: Arc<dyn ByteSource>,
    limits: Limits,
    work: Work,
}

/// Steps until there is no more, or one fails.
fn batches(
    mut step: impl FnMut() -> Result<Option<RecordBatch>> + Send + 'static,
) -> Box<dyn Iterator<Item = Result<RecordBatch>> + Send> {
    let mut is_over = false;
    Box::new(std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let batch = step();
        is_over = !matches!(batch, Ok(Some(_)));
        batch.transpose()
    }))
}

impl Source {
    fn len(&self) -> u64 {
        self.bytes.len()
    }

    /// Bytes from `start` on, which are in the file.
    fn get(&self, start: u64, len: u64) -> Result<bytes::Bytes> {
        let end = start.checked_add(len).filter(|end| *end <= self.len());
        let Some(end) = end else {
            let message = format!("{len} bytes at {start} of a file of {} bytes", self.len());
            return Err(COLUMNS.broken(message));
        };
        self.bytes.read_range(start..end)
    }

    /// Refuses what would take more.
    fn check(&self, what: &str, decoded: u64, stored: u64) -> Result<()> {
        let most = most_decoded(stored, &self.limits);
        if decoded > most {
            let message = format!(
                "{what} would take {decoded} bytes, of {stored} stored ones; at most {most}"
            );
            return Err(COLUMNS_LIMIT.broken(message));
        }
        Ok(())
    }
}

/// What a decoder gives; where it fails or panics, an error.
fn guarded<T, E>(work: impl FnOnce() -> std::result::Result<T, E>) -> Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(e)) => Err(decoder_error(&e)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            Err(COLUMNS.broken(format!("the decoder gave up: {}", text.escape_debug())))
        }
    }
}

/// An error of a decoder: ours, where one of ours is in it.
fn decoder_error(e: &(dyn std::error::Error + 'static)) -> Error {
    let mut inner = Some(e);
    while let Some(e) = inner {
        let within = e.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let own = e.downcast_ref::<Error>().or_else(|| within?.downcast_ref());
        if let Some(own) = own {
            return own.clone();
        }
        inner = e.source();
    }
    COLUMNS.broken(e.to_string().escape_debug().to_string())
}
