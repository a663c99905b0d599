//! The records of a dataset, on their way into a file.

use super::FinishedTensor;
use super::begun::Promise;
use super::lines::{self, Lines};
use super::spool::{Spool, SpoolHeap};
use super::window::Window;
use crate::entries::{From, Mover};
use crate::rules::OTHER_KIND;
use crate::{HEAP, RECORDS, Record, Records, open};
use holdall_core::error::Shown as _;
use holdall_core::layout::records::SIZE;
use holdall_core::{DType, Error, Result};
use holdall_io::Work;
use holdall_schema::{Document, Encoder, Extent, Schema, SchemaLimits, TypeId, Vocabulary, normal};
use serde_json::Value;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

/// A dataset under construction: see [`Build::dataset`](super::Build::dataset).
///
/// After an error about a record, the dataset is as it was before it.
#[must_use = "it is in no file before `Build::add`"]
pub struct DatasetWriter {
    promise: Option<Promise>,
    name: String,
    pub(crate) kind: Value,
    /// The text of `kind`, in its author's order: what a file has.
    kind_text: String,
    pub(crate) schema: Schema,
    pub(crate) ty: TypeId,
    extent: Extent,
    /// Bytes of a record, and from one to the next.
    pub(super) size: usize,
    pub(super) stride: usize,
    /// Formats and keywords of the caller's, for rows that are checked.
    pub(crate) vocabulary: Vocabulary,
    pub(crate) limits: SchemaLimits,
    work: Work,
    pub(super) records: Spool,
    pub(super) heap: SpoolHeap,
    count: u64,
    /// Memory for the record at hand.
    scratch: Vec<u8>,
    /// Records whose kind was compared with this one's.
    known: Option<Records>,
}

