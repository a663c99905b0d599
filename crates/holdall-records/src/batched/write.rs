//! Batches on their way into a Parquet or Arrow file.

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

/// Encoded bytes of a row group that is being made, at most about that many.
const GROUP: usize = 64 << 20;
/// And of records that become a batch.
const BYTES: u64 = 32 << 20;
/// And how many, at most.
const ROWS: u64 = 1 << 16;

/// A Parquet or Arrow file of batches, which appears when it is whole: of [`RecordForm::Parquet`], its pages compressed with Snappy, or
/// of [`RecordForm::Arrow`] with its columns as they are, so that others can map it. Batches are written as they come.
pub struct TableWriter {
    to: To,
    target: PathBuf,
    schema: SchemaRef,
    rows: u64,
}

/// What a [`TableWriter`] wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableReport {
    /// Rows of all batches.
    pub rows: u64,
    /// Bytes of the file.
    pub target_len: u64,
}

enum To {
    Parquet(Box<ArrowWriter<Out>>),
    Arrow(Box<FileWriter<Out>>),
}

impl TableWriter {
    /// Begins a file of batches with these columns: those of [`Arrow::schema`](crate::arrow::Arrow::schema). Of `options` it takes
    /// whether a file is replaced, and what it survives.
    ///
    /// # Errors
    /// `records/arrow` for a column that such a file cannot have, and for another form; as
    /// [`FileSink::create`](holdall_io::sink::FileSink::create).
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
                let e = ARROW.broken(format!("{} has no columns with types", other.as_str()));
                return Err(at(e));
            }
        };
        Ok(TableWriter { to, target, schema: schema.clone(), rows: 0 })
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// `records/arrow` where its columns are others; Io, after which the writer is of no more use: dropped, it leaves nothing behind.
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.schema().fields() != self.schema.fields() {
            let e = ARROW.broken("a batch of other columns than the file has");
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

    /// Adds these records: those of [`Records::iter`](crate::Records::iter) or of [`Query::run`](crate::Query::run), as rows of
    /// `columns`, in batches that take some 32 MiB. Gives their number.
    ///
    /// # Errors
    /// As [`TableWriter::batch`] and [`Arrow::batch`].
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

    /// Writes what is left, and publishes the file.
    ///
    /// # Errors
    /// Io; nothing is published then.
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

/// An error in batches that are written is not damage of a file.
fn refused(e: Error) -> Error {
    match e.code() == crate::rules::COLUMNS.code {
        true => ARROW.broken(e.found().to_owned()),
        false => e,
    }
}

/// The file as the encoders write it.
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
