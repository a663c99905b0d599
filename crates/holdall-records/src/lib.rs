//! Datasets of records, and blobs: what tensors of the layouts `records` and `blob` hold
//! (`docs/spec/metatensor.md`), in whatever format they are.
//!
//! A record is looked up in O(1) by its place, its members by [`Accessor`]s that know where they lie.
//! Where the bytes are mapped or in memory, nothing is copied; elsewhere what is asked for is read.
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
#![deny(unsafe_code)]

mod ahead;
#[cfg(feature = "arrow")]
pub mod arrow;
mod at;
#[cfg_attr(not(feature = "parquet"), path = "no_batched.rs")]
mod batched;
mod blob;
mod build;
mod check;
mod choose;
mod column;
mod compared;
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
pub use each::Iter;
pub use holdall_schema::{Accessor, ReadScalar, Typed, Values};
pub use infer::infer;
pub use migrate::{Conversion, Migration, MigrationPlan, MigrationReport, PlanStep, TensorPart};
pub use outline::{RecordLayout, SchemaLayout, layout};
pub use query::{Columns, Condition, Export, Group, Groups, Query, RecordSorter, Sample};
pub use ragged::Ragged;
pub use record::Record;
pub use rows::{FillOptions, RecordForm, Rows, RowsOptions};
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

/// The tables of rules of this crate.
static TABLES: &[&[&Rule]] = &[rules::RULES];

/// The rules of this crate; [`holdall_io::rules`] has those of the crates below it.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().copied().flatten().copied()
}

/// The layout of datasets.
pub(crate) const RECORDS: &str = "records";
/// The layout of blobs.
pub(crate) const BLOB: &str = "blob";
/// The role of the bytes that entries point at.
pub(crate) const HEAP: &str = "blob_data";
/// The role of a blob's entries.
pub(crate) const ENTRIES: &str = "entries";

/// The records of one tensor. Cheap to clone; shared by threads.
#[derive(Clone)]
pub struct Records(Arc<Inner>);

struct Inner {
    tensor: Tensor,
    schema: Schema,
    ty: TypeId,
    extent: Extent,
    /// Bytes of a record, and from one to the next: they fit memory.
    size: usize,
    stride: usize,
    count: u64,
    limits: SchemaLimits,
    data: Store,
    heap: Store,
    compared: Compared,
}

/// What a [`Tensor`] of records, or a blob, gives.
pub trait TensorRecords {
    /// The records of a tensor of the layout `records`. Reads no more than an index does where the
    /// tensor is raw; a small compressed one is decoded whole.
    ///
    /// # Errors
    /// Misuse for another layout; `records/kind`, `records/size`, `records/heap`; the `schema/…` rules;
    /// as [`Tensor::bytes`].
    fn records(&self) -> Result<Records>;

    /// The runs of bytes of a tensor of the layout `blob`.
    ///
    /// # Errors
    /// As [`TensorRecords::records`].
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
    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.0.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }

    /// The tensor they are.
    pub fn tensor(&self) -> &Tensor {
        &self.0.tensor
    }

    /// What may be asked of a record: those of the file, and no more bytes than its length allows.
    pub fn limits(&self) -> &SchemaLimits {
        &self.0.limits
    }

    /// The schema of a record; its root is [`Records::ty`].
    pub fn schema(&self) -> &Schema {
        &self.0.schema
    }

    /// The type of a record in [`Records::schema`].
    pub fn ty(&self) -> TypeId {
        self.0.ty
    }

    /// Bytes and alignment of a record.
    pub fn extent(&self) -> Extent {
        self.0.extent
    }

    /// The same records with all their bytes in memory, so that nothing is read any more. Where they are
    /// mapped or in memory already, nothing happens.
    ///
    /// # Errors
    /// As [`Tensor::bytes`].
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

    /// All their bytes one after the other, where they are mapped or in memory.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.0.data.whole()
    }

    /// The heap that their entries point into, where it is mapped or in memory.
    pub fn heap(&self) -> Option<&[u8]> {
        self.0.heap.whole()
    }

    /// The way to a part of a record: `image.width`, `corners[0]`. Look it up once, use it for every
    /// record.
    ///
    /// # Errors
    /// `schema/path`, `schema/unknown-path`.
    pub fn accessor(&self, path: &str) -> Result<Accessor> {
        let parsed: Path = path.parse()?;
        let found = self.0.schema.accessor(self.0.ty, &parsed);
        found.map_err(|e| {
            placed(query::or_like_member(e, self.schema(), self.ty(), path), self.tensor())
        })
    }

    /// The way to a number, a time or a boolean, read as a `T`.
    ///
    /// # Errors
    /// As [`Records::accessor`]; `record/access` where the kind is not one of `T`.
    pub fn typed<T: ReadScalar>(&self, path: &str) -> Result<Typed<T>> {
        self.accessor(path)?.typed().map_err(|e| placed(e, self.tensor()))
    }

    /// A record by its place.
    ///
    /// # Errors
    /// `records/index`; where the bytes are not at hand, as [`Tensor::bytes_range`].
    #[inline]
    pub fn record(&self, index: u64) -> Result<Record<'_>> {
        let bytes = match self.at_hand(index) {
            Some(bytes) => Cow::Borrowed(bytes),
            None => self.fetch(index)?,
        };
        Ok(Record { records: self, ty: self.0.ty, index, bytes })
    }

    /// The bytes of a record that is there and at hand.
    #[inline]
    fn at_hand(&self, index: u64) -> Option<&[u8]> {
        let inner = &*self.0;
        let bytes = inner.data.whole().filter(|_| index < inner.count)?;
        // All of it is there, and so neither product nor sum passes its length.
        let start = (index as usize).wrapping_mul(inner.stride);
        bytes.get(start..start.wrapping_add(inner.size))
    }

    /// The value of a member in the record of that place: [`Records::record`] and [`Record::get`].
    ///
    /// # Errors
    /// As those.
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
        // Within the component, whose length was checked against the count.
        let start = index * inner.stride as u64;
        let bytes = inner.data.get(start..start + inner.size as u64);
        bytes.map_err(|e| placed(e, self.tensor()))
    }

    /// The bytes of records that lie one after the other.
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

    /// An error found in a record.
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

/// The error with the tensor and the file it is about.
#[cold]
fn placed(e: Error, tensor: &Tensor) -> Error {
    e.in_tensor(tensor.name()).in_source(tensor.file().name())
}

/// Refuses a range that passes the number of records or runs, or ends before it starts.
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
        true => format!("records from {start} on, of {count}"),
        false => format!("records {start}..{end} of {count}"),
    })
}

/// Refuses another layout.
fn check_layout(tensor: &Tensor, wanted: &str) -> Result<()> {
    if tensor.layout().as_str() == wanted {
        return Ok(());
    }
    let message = format!("its layout is {}, not {wanted}", tensor.layout());
    Err(WRONG_LAYOUT.broken(message))
}