impl DatasetWriter {
    /// A dataset of records of that schema that belongs to no [`Build`](super::Build) yet. What does not fit memory
    /// waits in `folder`, in files without a name.
    ///
    /// # Errors
    /// The `schema/…` rules; `records/size` for records of no bytes.
    pub fn new(
        name: &str,
        kind: &Value,
        folder: &Path,
        limits: &SchemaLimits,
        work: &Work,
    ) -> Result<DatasetWriter> {
        let kind = normal(kind.clone())?;
        let schema = Schema::compile_record(&kind, limits)?;
        let Some(ty) = schema.record() else {
            return Err(SIZE.broken("the schema is not that of a record"));
        };
        let extent = schema.extent(ty)?;
        let fits = |n: u64| isize::try_from(n).ok().and_then(|n| usize::try_from(n).ok());
        let (Some(size), Some(stride @ 1..)) = (fits(extent.size), fits(extent.stride)) else {
            return Err(SIZE.broken(format!("records of {} bytes", extent.stride)));
        };
        Ok(DatasetWriter {
            promise: None,
            name: name.to_owned(),
            kind_text: kind.to_string(),
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

    /// As [`DatasetWriter::new`], for the schema of a record; the file has it in its author's order, and rows are checked by its vocabulary
    /// too.
    ///
    /// # Errors
    /// As [`DatasetWriter::new`].
    pub fn for_schema(
        name: &str,
        schema: &Document,
        folder: &Path,
        limits: &SchemaLimits,
        work: &Work,
    ) -> Result<DatasetWriter> {
        let dataset = DatasetWriter::new(name, &schema.json, folder, limits, work)?;
        let dataset = dataset.with_kind_text(schema.normal_text(limits));
        Ok(dataset.with_vocabulary(schema.vocabulary.clone()))
    }

    /// Lets equal strings, bytes, JSON objects and arrays share their bytes, where they come within some
    /// 16 MiB of each other and are no longer than 64 KiB. It costs a look at each.
    pub fn with_dedup(mut self) -> DatasetWriter {
        self.heap.window = Some(Window::default());
        self
    }

    /// Checks rows by these formats and keywords, too, where they are checked: see
    /// [`FillOptions::with_checks`](crate::FillOptions::with_checks).
    pub fn with_vocabulary(mut self, vocabulary: Vocabulary) -> DatasetWriter {
        self.vocabulary = vocabulary;
        self
    }

    /// Has this text for its schema, the same in another order.
    pub(crate) fn with_kind_text(mut self, text: String) -> DatasetWriter {
        self.kind_text = text;
        self
    }

    /// Has to come back to the file that this is begun for.
    pub(super) fn promised(mut self, promise: Promise) -> DatasetWriter {
        self.promise = Some(promise);
        self
    }

    /// Gives it up: the file that it was begun for is finished without it.
    pub fn discard(self) {
        self.promise.into_iter().for_each(Promise::keep);
    }

    /// Its path in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The schema of a record.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Bytes and alignment of a record.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Adds a record of JSON text.
    ///
    /// # Errors
    /// The rules of section 5.2, `json/…`, Io.
    pub fn text(&mut self, json: &[u8]) -> Result<()> {
        self.put(|writer, record| {
            let mut encoder = Encoder::new(&writer.schema, writer.ty, &writer.limits)?;
            encoder.text(json, record, &mut writer.heap)
        })
    }

    /// Adds a record of a JSON value.
    ///
    /// # Errors
    /// As [`DatasetWriter::text`].
    pub fn value(&mut self, json: &Value) -> Result<()> {
        self.put(|writer, record| {
            let mut encoder = Encoder::new(&writer.schema, writer.ty, &writer.limits)?;
            encoder.value(json, record, &mut writer.heap)
        })
    }

    /// Adds a record of its bytes, whose entries point into `heap`. What they point at is copied.
    ///
    /// # Errors
    /// The rules of sections 3 to 5 about bytes, Io.
    pub fn raw(&mut self, record: &[u8], heap: &[u8]) -> Result<()> {
        let checked = self.schema.check_record(self.ty, record, heap, &self.limits);
        checked.map_err(|e| self.in_context(e))?;
        let get = |r: std::ops::Range<u64>| {
            Ok(Cow::Borrowed(heap.get(r.start as usize..r.end as usize).unwrap_or_default()))
        };
        self.moved(record, &From { len: heap.len() as u64, get: &get })
    }

    /// Adds a record of an open file that has the same kind, as it is.
    ///
    /// # Errors
    /// `records/other-kind`; the rules of sections 3 to 5 about bytes; Io.
    pub fn copy(&mut self, record: &Record<'_>) -> Result<()> {
        let records = record.records();
        let is_known =
            self.known.as_ref().is_some_and(|k| std::sync::Arc::ptr_eq(&k.0, &records.0));
        if !is_known {
            let kind = open::schema_of(records.tensor(), &self.limits)?;
            if kind != self.kind {
                let name = records.tensor().name().shown();
                let message = format!("the records of `{name}` have another kind");
                return Err(self.in_context(OTHER_KIND.broken(message)));
            }
            self.known = Some(records.clone());
        }
        record.check()?;
        let heap = &records.0.heap;
        self.moved(record.bytes(), &From { len: heap.len(), get: &|range| heap.get(range) })
    }

    /// Adds a record for each line of JSON text, in order, encoded on several threads; empty lines are
    /// passed over. Gives their number.
    ///
    /// # Errors
    /// As [`DatasetWriter::text`], with the number of the line; `records/line`. Records of the lines before
    /// may have been added then.
    pub fn lines(&mut self, from: impl Read) -> Result<u64> {
        let before = self.count;
        let threads = self.work.threads();
        lines::encode(self, Lines::new(from), threads).map_err(|e| self.in_context(e))?;
        Ok(self.count - before)
    }

    fn moved<'f>(&mut self, record: &[u8], from: &'f From<'f>) -> Result<()> {
        self.put(|writer, out| {
            out.copy_from_slice(record);
            let most = writer.limits.decoded_len;
            Mover::new(&writer.schema, from, &mut writer.heap, most).record(writer.ty, out)
        })
    }

    /// Adds the record that `with` puts into zeros.
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

    pub(super) fn added(&mut self, count: u64) {
        self.count += count;
    }

    #[cold]
    pub(crate) fn in_context(&self, e: Error) -> Error {
        e.in_tensor(self.name.as_str())
    }
}

impl std::convert::From<DatasetWriter> for FinishedTensor {
    fn from(dataset: DatasetWriter) -> FinishedTensor {
        let mut components = vec![("data", DType::U8, dataset.records)];
        if dataset.schema.ty(dataset.ty).heap_align.is_some() {
            components.push((HEAP, DType::U8, dataset.heap.spool));
        }
        FinishedTensor {
            promise: dataset.promise,
            kind: dataset.kind_text,
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
