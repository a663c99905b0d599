//! Writes the records of a dataset.

use super::FinishedTensor;
use super::lines::{self, Lines};
use super::pending::PendingWriter;
use super::spool::{Spool, SpoolHeap};
use super::window::Window;
use crate::entries::{From, Mover};
use crate::rules::OTHER_KIND;
use crate::{HEAP, RECORDS, Record, Records, open};
#[cfg(feature = "arrow")]
use holdall_core::TensorSpec;
use holdall_core::error::Escape as _;
use holdall_core::layout::records::SIZE;
use holdall_core::{DType, Error, Result};
use holdall_io::Work;
use holdall_schema::{
    Document, Encoder, Extent, Schema, SchemaLimits, TypeId, Vocabulary, normalize,
};
use serde_json::Value;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

/// A dataset under construction: see [`Build::dataset`](super::Build::dataset).
///
/// After an error about a record, the dataset is in the same state as before that record.
#[must_use = "it is not part of the file until it is passed to `Build::add`"]
pub struct DatasetWriter {
    pending: Option<PendingWriter>,
    name: String,
    pub(crate) kind: Value,
    /// The text of `kind` in its author's order, which the file will contain.
    schema_text: String,
    pub(crate) schema: Schema,
    pub(crate) ty: TypeId,
    extent: Extent,
    /// Size of a record and distance from one record to the next, in bytes.
    pub(super) size: usize,
    pub(crate) stride: usize,
    /// The caller's formats and keywords, for rows that are checked.
    pub(crate) vocabulary: Vocabulary,
    pub(crate) limits: SchemaLimits,
    pub(crate) work: Work,
    pub(super) records: Spool,
    pub(super) heap: SpoolHeap,
    count: u64,
    /// Reused memory for the current record.
    scratch: Vec<u8>,
    /// Records whose kind was found to be equal to that of this dataset.
    known: Option<Records>,
}

impl DatasetWriter {
    /// Creates a writer of a dataset with this schema of a record that does not belong to a [`Build`](super::Build)
    /// yet. Bytes that exceed its buffers in memory are kept in unnamed temporary files in `folder`.
    ///
    /// # Errors
    /// Returns an error of the `schema/…` rules if the schema is invalid, `records/size` if a record has 0 bytes.
    pub fn new(
        name: &str,
        kind: &Value,
        folder: &Path,
        limits: &SchemaLimits,
        work: &Work,
    ) -> Result<DatasetWriter> {
        let kind = normalize(kind.clone())?;
        let schema = Schema::compile_record(&kind, limits)?;
        let Some(ty) = schema.record() else {
            return Err(SIZE.broken("the schema is not that of a record"));
        };
        let extent = schema.extent(ty)?;
        let fits = |n: u64| isize::try_from(n).ok().and_then(|n| usize::try_from(n).ok());
        let (Some(size), Some(stride @ 1..)) = (fits(extent.size), fits(extent.stride)) else {
            return Err(SIZE
                .broken(format!("a record has {} bytes, which is not supported", extent.stride)));
        };
        Ok(DatasetWriter {
            pending: None,
            name: name.to_owned(),
            schema_text: kind.to_string(),
            kind,
            schema,
            ty,
            extent,
            size,
            stride,
            vocabulary: Vocabulary::default(),
            limits: limits.clone(),
            work: work.clone(),
            records: Spool::new(folder),
            heap: SpoolHeap::new(folder),
            count: 0,
            scratch: Vec::new(),
            known: None,
        })
    }

    /// Creates a writer like [`DatasetWriter::new`] from the schema of a record. The file contains the schema in its
    /// author's order, and rows are also checked against its vocabulary.
    ///
    /// # Errors
    /// Returns the same errors as [`DatasetWriter::new`].
    pub fn for_schema(
        name: &str,
        schema: &Document,
        folder: &Path,
        limits: &SchemaLimits,
        work: &Work,
    ) -> Result<DatasetWriter> {
        let dataset = DatasetWriter::new(name, &schema.json, folder, limits, work)?;
        let dataset = dataset.with_schema_text(schema.normal_text());
        Ok(dataset.with_vocabulary(schema.vocabulary.clone()))
    }

