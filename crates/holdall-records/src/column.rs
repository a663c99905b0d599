//! One member of all records, as a column.

use super::rules::BUFFER;
use super::{ReadScalar, Records, Typed, Values, placed};
use holdall_core::Result;
use std::ops::Range;

/// A number, a time or a boolean of all records, as a strided view: element `i` starts at byte `offset + i * stride` of
/// the dataset.
#[derive(Clone)]
pub struct Column<T> {
    records: Records,
    typed: Typed<T>,
}

impl Records {
    /// Returns one member of all records.
    ///
    /// # Errors
    /// Returns the same errors as [`Records::typed`].
    pub fn column<T: ReadScalar>(&self, path: &str) -> Result<Column<T>> {
        Ok(Column { typed: self.typed(path)?, records: self.clone() })
    }
}

impl<T: ReadScalar> Column<T> {
    /// Returns the number of elements, which is the number of records.
    pub fn len(&self) -> u64 {
        self.records.len()
    }

    /// Returns `true` if the dataset has no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the distance from one element to the next, in bytes.
    pub fn stride(&self) -> usize {
        self.records.0.stride
    }

    /// Returns the distance from the start of a record to the element, in bytes.
    pub fn offset(&self) -> usize {
        self.typed.accessor().offset()
    }

    /// Returns the bytes from the first element on, or `None` if they are neither mapped nor in memory. Together with
    /// [`Column::stride`] and [`Column::len`], this describes the strided view.
    pub fn base(&self) -> Option<&[u8]> {
        self.records.bytes()?.get(self.offset()..)
    }

    /// Returns `true` if every record has the member. Otherwise, [`Column::presence`] returns which records have it.
    pub fn is_always_present(&self) -> bool {
        self.typed.accessor().is_always_present()
    }

    /// Returns a view of the elements for fast random access. Returns `None` if the bytes are neither mapped nor in
    /// memory, if the member can be absent from a record, or if the member is not stored as a `T`: booleans, and floats
    /// that are read as wider floats.
    pub fn values(&self) -> Option<Values<'_, T>> {
        self.typed.values(self.records.bytes()?)
    }

    /// Returns the element of the record at `index`, or `None` if that record does not have the member.
    ///
    /// # Errors
    /// Returns the same errors as [`Records::get`].
    pub fn get(&self, index: u64) -> Result<Option<T>> {
        self.records.get(index, &self.typed)
    }

    /// Returns an iterator over the elements of all records. Bytes that are neither mapped nor in memory are read one
    /// piece at a time.
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

    /// Copies the elements of all records into `out`. Absent elements become zero (`false`).
    ///
    /// # Errors
    /// Returns `records/buffer` if `out` does not have one element per record, and the errors of [`Column::iter`].
    pub fn copy_into(&self, out: &mut [T]) -> Result<()>
    where
        T: Default,
    {
        self.copy_range_into(0..self.len(), out)
    }

    /// Copies the elements of a range of records into `out`. Absent elements become zero (`false`).
    ///
    /// # Errors
    /// Returns `records/buffer` if `out` does not have one element per record of the range, `records/index` if the
    /// range is out of bounds, and the errors of [`Column::iter`].
    pub fn copy_range_into(&self, range: Range<u64>, out: &mut [T]) -> Result<()>
    where
        T: Default,
    {
        self.records.check_range(&range)?;
        self.records.compare_if_whole(&range)?;
        let wanted = range.end - range.start;
        if out.len() as u64 != wanted {
            let message = format!("the buffer has {} elements for {wanted} records", out.len());
            return Err(placed(BUFFER.broken(message), self.records.tensor()));
        }
        // If all bytes are in memory, they are copied as one piece; otherwise they are read step by step.
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

    /// Returns the elements of all records. Absent elements become zero (`false`).
    ///
    /// # Errors
    /// Returns the same errors as [`Column::copy_into`].
    pub fn to_vec(&self) -> Result<Vec<T>>
    where
        T: Default,
    {
        // The file has at least one byte per element, so its length bounds this allocation.
        let mut out = vec![T::default(); self.len() as usize];
        self.copy_into(&mut out)?;
        Ok(out)
    }

    /// Returns, for each record, whether it has the member.
    ///
    /// # Errors
    /// Returns `record/union-tag` if a tag is invalid, and the errors of [`Column::iter`].
    pub fn presence(&self) -> Result<Vec<bool>> {
        let mut out = vec![true; self.len() as usize];
        if self.is_always_present() {
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
                    .is_present(record)
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
