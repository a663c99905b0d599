//! Converts records and runs of blobs to Arrow batches, and Arrow batches to records.
//!
//! | kind | column |
//! | --- | --- |
//! | numbers, booleans | the number's type; without an Arrow type: `FixedSizeBinary`, with the name of the type in the metadata `holdall.dtype` |
//! | `Timestamp` | `Timestamp(ns, UTC)` |
//! | `Enum` | `Dictionary` of `Utf8`, with unsigned keys of the width in which they are stored |
//! | `String`, `Record` | `LargeUtf8` |
//! | `Bytes` | `LargeBinary` |
//! | `Struct` | `Struct` |
//! | `Union` | `Struct` of the discriminator as `LargeUtf8` and of all variants; those that a record does not contain are null |
//! | `Array` | `LargeList`; `FixedSizeList` if its length is fixed |
//! | NumPy's texts and times, names of values, decimal numbers, maps: by keywords of the schema | `LargeUtf8`, `Date32`, `Timestamp`, `Duration`, `Dictionary` of `Utf8`, `Decimal128`, `Map` |
//! | `Tensor` | `FixedSizeList` with the extension `arrow.fixed_shape_tensor` if Arrow has the element type |

pub(crate) mod block;
mod cells;
mod element;
pub(crate) mod json;
mod meant;
mod read;
mod row_schema;
pub(crate) mod table;
mod types;
pub(crate) mod write;

pub use row_schema::row_schema;

use crate::gather::RowSelection;
use crate::rules::ARROW;
use crate::{Blob, Record, Records, check_range, placed};
use arrow_array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use holdall_core::{Error, Result};
use holdall_io::Work;
use holdall_schema::{Kind, Path, Segment};
use std::ops::Range;
use std::sync::Arc;

pub use {arrow_array, arrow_schema};

/// Members of records as Arrow columns: see [`Records::arrow`].
#[derive(Debug, Clone)]
pub struct Arrow {
    records: Records,
    paths: Vec<Path>,
    schema: SchemaRef,
}

/// An iterator over batches of records: see [`Arrow::batches`].
#[derive(Debug)]
pub struct Batches<I> {
    arrow: Arrow,
    records: I,
    len: usize,
    is_over: bool,
}

impl Records {
    /// Returns the members at these paths as columns, each named by its path. Without paths, returns all members, each
    /// named by its name.
    ///
    /// # Errors
    /// Returns the errors of [`Records::accessor`]; `schema/too-large` for more than 65,536 columns, including those in
    /// structs and arrays; `records/arrow` for a member that Arrow has no type for.
    pub fn arrow(&self, paths: &[impl AsRef<str>]) -> Result<Arrow> {
        let at = |e| placed(e, self.tensor());
        let (mut columns, mut fields) = (Vec::new(), types::Fields::new(self.schema()));
        let mut add = |path: Path, name: &str| -> Result<()> {
            let part = self.accessor(&path.to_string())?;
            fields.add(part.ty(), name, !part.is_always_present()).map_err(at)?;
            columns.push(path);
            Ok(())
        };
        for path in paths {
            add(path.as_ref().parse().map_err(at)?, path.as_ref())?;
        }
        match &self.schema().ty(self.ty()).kind {
            _ if !paths.is_empty() => {}
            Kind::Struct(fields) => {
                for member in &fields.members {
                    add(Path::root().then(Segment::Name(member.name.clone())), &member.name)?;
                }
            }
            _ => add(Path::root(), self.tensor().name())?,
        }
        Ok(Arrow { records: self.clone(), paths: columns, schema: fields.finish() })
    }
}

impl Arrow {
    /// Returns the schema of the columns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns records as one batch. The records come from [`Records::iter`], [`Query::run`](crate::Query::run) or any
    /// other source. All of them are held in memory.
    ///
    /// # Errors
    /// Returns the error of a record; an error of the `record/…` rules; `record/too-large` if the columns would need
    /// more memory than the limit of [`Records::limits`], which is possible if entries share their bytes;
    /// `records/other-kind` for records of another kind.
    pub fn batch<'r>(
        &self,
        records: impl IntoIterator<Item = Result<Record<'r>>>,
    ) -> Result<RecordBatch> {
        let rows = records.into_iter().collect::<Result<Vec<Record<'r>>>>()?;
        self.batch_of_rows(rows)
    }

    /// Returns records as batches of `len` records each (the last may be shorter), for anything that takes a
    /// [`RecordBatchReader`]. The first error ends the iteration.
    ///
    /// # Errors
    /// Each batch can be one of the errors of [`Arrow::batch`], as [`ArrowError::ExternalError`].
    pub fn batches<'r, I>(&self, records: I, len: usize) -> Batches<I::IntoIter>
    where
        I: IntoIterator<Item = Result<Record<'r>>>,
    {
        let (arrow, records) = (self.clone(), records.into_iter());
        Batches { arrow, records, len: len.max(1), is_over: false }
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    fn batch_of_rows(&self, rows: Vec<Record<'_>>) -> Result<RecordBatch> {
        let records = &self.records;
        let columns = records.gather(&self.paths, &RowSelection::These(&rows), &Work::new())?;
        let columns = self.schema.fields().iter().zip(columns);
        let columns = columns.map(|(field, column)| read::array(field, column));
        let columns =
            columns.collect::<Result<Vec<_>>>().map_err(|e| placed(e, records.tensor()))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(self.schema(), columns, &options);
        batch.map_err(|e| placed(refused(e), records.tensor()))
    }
}

impl<'r, I: Iterator<Item = Result<Record<'r>>>> Iterator for Batches<I> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let rows = self.records.by_ref().take(self.len).collect::<Result<Vec<_>>>();
        let batch = rows.and_then(|rows| match rows.len() {
            0 => Ok(None),
            _ => self.arrow.batch_of_rows(rows).map(Some),
        });
        self.is_over = !matches!(batch, Ok(Some(_)));
        batch.map_err(|e| ArrowError::ExternalError(Box::new(e))).transpose()
    }
}

impl<'r, I: Iterator<Item = Result<Record<'r>>>> RecordBatchReader for Batches<I> {
    fn schema(&self) -> SchemaRef {
        self.arrow.schema()
    }
}

impl Blob {
    /// Returns the runs of a range as a batch of one column, named after the tensor: texts and JSON as `LargeUtf8`,
    /// bytes as `LargeBinary`, elements as `LargeList`.
    ///
    /// # Errors
    /// Returns `records/index` if the range is out of bounds, `record/too-large` if the runs exceed the memory limit,
    /// and the errors of [`Blob::str`], [`Blob::json`] and [`Blob::get`].
    pub fn arrow(&self, range: Range<u64>) -> Result<RecordBatch> {
        let at = |e| placed(e, self.tensor());
        check_range(&range, self.len()).map_err(at)?;
        let (field, column) = read::runs(self, range)?;
        let schema = Arc::new(arrow_schema::Schema::new(vec![field]));
        RecordBatch::try_new(schema, vec![column]).map_err(|e| at(refused(e)))
    }
}

/// Converts an Arrow error about columns that do not fit together.
#[cold]
fn refused(e: ArrowError) -> Error {
    ARROW.broken(e.to_string())
}
