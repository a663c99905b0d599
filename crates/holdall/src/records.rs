//! Datasets of records, and blobs: what tensors of the layouts `records` and `blob` hold
//! (`docs/spec/metatensor.md`), in whatever format they are.
//!
//! A record is looked up in O(1) by its place, its members by [`Accessor`]s that know where they lie.
//! Where the bytes are mapped or in memory, nothing is copied; elsewhere what is asked for is read.
//!
//! ```no_run
//! # fn main() -> holdall::Result<()> {
//! use holdall::TensorRecords as _;
//! let records = holdall::open("train.mt")?.tensor("samples")?.records()?;
//! let (text, label) = (records.accessor("text")?, records.typed::<i32>("label")?);
//! for record in records.iter(0..records.len())? {
//!     let record = record?;
//!     println!("{:?} {:?}", record.string(&text)?, record.get(&label)?);
//! }
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "derive")]
pub use holdall_derive::Record;
#[cfg(feature = "arrow")]
pub use holdall_records::arrow;
#[cfg(feature = "derive")]
#[doc(hidden)]
pub use holdall_records::derive;
pub use holdall_records::{
    Accessor, At, Blob, BlobElement, BlobWriter, Build, BuildReport, CheckReport, Column, Columns,
    Condition, Conversion, DatasetWriter, Export, FillOptions, Finding, Form, Group, Groups, Iter,
    Migration, MigrationPlan, MigrationReport, Order, Part, PlanStep, Query, Ragged, ReadScalar,
    Record, RecordLayout, Records, Rows, RowsOptions, Sample, SchemaLayout, SchemaOrFile,
    TensorPart, TensorRecords, Texts, Typed, Where, check_file, check_rows, check_schema, dataset,
    dataset_or_blob, infer, is_binary, layout, query, rules, schema_of_dataset, schema_of_file,
    schema_of_tensor,
};
#[cfg(feature = "derive")]
pub use holdall_records::{FromRecord, Structs};
#[cfg(feature = "parquet")]
pub use holdall_records::{TableReport, TableWriter};
