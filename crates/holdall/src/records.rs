//! Datasets of records, and blobs: the contents of tensors of the layouts `records` and `blob`
//! (`docs/spec/metatensor.md`), in any format.
//!
//! A record is looked up in O(1) by its index, its members by [`Accessor`]s that hold their offsets. If the
//! bytes are mapped or in memory, nothing is copied; otherwise only the requested bytes are read.
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

/// Implements [`FromRecord`] for a `#[repr(C)]` struct, field by field and without `unsafe`.
///
/// ```
/// use holdall::records::{FromRecord, Record};
/// #[derive(Clone, Copy, Record)]
/// #[repr(C)]
/// struct Point {
///     x: f32,
///     y: f32,
/// }
/// #[derive(Clone, Copy, Record)]
/// #[repr(C)]
/// struct Line {
///     ends: [Point; 2],
///     #[record(name = "type")]
///     kind: u8,
///     _padding: [u8; 3],
/// }
/// fn mirrors<T: FromRecord>() {}
/// mirrors::<Line>();
/// ```
///
/// A type without a defined layout, or with one that no schema can have, does not compile:
///
/// ```compile_fail
/// #[derive(Clone, Copy, holdall::records::Record)]
/// struct NotC {
///     x: f32,
/// }
/// ```
/// ```compile_fail
/// #[derive(Clone, Copy, holdall::records::Record)]
/// #[repr(C)]
/// struct Unnamed(f32);
/// ```
/// ```compile_fail
/// #[derive(Clone, Copy, holdall::records::Record)]
/// #[repr(C)]
/// union Either {
///     x: f32,
///     y: u32,
/// }
/// ```
/// ```compile_fail
/// #[derive(Clone, Copy, holdall::records::Record)]
/// #[repr(C)]
/// struct Of<T> {
///     x: T,
/// }
/// ```
/// ```compile_fail
/// #[derive(Clone, holdall::records::Record)]
/// #[repr(C)]
/// struct Text {
///     text: String,
/// }
/// ```
/// ```compile_fail
/// #[derive(Clone, Copy, holdall::records::Record)]
/// #[repr(C)]
/// struct Word {
///     #[record(rename = "x")]
///     y: f32,
/// }
/// ```
#[cfg(feature = "derive")]
pub use holdall_derive::Record;
#[cfg(feature = "arrow")]
pub use holdall_records::arrow;
#[cfg(feature = "derive")]
#[doc(hidden)]
pub use holdall_records::derive;
pub use holdall_records::gather;
pub use holdall_records::{
    Accessor, Append, AppendReport, Blob, BlobElement, BlobWriter, Build, BuildReport, CheckReport,
    Column, Columns, Condition, Conversion, ConverterInput, DatasetWriter, Export, FillOptions,
    Finding, FindingLocation, FinishedTensor, Group, Groups, Iter, Migration, MigrationPlan,
    MigrationReport, PlanStep, Query, Ragged, ReadScalar, Record, RecordBytes, RecordForm,
    RecordLayout, RecordSorter, Records, RecordsAt, RowSink, RowSource, Rows, RowsOptions, RunsAt,
    Sample, SchemaLayout, SchemaOrFile, TensorRecords, Texts, Typed, check_file, check_rows,
    check_schema, dataset, dataset_or_blob, infer, is_binary, layout, query, rules,
    schema_of_dataset, schema_of_file, schema_of_tensor, unverified_patterns,
};
#[cfg(feature = "derive")]
pub use holdall_records::{FromRecord, Structs};
#[cfg(feature = "parquet")]
pub use holdall_records::{TableReport, TableWriter};
