//! Rows that their source encodes itself, such as objects of another language.

use crate::DatasetWriter;
use crate::build::{Merge, check_block};
use crate::rows::FillOptions;
use holdall_core::Result;
use holdall_schema::record::RecordInput;
use holdall_schema::{Checker, Encoder, Inference};

/// Bytes of records and their heap after which a block is complete.
const BLOCK: usize = 1 << 20;

/// A source of rows that are neither text nor columns.
pub trait RowSource: Send {
    /// Adds the next rows to `to`, until [`RowSink::is_full`]. Returns `false` if no rows are left.
    ///
    /// # Errors
    /// Returns the errors of [`RowSink::add`], and those of reading the rows.
    fn read(&mut self, to: &mut RowSink<'_, '_>) -> Result<bool>;
}

/// The receiver of rows: see [`RowSource::read`].
pub struct RowSink<'t, 's> {
    target: Target<'t, 's>,
    /// The number of rows that were added before.
    next: u64,
}

enum Target<'t, 's> {
    Records(&'t mut EncodedRows<'s>),
    Schema { seen: &'t mut Inference, most: u64 },
}

/// Encoded records.
struct EncodedRows<'s> {
    encoder: Encoder<'s>,
    stride: usize,
    records: Vec<u8>,
    heap: Vec<u8>,
    count: usize,
}

impl RowSink<'_, '_> {
    /// Adds a row.
    ///
    /// # Errors
    /// Returns the errors of [`Encoder::input`] and [`Inference::input`], with the number of the row.
    pub fn add(&mut self, row: &mut impl RecordInput) -> Result<()> {
        let number = self.next;
        let added = match &mut self.target {
            Target::Records(to) => to.add(row),
            Target::Schema { seen, .. } => seen.input(row, number + 1),
        };
        added.map_err(|e| e.within(format!("row {number}")))?;
        self.next += 1;
        Ok(())
    }

    /// Returns `true` if the source should not add more rows for now.
    pub fn is_full(&self) -> bool {
        match &self.target {
            Target::Records(to) => to.records.len() + to.heap.len() >= BLOCK,
            Target::Schema { most, .. } => self.next >= *most,
        }
    }
}

impl EncodedRows<'_> {
    fn add(&mut self, row: &mut impl RecordInput) -> Result<()> {
        let (start, heap) = (self.records.len(), self.heap.len());
        self.records.resize(start + self.stride, 0);
        let slot = self.records.get_mut(start..start + self.encoder.size());
        let made = self.encoder.input(row, slot.unwrap_or_default(), &mut self.heap);
        match made {
            Ok(()) => self.count += 1,
            Err(_) => {
                self.records.truncate(start);
                self.heap.truncate(heap);
            }
        }
        made
    }
}

impl DatasetWriter {
    /// Adds a record for each row. After an error, the records of the rows before it have been added.
    pub(super) fn encode_rows(
        &mut self,
        source: &mut dyn RowSource,
        options: &FillOptions,
    ) -> Result<()> {
        // The writer is changed while its schema is used.
        let (schema, kind, limits) = (self.schema.clone(), self.kind.clone(), self.limits.clone());
        let vocabulary = self.vocabulary.clone();
        let encoder = Encoder::new(&schema, self.ty, &limits)?;
        let encoder = encoder.with_unknown(options.unknown).with_null(options.null);
        let checker = match options.checks(&kind, &vocabulary) {
            true => Some(Checker::with_vocabulary(&schema, &kind, &vocabulary, &limits)?),
            false => None,
        };
        let merge = Merge::new(&schema, self.ty, self);
        let (stride, ty) = (self.stride, self.ty);
        let (records, heap) = (Vec::new(), Vec::new());
        let mut rows = EncodedRows { encoder, stride, records, heap, count: 0 };
        let (mut next, mut is_more) = (0, true);
        while is_more {
            self.work.check()?;
            let mut sink = RowSink { target: Target::Records(&mut rows), next };
            let mut read = source.read(&mut sink);
            let first = std::mem::replace(&mut next, sink.next);
            if let Some(checker) = &checker {
                let checked =
                    check_block(&rows.records, &rows.heap, &schema, ty, stride, &limits, checker);
                if let Err((row, e)) = checked {
                    // Rows before this one are added, in a block whose heap may have more than their bytes.
                    rows.records.truncate(row * stride);
                    rows.count = row;
                    read = Err(e.within(format!("row {}", first + row as u64)));
                }
            }
            merge.take(&mut rows.records, &rows.heap, rows.count as u64, self)?;
            (rows.count, is_more) = (0, read?);
            rows.records.clear();
            rows.heap.clear();
        }
        Ok(())
    }
}

/// Adds at most `most` rows to an inference. Returns the number of rows.
pub(crate) fn infer_rows(
    source: &mut dyn RowSource,
    seen: &mut Inference,
    most: u64,
) -> Result<u64> {
    let mut sink = RowSink { target: Target::Schema { seen, most }, next: 0 };
    while !sink.is_full() && source.read(&mut sink)? {}
    Ok(sink.next)
}
