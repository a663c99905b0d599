//! Encodes batches of columns as records, on several threads and in order.

use super::dataset::DatasetWriter;
use super::merge::{Merge, THREADS, check_block, in_order};
use crate::arrow::block::Block;
use crate::arrow::write::Rows;
use arrow_array::RecordBatch;
use holdall_core::{Error, Result};
use holdall_schema::Checker;

/// Bytes of the records of a block: few enough to stay in the cache of a processor while columns are written to them.
const RECORDS: usize = 256 << 10;

/// A block of records, and the error about the row after them if there is one.
struct Made {
    block: Block,
    error: Option<Error>,
}

impl DatasetWriter {
    /// Adds a record for each row. `checker` returns the checker of the records' keywords, if they are checked.
    ///
    /// # Errors
    /// Returns the errors of `batches`, an error about a column, or an error about a row, with the row. The records of
    /// the rows before the error have been added.
    pub(crate) fn blocks<'c>(
        &mut self,
        mut batches: impl Iterator<Item = Result<RecordBatch>>,
        rows: &Rows<'_>,
        checker: impl Fn() -> Result<Option<Checker<'c>>> + Sync,
    ) -> Result<()> {
        let (threads, stride) = (self.work.threads().min(THREADS), self.stride);
        let merge = Merge::new(rows.schema, rows.ty, self);
        let every = (RECORDS / stride).max(1);
        let work = self.work.clone();
        let (mut batch, mut start, mut first) = (None::<RecordBatch>, 0, 0u64);
        in_order(
            threads,
            |spare: Option<Made>| {
                work.check()?;
                loop {
                    let block = next_rows(&batch, start, every);
                    if let Some(part) = block {
                        start += part.num_rows();
                        let before = first;
                        first += part.num_rows() as u64;
                        return Ok(Some((part, before, spare.map(|made| made.block))));
                    }
                    let Some(next) = batches.next().transpose()? else { return Ok(None) };
                    // A batch without rows can still have wrong columns.
                    (batch, start) = (None, 0);
                    if next.num_rows() == 0 {
                        return Ok(Some((next, first, spare.map(|made| made.block))));
                    }
                    batch = Some(next);
                }
            },
            &checker,
            |checker, (part, first, block)| {
                let mut block = block.unwrap_or_default();
                let wrong = rows.block(&part, stride, &mut block)?;
                let mut error = wrong.map(|(row, e)| at_row(e, first + row as u64));
                if let Some(checker) = checker {
                    let (records, heap) = (&block.records, &block.heap);
                    let checked = check_block(
                        records,
                        heap,
                        rows.schema,
                        rows.ty,
                        stride,
                        rows.limits,
                        checker,
                    );
                    if let Err((row, e)) = checked {
                        rows.block(&part.slice(0, row), stride, &mut block)?;
                        error = Some(at_row(e, first + row as u64));
                    }
                }
                Ok(Made { block, error })
            },
            |mut made| {
                let Block { records, heap, count } = &mut made.block;
                merge.take(records, heap, *count as u64, self)?;
                made.error.take().map_or(Ok(made), Err)
            },
        )
    }
}

/// Returns the next rows of a batch, at most `most`.
fn next_rows(batch: &Option<RecordBatch>, start: usize, most: usize) -> Option<RecordBatch> {
    let batch = batch.as_ref()?;
    let left = batch.num_rows().saturating_sub(start).min(most);
    (left > 0).then(|| batch.slice(start, left))
}

#[cold]
fn at_row(e: Error, row: u64) -> Error {
    e.within(format!("row {row}"))
}
