//! Reads and writes datasets of records and blobs: tensors of the layouts `records` and `blob`
//! (`docs/spec/metatensor.md`), in any file format.
//!
//! A record is looked up by its index in O(1), and its members by [`Accessor`]s, which hold each member's byte offset.
//! Nothing is copied if the bytes are mapped or in memory; otherwise only the requested ranges are read.
//!
//! ```no_run
//! # fn main() -> holdall_core::Result<()> {
//! use holdall_records::TensorRecords as _;
//! let records = holdall_io::open("train.mt")?.tensor("samples")?.records()?;
//! let (text, label) = (records.accessor("text")?, records.typed::<i32>("label")?);
//! for record in records.iter(0..records.len())? {
//!     let record = record?;
//!     println!("{:?} {:?}", record.string(&text)?, record.get(&label)?);
//! }
//! # Ok(())
//! # }
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

mod ahead;
mod append;
#[cfg(feature = "arrow")]
pub mod arrow;
mod at;
#[cfg_attr(not(feature = "arrow"), path = "no_batched.rs")]
mod batched;
mod blob;
mod build;
mod check;
mod choose;
mod column;
mod compared;
mod copy;
#[cfg(feature = "derive")]
#[doc(hidden)]
pub mod derive;
mod each;
mod entries;
pub mod gather;
mod infer;
mod migrate;
mod open;
mod outline;
pub mod query;
mod ragged;
mod record;
mod reread;
mod rows;
pub mod rules;
mod runs;
mod schemas;
mod store;
#[cfg(feature = "derive")]
mod structs;
mod texts;

pub use append::{Append, AppendReport};
pub use at::RecordsAt;
#[cfg(feature = "parquet")]
pub use batched::{TableReport, TableWriter};
pub use blob::{Blob, BlobElement};
pub use build::{BlobWriter, Build, BuildReport, DatasetWriter, FinishedTensor};
pub use check::{
    CheckReport, Finding, FindingLocation, check_file, check_rows, check_schema,
    unverified_patterns,
};
pub use choose::{dataset, dataset_or_blob};
pub use column::Column;
pub use copy::RecordBytes;
pub use each::Iter;
pub use holdall_schema::{Accessor, ReadScalar, Typed, Values};
pub use infer::infer;
pub use migrate::{
    Conversion, ConverterInput, Migration, MigrationPlan, MigrationReport, PlanStep,
};
pub use outline::{RecordLayout, SchemaLayout, layout};
pub use query::{Columns, Condition, Export, Group, Groups, Query, RecordSorter, Sample};
pub use ragged::Ragged;
pub use record::Record;
pub use rows::{FillOptions, RecordForm, RowSink, RowSource, Rows, RowsOptions};
pub use runs::RunsAt;
pub use schemas::{SchemaOrFile, is_binary, schema_of_dataset, schema_of_file, schema_of_tensor};
#[cfg(feature = "derive")]
pub use structs::{FromRecord, Structs};
pub use texts::Texts;

use compared::Compared;
use holdall_core::{Error, Result, Rule};
use holdall_io::Tensor;
use holdall_io::error::WRONG_LAYOUT;
use holdall_schema::{Extent, Path, Schema, SchemaLimits, TypeId};
use rules::INDEX;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use store::Store;

/// This crate's tables of rules.
static TABLES: &[&[&Rule]] = &[rules::RULES];

/// Returns the rules of this crate. [`holdall_io::rules`] returns those of the crates it depends on.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().copied().flatten().copied()
}

/// The layout of datasets.
pub(crate) const RECORDS: &str = "records";
/// The layout of blobs.
pub(crate) const BLOB: &str = "blob";
/// The role of the bytes that entries refer to.
pub(crate) const HEAP: &str = "blob_data";
/// The role of a blob's entries.
pub(crate) const ENTRIES: &str = "entries";

/// The records of one tensor. Cheap to clone; can be shared between threads.
#[derive(Clone)]
pub struct Records(Arc<Inner>);

struct Inner {
    tensor: Tensor,
    schema: Schema,
    ty: TypeId,
    extent: Extent,
    /// Size of a record and distance from one record to the next, in bytes. Both fit in `usize`.
    size: usize,
    stride: usize,
    count: u64,
    limits: SchemaLimits,
    data: Store,
    heap: Store,
    compared: Compared,
}

