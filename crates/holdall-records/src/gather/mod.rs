//! Gathers members of records as columns, in the layout of Arrow and NumPy. Everything that converts records to columns
//! uses this module.
//!
//! The records of a batch are consecutive. They are processed in blocks that fit into the processor's cache, all
//! members of a block together, on several threads. Heap data is gathered in a second pass, when its length is known;
//! heap data that is in the order of the records is not copied. The passes over blocks only detect that a value is
//! invalid; the error is then found by reading the record.

mod blob;
mod block;
mod columns;
mod fill;
mod plan;
pub(crate) mod reuse;
mod views;

pub use reuse::ColumnMemory;

use crate::rules::OTHER_KIND;
use crate::{Record, Records, placed};
use bytes::Bytes;
#[cfg(feature = "arrow")]
pub(crate) use columns::tensor;
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use holdall_io::Work;
use holdall_io::buffer::Buffer;
use holdall_schema::record::rules::{LENGTH, TOO_LARGE};
use holdall_schema::{Enum, Path, TypeId};
use plan::{Job, Plan, Slot};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A column: a value for each record, or for each element of an array.
#[derive(Debug)]
#[non_exhaustive]
pub struct Gathered {
    /// The number of values.
    pub len: usize,
    /// The number of absent values. They are stored as zero or as empty strings.
    pub absent: usize,
    /// A bit for each value, set if it is present, lowest bit of a byte first. `None` if all are present.
    pub presence: Option<Bytes>,
    /// The values.
    pub values: Values,
}

/// The values of a column.
#[derive(Debug)]
#[non_exhaustive]
pub enum Values {
    /// A bit for each boolean, lowest bit of a byte first.
    Bits(ColumnBytes),
    /// Consecutive numbers. Those of less than a byte take a byte each.
    Numbers(ColumnBytes),
    /// The indices of enum values, in the width in which they are stored.
    EnumIndices(ColumnBytes, Enum),
    /// Strings or byte strings, as in Arrow's `LargeBinary`: the offsets, one more `i64` than there are values,
    /// starting with 0; and the data, the bytes of all values.
    Binary64(Bytes, Bytes),
    /// Strings or byte strings, as in Arrow's `Binary`: the same with offsets that are `i32`.
    Binary32(Bytes, Bytes),
    /// Strings or byte strings as Arrow's views: sixteen bytes for each, which contain a short string; and the buffers
    /// of less than 2 GiB each that contain the other strings.
    Views(Bytes, Vec<Bytes>),
    /// A column for each member of a struct. For a union, a column of its keys and a column for each variant.
    Struct(Vec<Gathered>),
    /// Lists: the offsets as in `Binary64`, counted in elements; and the elements.
    Lists(Bytes, Box<Gathered>),
    /// The elements of lists of equal length.
    Fixed(Box<Gathered>),
}

/// The bytes of a column.
#[derive(Debug)]
pub enum ColumnBytes {
    /// Memory that belongs to the column.
    Own(Buffer),
    /// Bytes of the heap, not copied.
    Shared(Bytes),
}

impl Default for ColumnBytes {
    fn default() -> ColumnBytes {
        ColumnBytes::Shared(Bytes::new())
    }
}

impl ColumnBytes {
    /// Converts to shared, immutable bytes. When the last reference is dropped, the memory is kept for later columns,
    /// up to 64 MiB in total.
    pub fn freeze(self) -> Bytes {
        match self {
            ColumnBytes::Own(memory) => reuse::lend(memory),
            ColumnBytes::Shared(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for ColumnBytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            ColumnBytes::Own(memory) => memory.as_ref(),
            ColumnBytes::Shared(bytes) => bytes,
        }
    }
}

/// The form of gathered strings and byte strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TextForm {
    /// Offsets of 64 bits and data: [`Values::Binary64`].
    #[default]
    Offsets64,
    /// Offsets of 32 bits and data: [`Values::Binary32`].
    Offsets32,
    /// Arrow's views: [`Values::Views`].
    Views,
}

/// The records to gather.
#[derive(Debug)]
#[non_exhaustive]
pub enum RowSelection<'a, 'r> {
    /// The records of a range.
    Range(Range<u64>),
    /// The records at these indices, in this order.
    At(&'a [u64]),
    /// These records.
    These(&'a [Record<'r>]),
}

/// The runs of a blob to gather.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunSelection<'a> {
    /// The runs of a range.
    Range(Range<u64>),
    /// The runs at these indices, in this order.
    At(&'a [u64]),
}