    /// Stores equal strings, bytes, JSON objects and arrays once, if they are at most about 16 MiB apart in the heap
    /// and no longer than 64 KiB. Each value is then looked up in a hash map.
    pub fn with_dedup(mut self) -> DatasetWriter {
        self.heap.window = Some(Window::default());
        self
    }

    /// Also checks rows against these formats and keywords, if rows are checked: see
    /// [`FillOptions::with_checks`](crate::FillOptions::with_checks).
    pub fn with_vocabulary(mut self, vocabulary: Vocabulary) -> DatasetWriter {
        self.vocabulary = vocabulary;
        self
    }

    /// Sets the text of the schema to an equivalent one with another order of keywords.
    pub(crate) fn with_schema_text(mut self, text: String) -> DatasetWriter {
        self.schema_text = text;
        self
    }

    /// Sets the obligation to add this dataset to the file that it was begun for.
    pub(super) fn with_pending(mut self, pending: PendingWriter) -> DatasetWriter {
        self.pending = Some(pending);
        self
    }

    /// Discards the dataset, so that the file can be finished without it.
    pub fn discard(self) {
        self.pending.into_iter().for_each(PendingWriter::resolve);
    }

    /// Returns the dataset's path in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of records.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Returns `true` if there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the schema of a record.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the size and alignment of a record, in bytes.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Adds a record from its JSON text.
    ///
    /// # Errors
    /// Returns an error of the rules in section 5.2 of the specification or of the `json/…` rules, or an I/O error.
    pub fn text(&mut self, json: &[u8]) -> Result<()> {
        self.put(|writer, record| {
            let mut encoder = Encoder::new(&writer.schema, writer.ty, &writer.limits)?;
            encoder.text(json, record, &mut writer.heap)
        })
    }

    /// Adds a record from a JSON value.
    ///
    /// # Errors
    /// Returns the same errors as [`DatasetWriter::text`].
    pub fn value(&mut self, json: &Value) -> Result<()> {
        self.put(|writer, record| {
            let mut encoder = Encoder::new(&writer.schema, writer.ty, &writer.limits)?;
            encoder.value(json, record, &mut writer.heap)
        })
    }

    /// Adds a record from its bytes, whose entries refer to `heap`. The heap bytes that they refer to are copied.
    ///
    /// # Errors
    /// Returns an error of the rules about bytes in sections 3 to 5 of the specification, or an I/O error.
    pub fn raw(&mut self, record: &[u8], heap: &[u8]) -> Result<()> {
        let checked = self.schema.check_record(self.ty, record, heap, &self.limits);
        checked.map_err(|e| self.in_context(e))?;
        let get = |r: std::ops::Range<u64>| {
            Ok(Cow::Borrowed(heap.get(r.start as usize..r.end as usize).unwrap_or_default()))
        };
        self.moved(record, &From { len: heap.len() as u64, get: &get })
    }

    /// Adds a copy of a record from an open file. The record must be of the same kind.
    ///
    /// # Errors
    /// Returns `records/other-kind` if the record is of another kind, an error of the rules about bytes in sections 3
    /// to 5 of the specification, or an I/O error.
    pub fn copy(&mut self, record: &Record<'_>) -> Result<()> {
        let records = record.records();
        let is_known =
            self.known.as_ref().is_some_and(|k| std::sync::Arc::ptr_eq(&k.0, &records.0));
        if !is_known {
            let kind = open::schema_of(records.tensor(), &self.limits)?;
            if kind != self.kind {
                let name = records.tensor().name().escaped();
                let message = format!("the records of `{name}` have another kind");
                return Err(self.in_context(OTHER_KIND.broken(message)));
            }
            self.known = Some(records.clone());
        }
        record.check()?;
        let heap = &records.0.heap;
        self.moved(record.bytes(), &From { len: heap.len(), get: &|range| heap.get(range) })
    }