/// Methods of a [`Tensor`] that contains records or a blob.
pub trait TensorRecords {
    /// Opens a tensor of the layout `records`. For a raw tensor, this reads no more than an index does; a small
    /// compressed tensor is decoded completely.
    ///
    /// # Errors
    /// Returns a misuse error if the tensor has another layout; `records/kind`, `records/size` or `records/heap` if the
    /// dataset is malformed; an error of the `schema/…` rules if its schema is; and the errors of [`Tensor::bytes`].
    fn records(&self) -> Result<Records>;

    /// Opens a tensor of the layout `blob`.
    ///
    /// # Errors
    /// Returns the same errors as [`TensorRecords::records`].
    fn blob(&self) -> Result<Blob>;
}

impl TensorRecords for Tensor {
    fn records(&self) -> Result<Records> {
        open::records(self).map_err(|e| placed(e, self))
    }

    fn blob(&self) -> Result<Blob> {
        blob::open(self).map_err(|e| placed(e, self))
    }
}

impl Records {
    /// Returns the number of records.
    pub fn len(&self) -> u64 {
        self.0.count
    }

    /// Returns `true` if the dataset has no records.
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }

    /// Returns the tensor that contains these records.
    pub fn tensor(&self) -> &Tensor {
        &self.0.tensor
    }

    /// Returns the limits for reading a record: those of the file, with at most as many bytes as its length allows.
    pub fn limits(&self) -> &SchemaLimits {
        &self.0.limits
    }

    /// Returns the schema. The type of a record in it is [`Records::ty`].
    pub fn schema(&self) -> &Schema {
        &self.0.schema
    }

    /// Returns the type of a record in [`Records::schema`].
    pub fn ty(&self) -> TypeId {
        self.0.ty
    }

    /// Returns the size and alignment of a record, in bytes.
    pub fn extent(&self) -> Extent {
        self.0.extent
    }

    /// Returns the same records with all their bytes in memory, so that later calls read nothing from the file. Copies
    /// nothing if the bytes are already mapped or in memory.
    ///
    /// # Errors
    /// Returns the same errors as [`Tensor::bytes`].
    pub fn loaded(&self) -> Result<Records> {
        let load = |store: &Store| store.loaded().map_err(|e| placed(e, self.tensor()));
        let inner = &*self.0;
        Ok(Records(Arc::new(Inner {
            tensor: inner.tensor.clone(),
            schema: inner.schema.clone(),
            ty: inner.ty,
            extent: inner.extent,
            size: inner.size,
            stride: inner.stride,
            count: inner.count,
            limits: inner.limits.clone(),
            data: load(&inner.data)?,
            heap: load(&inner.heap)?,
            compared: Compared::default(),
        })))
    }

    /// Returns the bytes of all records, one after the other, or `None` if the bytes are neither mapped nor in memory.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.0.data.whole()
    }

    /// Returns the heap that the records' entries refer to, or `None` if it is neither mapped nor in memory.
    pub fn heap(&self) -> Option<&[u8]> {
        self.0.heap.whole()
    }

    /// Looks up a member of a record by its path, for example `image.width` or `corners[0]`. Look it up once and use
    /// the accessor for every record.
    ///
    /// # Errors
    /// Returns `schema/path` if the path is malformed, `schema/unknown-path` if the record has no such member.
    pub fn accessor(&self, path: &str) -> Result<Accessor> {
        let parsed: Path = path.parse()?;
        let found = self.0.schema.accessor(self.0.ty, &parsed);
        found.map_err(|e| {
            placed(query::or_like_member(e, self.schema(), self.ty(), path), self.tensor())
        })
    }

    /// Looks up a number, a time or a boolean that is read as a `T`.
    ///
    /// # Errors
    /// Returns the errors of [`Records::accessor`], and `record/access` if a member of this kind cannot be read as a
    /// `T`.
    pub fn typed<T: ReadScalar>(&self, path: &str) -> Result<Typed<T>> {
        self.accessor(path)?.typed().map_err(|e| placed(e, self.tensor()))
    }

    /// Returns the record at `index`.
    ///
    /// The record is not compared with the digest of its component, which covers all records. Only
    /// [`Check::All`](holdall_io::Check::All) compares all bytes with the digest when the records are opened. If the
    /// component is compressed in frames, the checksum of the frame is compared. [`Records::compare`] compares the digests
    /// at any time.
    ///
    /// # Errors
    /// Returns `records/index` if `index` is out of range. If the bytes are neither mapped nor in memory, also the
    /// errors of [`Tensor::bytes_range`].
    #[inline]
    pub fn record(&self, index: u64) -> Result<Record<'_>> {
        let bytes = match self.at_hand(index) {
            Some(bytes) => Cow::Borrowed(bytes),
            None => self.fetch(index)?,
        };
        Ok(Record { records: self, ty: self.0.ty, index, bytes })
    }

    /// Returns the bytes of a record if `index` is in range and the bytes are mapped or in memory.
    #[inline]
    fn at_hand(&self, index: u64) -> Option<&[u8]> {
        let inner = &*self.0;
        let bytes = inner.data.whole().filter(|_| index < inner.count)?;
        // The whole record lies in the component, so neither the product nor the sum overflows.
        let start = (index as usize).wrapping_mul(inner.stride);
        bytes.get(start..start.wrapping_add(inner.size))
    }

    /// Returns the value of a member of the record at `index`. Equivalent to [`Records::record`], which describes when
    /// digests are compared, followed by
    /// [`Record::get`].
    ///
    /// # Errors
    /// Returns the errors of those two functions.
    #[inline]
    pub fn get<T: ReadScalar>(&self, index: u64, typed: &Typed<T>) -> Result<Option<T>> {
        match self.at_hand(index) {
            Some(record) => typed.read(record).map_err(|e| self.in_record(e, index)),
            None => self.fetch_value(index, typed),
        }
    }

    #[cold]
    fn fetch_value<T: ReadScalar>(&self, index: u64, typed: &Typed<T>) -> Result<Option<T>> {
        self.record(index)?.get(typed)
    }

    #[cold]
    fn fetch(&self, index: u64) -> Result<Cow<'_, [u8]>> {
        let inner = &*self.0;
        if index >= inner.count {
            return Err(self.outside(index..index.saturating_add(1)));
        }
        // Lies within the component, whose length was checked against the number of records.
        let start = index * inner.stride as u64;
        let bytes = inner.data.get(start..start + inner.size as u64);
        bytes.map_err(|e| placed(e, self.tensor()))
    }

    /// Returns the bytes of a range of consecutive records.
    fn run(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        let stride = self.0.stride as u64;
        let bytes = self.0.data.get(range.start * stride..range.end * stride);
        bytes.map_err(|e| placed(e, self.tensor()))
    }

    fn check_range(&self, range: &Range<u64>) -> Result<()> {
        check_range(range, self.len()).map_err(|e| placed(e, self.tensor()))
    }

    #[cold]
    fn outside(&self, range: Range<u64>) -> Error {
        placed(outside(&range, self.len()), self.tensor())
    }

    /// Adds the record's index, the tensor and the file to an error.
    #[cold]
    fn in_record(&self, e: Error, index: u64) -> Error {
        placed(e.within(format!("record {index}")), self.tensor())
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records")
            .field("tensor", self.tensor())
            .field("len", &self.len())
            .field("extent", &self.extent())
            .finish_non_exhaustive()
    }
}

/// Adds the tensor's name and the file's name to an error.
#[cold]
fn placed(e: Error, tensor: &Tensor) -> Error {
    e.in_tensor(tensor.name()).in_source(tensor.file().name())
}

/// Refuses a range that ends after the last record or run, or ends before it starts.
fn check_range(range: &Range<u64>, count: u64) -> Result<()> {
    if range.start > range.end || range.end > count {
        return Err(outside(range, count));
    }
    Ok(())
}

#[cold]
fn outside(range: &Range<u64>, count: u64) -> Error {
    let Range { start, end } = range;
    INDEX.broken(match start > end && *end == count {
        true => format!("records from {start} on are out of range: there are {count}"),
        false => format!("records {start}..{end} are out of range: there are {count}"),
    })
}

/// Refuses a tensor of any layout other than `wanted`.
fn check_layout(tensor: &Tensor, wanted: &str) -> Result<()> {
    if tensor.layout().as_str() == wanted {
        return Ok(());
    }
    let message = format!("its layout is {}, not {wanted}", tensor.layout());
    Err(WRONG_LAYOUT.broken(message))
}