impl Records {
    /// Returns the members at these paths of the chosen records, each as a column.
    ///
    /// # Errors
    /// Returns `records/index` if a record does not exist; `records/other-kind` for records of another kind; the errors of
    /// [`Records::accessor`] and [`Records::record`]; an error of the `record/…` rules, with the record; `record/too-large`
    /// if the columns would need more memory than the limit of [`Records::limits`], which is possible if entries share
    /// their bytes.
    pub fn gather(
        &self,
        paths: &[Path],
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Vec<Gathered>> {
        self.gather_as(paths, &[], chosen, work)
    }

    /// Does the same as [`Records::gather`], but returns strings and byte strings as views, at any depth:
    /// [`Values::Views`]. The keys of unions are still [`Values::Binary64`].
    ///
    /// # Errors
    /// Returns the errors of [`Records::gather`], and `records/arrow` for a text of more than 1 GiB.
    pub fn gather_views(
        &self,
        paths: &[Path],
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Vec<Gathered>> {
        self.gather_or_explain(paths, chosen, work, |gatherer, rows| {
            gatherer.texts = TextForm::Views;
            gatherer.columns(rows, self.ty(), paths, &vec![TextForm::Views; paths.len()])
        })
    }

    /// Does the same as [`Records::gather`], but returns the strings and byte strings of each path in the form that
    /// `forms` has at its index. Paths without a form have [`TextForm::Offsets64`], as have strings in structs, unions
    /// and arrays.
    ///
    /// # Errors
    /// Returns the errors of [`Records::gather_views`], and `records/arrow` if the strings of a member have 2 GiB or
    /// more and their offsets have 32 bits.
    pub fn gather_as(
        &self,
        paths: &[Path],
        forms: &[TextForm],
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Vec<Gathered>> {
        self.gather_or_explain(paths, chosen, work, |gatherer, rows| {
            gatherer.columns(rows, self.ty(), paths, forms)
        })
    }

    /// Returns the heap data of a member as offsets and data. The offsets are one more `i64` than there are records;
    /// they count bytes for strings and byte strings, and elements for arrays. The elements of arrays are at their
    /// stride.
    ///
    /// # Errors
    /// Returns the errors of [`Records::gather`], and `record/access` for a member without an entry.
    pub fn gather_heap_data(
        &self,
        path: &Path,
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<(Bytes, Bytes)> {
        let all = std::slice::from_ref(path);
        self.gather_or_explain(all, chosen, work, |gatherer, rows| {
            gatherer.heap_data(rows, self.ty(), path)
        })
    }

    /// Returns which records have a member: a bit for each, lowest bit of a byte first. Returns `None` if all records
    /// have it.
    ///
    /// # Errors
    /// Returns the errors of [`Records::gather`], except those about the value of the member.
    pub fn gather_presence(
        &self,
        path: &Path,
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Option<Bytes>> {
        let slot = Slot { part: self.accessor(&path.to_string())?, job: Job::Presence };
        if slot.part.is_always_present() {
            return Ok(None);
        }
        let all = std::slice::from_ref(path);
        self.gather_or_explain(all, chosen, work, |gatherer, rows| {
            let filled = gatherer.fill(std::slice::from_ref(&slot), rows)?.pop();
            Ok(filled.and_then(|filled| filled.presence))
        })
    }

    /// Returns how many records take about `bytes` bytes together, including their heap data: from 1 to 1,048,576.
    pub fn rows_in(&self, bytes: u64) -> u64 {
        let all = self.0.data.len().saturating_add(self.0.heap.len());
        let each = all.div_ceil(self.0.count.max(1)).max(1);
        (bytes / each).clamp(1, 1 << 20)
    }

    /// Gathers, and if a value is invalid, reads the records to find the error.
    fn gather_or_explain<T>(
        &self,
        paths: &[Path],
        chosen: &RowSelection<'_, '_>,
        work: &Work,
        gather: impl FnOnce(&mut Gatherer<'_>, &Rows<'_>) -> Found<T>,
    ) -> Result<T> {
        if let RowSelection::Range(range) = chosen {
            self.compare_if_whole(range)?;
        }
        let left = self.limits().decoded_len;
        let mut gatherer = Gatherer { records: self, work, texts: TextForm::Offsets64, left };
        let rows = gatherer.rows(chosen)?;
        gather(&mut gatherer, &rows).map_err(|wrong| match wrong {
            Wrong::Told(e) => placed(e, self.tensor()),
            Wrong::Bytes => self.wrong(paths, chosen, &rows),
        })
    }

    /// Returns the error of the first record with an invalid value.
    #[cold]
    fn wrong(&self, paths: &[Path], chosen: &RowSelection<'_, '_>, rows: &Rows<'_>) -> Error {
        for path in paths {
            let part = match self.schema().accessor(self.ty(), path) {
                Ok(part) => part,
                Err(e) => return placed(e, self.tensor()),
            };
            for (at, bytes) in rows.bytes.chunks(rows.stride.max(1)).enumerate() {
                let index = match chosen {
                    RowSelection::Range(range) => range.start + at as u64,
                    RowSelection::At(places) => places[at],
                    RowSelection::These(records) => records[at].index(),
                };
                let bytes = Cow::Borrowed(&bytes[..self.0.size]);
                let record = Record { records: self, ty: self.ty(), index, bytes };
                let checked = match record.part(&part) {
                    Ok(Some(part)) => part.check(),
                    other => other.map(drop),
                };
                if let Err(e) = checked {
                    return e;
                }
            }
        }
        placed(LENGTH.broken("the records do not fit their schema"), self.tensor())
    }
}

/// The reason why there is no column: an error, or an invalid value whose error is not known yet.
pub(crate) enum Wrong {
    Told(Error),
    Bytes,
}

impl From<Error> for Wrong {
    fn from(e: Error) -> Wrong {
        Wrong::Told(e)
    }
}

pub(crate) type Found<T> = std::result::Result<T, Wrong>;

/// Consecutive values of one type.
struct Rows<'a> {
    bytes: Cow<'a, [u8]>,
    count: usize,
    stride: usize,
}

struct Gatherer<'g> {
    records: &'g Records,
    work: &'g Work,
    /// The form of strings in arrays.
    texts: TextForm,
    /// Number of bytes that columns may still take.
    left: u64,
}

impl<'g> Gatherer<'g> {
    /// Returns the chosen records, directly from the file or copied together in memory.
    fn rows<'a>(&mut self, chosen: &RowSelection<'a, '_>) -> Result<Rows<'a>>
    where
        'g: 'a,
    {
        let records = self.records;
        let (stride, size) = (records.0.stride, records.0.size);
        let run = |range: Range<u64>| -> Result<Rows<'a>> {
            records.check_range(&range)?;
            let count = (range.end - range.start) as usize;
            Ok(Rows { bytes: records.run(range)?, count, stride })
        };
        let count = match chosen {
            RowSelection::Range(range) => return run(range.clone()),
            RowSelection::At(places) => places.len(),
            RowSelection::These(these) => {
                let is_other = |r: &&Record<'_>| {
                    !Arc::ptr_eq(&r.records().0, &records.0) || r.ty() != records.ty()
                };
                if let Some(other) = these.iter().find(is_other) {
                    let name = other.records().tensor().name();
                    let message = format!(
                        "a record of `{}` cannot be added to columns of other records",
                        name.escaped()
                    );
                    return Err(placed(OTHER_KIND.broken(message), records.tensor()));
                }
                let first = these.first().map_or(0, Record::index);
                let is_run = (first..).zip(*these).all(|(at, record)| record.index() == at);
                if is_run && records.bytes().is_some() {
                    return run(first..first + these.len() as u64);
                }
                these.len()
            }
        };
        self.take(count, stride)?;
        let mut bytes = vec![0; count * stride];
        let mut slots = bytes.chunks_exact_mut(stride.max(1));
        let mut put = |record: &[u8]| {
            if let Some(slot) = slots.next() {
                slot[..size].copy_from_slice(record);
            }
        };
        match chosen {
            RowSelection::Range(_) => {}
            RowSelection::These(all) => all.iter().for_each(|record| put(record.bytes())),
            RowSelection::At(places) if records.bytes().is_some() => {
                for place in *places {
                    put(records.record(*place)?.bytes());
                }
            }
            RowSelection::At(places) => {
                for record in records.at(places.to_vec()) {
                    put(record?.bytes());
                }
            }
        }
        Ok(Rows { bytes: bytes.into(), count, stride })
    }

    /// Returns the members at these paths of values of a type. The recursion is bounded by the depth of the schema.
    fn columns(
        &mut self,
        rows: &Rows<'_>,
        ty: TypeId,
        paths: &[Path],
        forms: &[TextForm],
    ) -> Found<Vec<Gathered>> {
        let is_near = self.records.0.heap.whole().is_some();
        let mut plan = Plan::new(self.records.schema(), TextForm::Offsets64, is_near);
        let forms = forms.iter().copied().chain(std::iter::repeat(TextForm::Offsets64));
        let shapes = paths.iter().zip(forms).map(|(path, form)| {
            plan.texts = form;
            plan.add(ty, path, false)
        });
        let shapes = shapes.collect::<Result<Vec<_>>>()?;
        let mut filled = self.fill(&plan.slots, rows)?;
        self.all(shapes, rows.count, &mut filled)
    }

    fn heap_data(&mut self, rows: &Rows<'_>, ty: TypeId, path: &Path) -> Found<(Bytes, Bytes)> {
        let mut plan = Plan::new(self.records.schema(), TextForm::Offsets64, true);
        plan.add(ty, path, true)?;
        match self.fill(&plan.slots, rows)?.pop() {
            Some(filled) => Ok((filled.values.freeze(), filled.data.freeze())),
            None => Err(Wrong::Bytes),
        }
    }

    /// Counts the bytes of a column before memory is allocated for them.
    fn take(&mut self, count: usize, width: usize) -> Result<()> {
        let wanted = (count as u64).saturating_mul(width as u64);
        let most = self.records.limits().decoded_len;
        self.left = self.left.checked_sub(wanted).ok_or_else(|| {
            let message = format!("columns of a batch take more than {most} bytes");
            let hint = "take fewer records at a time";
            placed(TOO_LARGE.broken(message).with_hint(hint), self.records.tensor())
        })?;
        Ok(())
    }
}
