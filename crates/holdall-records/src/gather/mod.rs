//! Members of records gathered as columns, as Arrow and NumPy have them: all code that takes columns takes these.
//!
//! The records of a batch lie one after the other. They are gone over in blocks that stay in the processor's cache, all members of
//! a block together, on several threads. What lies in the heap takes a second turn, once it is known how much it is; where it
//! lies there in the order of the records, it is not copied. Blocks only find out that something is wrong; what it is, the
//! record is asked then.

mod block;
mod columns;
mod fill;
mod plan;
mod reuse;
mod views;

use crate::rules::OTHER_KIND;
use crate::{Record, Records, placed};
use bytes::Bytes;
#[cfg(feature = "arrow")]
pub(crate) use columns::tensor;
use holdall_core::error::Shown as _;
use holdall_core::{Error, Result};
use holdall_io::Work;
use holdall_io::buffer::Buffer;
use holdall_schema::record::rules::{LENGTH, TOO_LARGE};
use holdall_schema::{Enum, Path, TypeId};
use plan::{Job, Plan, Slot};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A column: a value for each record, or for each element of an array in one.
#[derive(Debug)]
#[non_exhaustive]
pub struct Gathered {
    /// How many values there are.
    pub len: usize,
    /// How many of them are absent: zeros, and nothing in the heap.
    pub absent: usize,
    /// A bit for each that is there, the lowest of a byte first; `None` where all are.
    pub there: Option<Bytes>,
    /// The values.
    pub values: Values,
}

/// The values of a column.
#[derive(Debug)]
#[non_exhaustive]
pub enum Values {
    /// A bit for each boolean, the lowest of a byte first.
    Bits(ColumnBytes),
    /// Numbers, one after the other; of less than a byte a byte each.
    Numbers(ColumnBytes),
    /// The places of an enum's strings, as wide as they are stored.
    Places(ColumnBytes, Enum),
    /// Where texts, or runs of bytes, end: one more `i64` than there are values, the first 0. And their bytes.
    Runs(Bytes, Bytes),
    /// Texts, or runs of bytes, as views of Arrow's: sixteen bytes for each, with a short one in them. And the buffers, of less than
    /// 2 GiB each, in which the others lie.
    Views(Bytes, Vec<Bytes>),
    /// A column for each member; of a union its keys, and a column for each variant.
    Struct(Vec<Gathered>),
    /// Where lists end, as of runs, counted in elements. And the elements.
    Lists(Bytes, Box<Gathered>),
    /// The elements of lists of one length.
    Fixed(Box<Gathered>),
}

/// Bytes of a column.
#[derive(Debug)]
pub enum ColumnBytes {
    /// Nobody else's.
    Own(Buffer),
    /// As they lie in the heap.
    Shared(Bytes),
}

impl Default for ColumnBytes {
    fn default() -> ColumnBytes {
        ColumnBytes::Shared(Bytes::new())
    }
}

