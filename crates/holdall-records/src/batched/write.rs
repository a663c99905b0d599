//! Writes batches to a Parquet or Arrow file.

use super::guarded;
use crate::Record;
use crate::arrow::Arrow;
use crate::rows::RecordForm;
use crate::rules::ARROW;
use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::SchemaRef;
use holdall_core::{Error, Result};
use holdall_io::WriteOptions;
use holdall_io::sink::{FileSink, Sink as _};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Approximate largest number of encoded bytes of a row group.
const GROUP: usize = 64 << 20;
/// Largest number of bytes of records in a batch.
const BYTES: u64 = 32 << 20;
/// Largest number of records in a batch.
const ROWS: u64 = 1 << 16;

/// A writer of a Parquet or Arrow file, which appears under its name when it is complete. Pages of
/// [`RecordForm::Parquet`] are compressed with Snappy; columns of [`RecordForm::Arrow`] are uncompressed, so that other
/// programs can map them. Batches are written as they are added.
pub struct TableWriter {
    to: To,
    target: PathBuf,
    schema: SchemaRef,
    rows: u64,
}

/// The result of a [`TableWriter`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableReport {
    /// Number of rows of all batches.
    pub rows: u64,
    /// Length of the file in bytes.
    pub target_len: u64,
}

enum To {
    Parquet(Box<ArrowWriter<Out>>),
    Arrow(Box<FileWriter<Out>>),
}

impl TableWriter {
    /// Creates a file of batches with these columns, which come from [`Arrow::schema`](crate::arrow::Arrow::schema). Of
    /// `options`, only replacing of an existing file and durability apply.
    ///
    /// # Errors
    /// Returns `records/arrow` for a column that the format does not support, or for any other format, and the errors
    /// of [`FileSink::create`](holdall_io::sink::FileSink::create).
    pub fn create(
        path: impl AsRef<Path>,
        form: RecordForm,
        schema: &SchemaRef,
        options: &WriteOptions,
    ) -> Result<TableWriter> {
        let target = path.as_ref().to_owned();
        let at = |e: Error| refused(e).in_source(target.display());
        let sink = FileSink::create(&target, options.overwrite, options.durability)?;
        let out = Out { sink, work: options.work.clone() };
        let to = match form {
            RecordForm::Parquet => {
                let properties = WriterProperties::builder();
                let properties = properties.set_compression(Compression::SNAPPY).build();
                let made = || ArrowWriter::try_new(out, schema.clone(), Some(properties));
                To::Parquet(Box::new(guarded(made).map_err(at)?))
            }
            RecordForm::Arrow => {
                To::Arrow(Box::new(guarded(|| FileWriter::try_new(out, schema)).map_err(at)?))
            }
            other => {
                let e = ARROW
                    .broken(format!("cannot write {}: expected parquet or arrow", other.as_str()));
                return Err(at(e));
            }
        };
        Ok(TableWriter { to, target, schema: schema.clone(), rows: 0 })
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// Returns `records/arrow` if the batch has other columns than the file; or an I/O error, after which the writer
    /// cannot be used any more. A writer that is dropped leaves no file.
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.schema().fields() != self.schema.fields() {
            let e = ARROW.broken("the batch has other columns than the file");
            return Err(e.in_source(self.target.display()));
        }
        let done = match &mut self.to {
            To::Parquet(writer) => guarded(|| {
                writer.write(batch)?;
                match writer.in_progress_size() >= GROUP {
                    true => writer.flush(),
                    false => Ok(()),
                }
            }),
            To::Arrow(writer) => guarded(|| writer.write(batch)),
        };
        done.map_err(|e| refused(e).in_source(self.target.display()))?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Adds records, from [`Records::iter`](crate::Records::iter) or [`Query::run`](crate::Query::run), as rows of
    /// `columns`, in batches of about 32 MiB. Returns the number of records.
    ///
    /// # Errors
    /// Returns the same errors as [`TableWriter::batch`] and [`Arrow::batch`].
    pub fn records<'r>(
        &mut self,
        columns: &Arrow,
        records: impl IntoIterator<Item = Result<Record<'r>>>,
    ) -> Result<u64> {
        let before = self.rows;
        let mut records = records.into_iter();
        let most = columns.records().rows_in(BYTES).min(ROWS) as usize;
        loop {
            let some = records.by_ref().take(most);
            let batch = columns.batch(some)?;
            if batch.num_rows() == 0 {
                return Ok(self.rows - before);
            }
            self.batch(&batch)?;
        }
    }

    /// Writes the remaining batches and publishes the file.
    ///
    /// # Errors
    /// Returns an I/O error; the file is not published then.
    pub fn finish(self) -> Result<TableReport> {
        let out = match self.to {
            To::Parquet(writer) => guarded(|| writer.into_inner()),
            To::Arrow(writer) => guarded(|| writer.into_inner()),
        };
        let Out { sink, .. } = out.map_err(|e| refused(e).in_source(self.target.display()))?;
        let target_len = sink.len();
        sink.finish()?;
        Ok(TableReport { rows: self.rows, target_len })
    }
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter").field("target", &self.target).finish_non_exhaustive()
    }
}

/// Changes the code of an error: a fault in batches to write is not damage of a file.
fn refused(e: Error) -> Error {
    match e.code() == crate::rules::COLUMNS.code {
        true => ARROW.broken(e.found().to_owned()),
        false => e,
    }
}

/// The output file, as the encoders write it.
struct Out {
    sink: FileSink,
    work: holdall_io::Work,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.work.check().map_err(io::Error::other)?;
        self.sink.append(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
