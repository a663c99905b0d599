//! Code that the readers of files share.

use super::{Batched, ipc, parquet};
use crate::rows::RecordForm;
use crate::rules::{COLUMNS, COLUMNS_LIMIT};
use arrow_array::RecordBatch;
use holdall_core::codec::max_decoded_len;
use holdall_core::{Error, Limits, Result};
use holdall_io::{ByteSource, Work};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Starts to read a file of this format. `work` counts the bytes that are read.
pub(super) fn open(
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

/// A file that is read, and its limits.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) bytes: Arc<dyn ByteSource>,
    pub(super) limits: Limits,
    pub(super) work: Work,
}

/// Returns an iterator that calls `step` until it returns `None` or fails.
pub(super) fn batches(
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
    pub(super) fn len(&self) -> u64 {
        self.bytes.len()
    }

    /// Returns `len` bytes from `start` on. Fails if they are not all in the file.
    pub(super) fn get(&self, start: u64, len: u64) -> Result<bytes::Bytes> {
        let end = start.checked_add(len).filter(|end| *end <= self.len());
        let Some(end) = end else {
            let message = format!(
                "a range of {len} bytes at offset {start} ends after the file of {} bytes",
                self.len()
            );
            return Err(COLUMNS.broken(message));
        };
        self.bytes.read_range(start..end)
    }

    /// Refuses data that would take more memory than the limits allow.
    pub(super) fn check(&self, what: &str, decoded: u64, stored: u64) -> Result<()> {
        let most = max_decoded_len(stored, &self.limits);
        if decoded > most {
            let message = format!(
                "{what} would decode from {stored} to {decoded} bytes; at most {most} are allowed"
            );
            return Err(COLUMNS_LIMIT.broken(message));
        }
        Ok(())
    }
}

/// Calls a decoder and converts its failure or panic to an error.
pub(super) fn guarded<T, E>(work: impl FnOnce() -> std::result::Result<T, E>) -> Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(e)) => Err(decoder_error(&e)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            Err(COLUMNS.broken(format!("the decoder panicked: {}", text.escape_debug())))
        }
    }
}

/// Converts an error of a decoder. If it contains one of our own errors, that error is returned.
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