    /// Adds a record for each line of JSON text, in order, and returns the number of records added. Lines are encoded
    /// on several threads. Empty lines are skipped.
    ///
    /// # Errors
    /// Returns the errors of [`DatasetWriter::text`], with the number of the line, and `records/line` if a line is too
    /// long. The records of the lines before the error may have been added.
    pub fn lines(&mut self, from: impl Read) -> Result<u64> {
        let before = self.count;
        let threads = self.work.threads();
        lines::encode(self, Lines::new(from), threads).map_err(|e| self.in_context(e))?;
        Ok(self.count - before)
    }

    /// Adds copies of all records of another dataset, which has the same schema, without a look at them. No records may
    /// have been added before.
    pub(crate) fn copy_all(&mut self, records: &Records, work: &Work) -> Result<()> {
        let inner = &records.0;
        let len = inner.data.len().min(inner.count.saturating_mul(inner.stride as u64));
        let whole = inner.count.saturating_mul(self.stride as u64);
        work.begin(len.saturating_add(inner.heap.len()));
        for (store, len, spool) in [
            (&inner.data, len, &mut self.records),
            (&inner.heap, inner.heap.len(), &mut self.heap.spool),
        ] {
            for start in (0..len).step_by(COPIED) {
                let bytes = store.get(start..len.min(start + COPIED as u64))?;
                spool.append(&bytes)?;
                work.advance(bytes.len() as u64)?;
            }
        }
        // The last record may have been stored without the bytes between it and the next one.
        while self.records.len() < whole {
            self.records.append(&[0])?;
        }
        self.count = inner.count;
        Ok(())
    }

    fn moved<'f>(&mut self, record: &[u8], from: &'f From<'f>) -> Result<()> {
        self.put(|writer, out| {
            out.copy_from_slice(record);
            let most = writer.limits.decoded_len;
            Mover::new(&writer.schema, from, &mut writer.heap, most).record(writer.ty, out)
        })
    }

    /// Adds the record that `with` writes into zeroed bytes.
    fn put(&mut self, with: impl FnOnce(&mut Self, &mut [u8]) -> Result<()>) -> Result<()> {
        let mut record = std::mem::take(&mut self.scratch);
        record.clear();
        record.resize(self.stride, 0);
        let (size, heap) = (self.size, self.heap.spool.len());
        let made = with(self, &mut record[..size]).and_then(|()| self.records.append(&record));
        self.scratch = record;
        match made {
            Ok(()) => {
                self.count += 1;
                Ok(())
            }
            Err(e) => {
                self.heap.truncate(heap)?;
                Err(self.in_context(e))
            }
        }
    }

    /// Returns the description of a tensor of `count` of these records, without components. The dataset is no longer
    /// to be added.
    #[cfg(feature = "arrow")]
    pub(super) fn into_spec(self, count: u64) -> TensorSpec {
        self.pending.into_iter().for_each(PendingWriter::resolve);
        super::spec(&self.name, RECORDS, count, self.schema_text)
    }

    pub(super) fn added(&mut self, count: u64) {
        self.count += count;
    }

    #[cold]
    pub(crate) fn in_context(&self, e: Error) -> Error {
        e.in_tensor(self.name.as_str())
    }
}

/// Bytes that are copied at a time from another dataset.
const COPIED: usize = 8 << 20;

impl std::convert::From<DatasetWriter> for FinishedTensor {
    fn from(dataset: DatasetWriter) -> FinishedTensor {
        let mut components = vec![("data", DType::U8, dataset.records)];
        if dataset.schema.ty(dataset.ty).heap_align.is_some() {
            components.push((HEAP, DType::U8, dataset.heap.spool));
        }
        FinishedTensor {
            pending: dataset.pending,
            kind: dataset.schema_text,
            name: dataset.name,
            layout: RECORDS,
            count: dataset.count,
            components,
        }
    }
}

impl std::fmt::Debug for DatasetWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatasetWriter")
            .field("name", &self.name)
            .field("len", &self.count)
            .finish_non_exhaustive()
    }
}
