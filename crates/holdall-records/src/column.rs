//! One member of all records.

use super::rules::BUFFER;
use super::{ReadScalar, Records, Typed, Values, placed};
use holdall_core::Result;
use std::ops::Range;

/// A number, a time or a boolean of all records, as a strided view: element `i` lies at
/// `offset + i * stride` of the dataset's bytes.
#[derive(Clone)]
pub struct Column<T> {
    records: Records,
    typed: Typed<T>,
}

impl Records {
    /// A member of all records.
    ///
    /// # Errors
    /// As [`Records::typed`].
    pub fn column<T: ReadScalar>(&self, path: &str) -> Result<Column<T>> {
        Ok(Column { typed: self.typed(path)?, records: self.clone() })
    }
}

impl<T: ReadScalar> Column<T> {
    /// How many elements there are: one for each record.
    pub fn len(&self) -> u64 {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes from one element to the next.
    pub fn stride(&self) -> usize {
        self.records.0.stride
    }

    /// Bytes from the start of a record to the element.
    pub fn offset(&self) -> usize {
        self.typed.accessor().offset()
    }

    /// The bytes from the first element on, where they are mapped or in memory: with
    /// [`Column::stride`] and [`Column::len`] all there is to know.
    pub fn base(&self) -> Option<&[u8]> {
        self.records.bytes()?.get(self.offset()..)
    }

    /// Whether every record has the member. Where not, [`Column::presence`] says which have.
    pub fn is_always_there(&self) -> bool {
        self.typed.accessor().is_always_there()
    }

    /// The elements where they lie, for reading many of them in any order. `None` where they are neither mapped nor in memory, where a
    /// record may be without the member, or where the member is not stored as a `T` is: booleans, and floats that are read as wider ones.
    pub fn values(&self) -> Option<Values<'_, T>> {
        self.typed.values(self.records.bytes()?)
    }

    /// The element of one record; `None` where it is absent.
    ///
    /// # Errors
    /// As [`Records::get`].
    pub fn get(&self, index: u64) -> Result<Option<T>> {
        self.records.get(index, &self.typed)
    }

    /// The elements of all records, one after the other; those that are not at hand are read a piece at
    /// a time.
    pub fn iter(&self) -> impl Iterator<Item = Result<Option<T>>> + '_ {
        let every = self.records.step();
        let pieces = (0..self.len()).step_by(every as usize).map(move |first| {
            let range = first..self.len().min(first + every);
            let is_last = range.end == self.len();
            let bytes = self.records.run(range)?;
            if is_last {
                self.records.compare()?;
            }
            Ok((first, bytes))
        });
        pieces.flat_map(move |piece| {
            let (failed, bytes) = match piece {
                Ok((first, bytes)) => (None, Some((first, bytes))),
                Err(e) => (Some(Err(e)), None),
            };
            let values = bytes.into_iter().flat_map(move |(first, bytes)| {
                let count = bytes.len() / self.stride();
                (0..count).map(move |at| {
                    let record = bytes.get(at * self.stride()..).unwrap_or_default();
                    self.typed
                        .read(record)
                        .map_err(|e| self.records.in_record(e, first + at as u64))
                })
            });
            failed.into_iter().chain(values)
        })
    }

    /// Copies the elements of all records into `out`. Absent ones are zero (false).
    ///
    /// # Errors
    /// `records/buffer`, and as [`Column::iter`].
    pub fn copy_into(&self, out: &mut [T]) -> Result<()>
    where
        T: Default,
    {
        self.copy_range_into(0..self.len(), out)
    }

    /// Copies the elements of a range of records into `out`. Absent ones are zero (false).
    ///
    /// # Errors
    /// `records/buffer`, `records/index`, and as [`Column::iter`].
    pub fn copy_range_into(&self, range: Range<u64>, out: &mut [T]) -> Result<()>
    where
        T: Default,
    {
        self.records.check_range(&range)?;
        self.records.compare_if_whole(&range)?;
        let wanted = range.end - range.start;
        if out.len() as u64 != wanted {
            let message = format!("a buffer of {} elements for {wanted} records", out.len());
            return Err(placed(BUFFER.broken(message), self.records.tensor()));
        }
        // At hand all of it is one piece; else it is read bit by bit.
        let every = match self.records.bytes() {
            Some(_) => out.len().max(1),
            None => self.records.step() as usize,
        };
        let mut first = range.start;
        for part in out.chunks_mut(every) {
            let bytes = self.records.run(first..first + part.len() as u64)?;
            self.typed
                .copy_column(&bytes, part, T::default())
                .map_err(|e| placed(e, self.records.tensor()))?;
            first += part.len() as u64;
        }
        Ok(())
    }

    /// The elements of all records. Absent ones are zero (false).
    ///
    /// # Errors
    /// As [`Column::copy_into`].
    pub fn to_vec(&self) -> Result<Vec<T>>
    where
        T: Default,
    {
        // As many bytes as the file has for them, at the least.
        let mut out = vec![T::default(); self.len() as usize];
        self.copy_into(&mut out)?;
        Ok(out)
    }

    /// Which records have the member.
    ///
    /// # Errors
    /// `record/union-tag`, and as [`Column::iter`].
    pub fn presence(&self) -> Result<Vec<bool>> {
        let mut out = vec![true; self.len() as usize];
        if self.is_always_there() {
            return Ok(out);
        }
        let stride = self.stride();
        let mut first = 0;
        for part in out.chunks_mut(self.records.step() as usize) {
            let bytes = self.records.run(first..first + part.len() as u64)?;
            for (at, (slot, record)) in part.iter_mut().zip(bytes.chunks_exact(stride)).enumerate()
            {
                *slot = self
                    .typed
                    .accessor()
                    .is_there(record)
                    .map_err(|e| self.records.in_record(e, first + at as u64))?;
            }
            first += part.len() as u64;
        }
        Ok(out)
    }
}

impl<T: ReadScalar> std::fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Column")
            .field("len", &self.len())
            .field("stride", &self.stride())
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}