impl ColumnBytes {
    /// The bytes, shared and no longer changeable. Up to 64 MiB of memory are kept for columns that come later, once nobody has them
    /// any more.
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

/// Which records are gathered.
#[derive(Debug)]
#[non_exhaustive]
pub enum RowSelection<'a, 'r> {
    /// Those of a range.
    Range(Range<u64>),
    /// Those at these places, in this order.
    At(&'a [u64]),
    /// These.
    These(&'a [Record<'r>]),
}

impl Records {
    /// The parts at these paths of some records, each as a column.
    ///
    /// # Errors
    /// `records/index`; `records/other-kind` for records of something else; as [`Records::accessor`]; the `record/…` rules, with the record; `record/too-large` where columns would take more
    /// than the limit of [`Records::limits`], as entries that share their bytes can; as [`Records::record`].
    pub fn gather(
        &self,
        paths: &[Path],
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Vec<Gathered>> {
        self.gather_as(Texts::Ends, paths, chosen, work)
    }

    /// As [`Records::gather`], with texts and runs of bytes as views, at any depth: [`Values::Views`], but for the keys of unions.
    ///
    /// # Errors
    /// As [`Records::gather`]; `records/arrow` for a text of more than 1 GiB.
    pub fn gather_views(
        &self,
        paths: &[Path],
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Vec<Gathered>> {
        self.gather_as(Texts::Views, paths, chosen, work)
    }

    fn gather_as(
        &self,
        texts: Texts,
        paths: &[Path],
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Vec<Gathered>> {
        self.gather_or_explain(paths, chosen, work, |gatherer, rows| {
            gatherer.texts = texts;
            gatherer.columns(rows, self.ty(), paths)
        })
    }

    /// What a part has in the heap: where that of each record ends, one more `i64` than there are records, in bytes of a text or a run, in
    /// elements of an array; and the bytes, of an array at the stride of its elements.
    ///
    /// # Errors
    /// As [`Records::gather`]; `record/access` for a part without an entry.
    pub fn gather_runs(
        &self,
        path: &Path,
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<(Bytes, Bytes)> {
        let all = std::slice::from_ref(path);
        self.gather_or_explain(all, chosen, work, |gatherer, rows| {
            gatherer.runs(rows, self.ty(), path)
        })
    }

    /// Which records have a part: a bit for each, the lowest of a byte first; `None` where all have.
    ///
    /// # Errors
    /// As [`Records::gather`], but of the part itself nothing is looked at.
    pub fn gather_there(
        &self,
        path: &Path,
        chosen: &RowSelection<'_, '_>,
        work: &Work,
    ) -> Result<Option<Bytes>> {
        let slot = Slot { part: self.accessor(&path.to_string())?, job: Job::There };
        if slot.part.is_always_there() {
            return Ok(None);
        }
        let all = std::slice::from_ref(path);
        self.gather_or_explain(all, chosen, work, |gatherer, rows| {
            let filled = gatherer.fill(std::slice::from_ref(&slot), rows)?.pop();
            Ok(filled.and_then(|filled| filled.there))
        })
    }

    /// How many records have about so many bytes together, with what they point at: 1 to 1,048,576.
    pub fn rows_in(&self, bytes: u64) -> u64 {
        let all = self.0.data.len().saturating_add(self.0.heap.len());
        let each = all.div_ceil(self.0.count.max(1)).max(1);
        (bytes / each).clamp(1, 1 << 20)
    }

    /// Does it, and asks the records for what is wrong where something is.
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
        let mut gatherer = Gatherer { records: self, work, texts: Texts::Ends, left };
        let rows = gatherer.rows(chosen)?;
        gather(&mut gatherer, &rows).map_err(|wrong| match wrong {
            Wrong::Told(e) => placed(e, self.tensor()),
            Wrong::Bytes => self.wrong(paths, chosen, &rows),
        })
    }

    /// What is wrong with the first record of which a part is wrong.
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
        placed(LENGTH.broken("records that are not of their schema"), self.tensor())
    }
}

/// Why there is no column: an error, or that some bytes are wrong.
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

/// Values of one type that lie one after the other.
struct Rows<'a> {
    bytes: Cow<'a, [u8]>,
    count: usize,
    stride: usize,
}

/// How texts and runs of bytes are gathered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Texts {
    Ends,
    Views,
}

struct Gatherer<'g> {
    records: &'g Records,
    work: &'g Work,
    texts: Texts,
    /// Bytes that columns may still take.
    left: u64,
}

impl<'g> Gatherer<'g> {
    /// The chosen records, as they lie in the file or one after the other in memory.
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
                    let message = format!("a record of `{}`, for columns of others", name.shown());
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

    /// The parts at these paths of values of a type. The height of a schema bounds the recursion.
    fn columns(&mut self, rows: &Rows<'_>, ty: TypeId, paths: &[Path]) -> Found<Vec<Gathered>> {
        // In one turn where their bytes are at hand.
        let is_near = self.records.0.heap.whole().is_some();
        let texts = if is_near { self.texts } else { Texts::Ends };
        let mut plan = Plan::new(self.records.schema(), texts);
        let shapes = paths.iter().map(|path| plan.add(ty, path, false));
        let shapes = shapes.collect::<Result<Vec<_>>>()?;
        let mut filled = self.fill(&plan.slots, rows)?;
        self.all(shapes, rows.count, &mut filled)
    }

    fn runs(&mut self, rows: &Rows<'_>, ty: TypeId, path: &Path) -> Found<(Bytes, Bytes)> {
        let mut plan = Plan::new(self.records.schema(), Texts::Ends);
        plan.add(ty, path, true)?;
        match self.fill(&plan.slots, rows)?.pop() {
            Some(filled) => Ok((filled.values.freeze(), filled.runs.freeze())),
            None => Err(Wrong::Bytes),
        }
    }

    /// Counts bytes of a column before there is memory for them.
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
