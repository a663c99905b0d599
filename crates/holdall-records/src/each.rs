//! Iteration over many records.

use super::{Record, Records};
use holdall_core::Result;
use holdall_io::Work;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of records that are read in one step, if the source has no latency per request.
const STEP: u64 = 1 << 20;

/// An iterator over records: see [`Records::iter`].
pub struct Iter<'r> {
    records: &'r Records,
    /// Records that were read but not yet returned. Unused if the bytes are mapped or in memory.
    read: VecDeque<Record<'r>>,
    next: u64,
    end: u64,
    /// Whether the range is all records and they have not been compared with their digests yet.
    is_whole: bool,
}

impl Records {
    /// Returns an iterator over the records of a range. Records that are neither mapped nor in memory are read 1 MiB at
    /// a time, or in the length that their source prefers. If the range is all records, they are compared with their
    /// digests at the end, and a mismatch is the last item.
    ///
    /// # Errors
    /// Returns `records/index`.
    pub fn iter(&self, range: Range<u64>) -> Result<Iter<'_>> {
        self.check_range(&range)?;
        let Range { start, end } = range;
        let is_whole = (start, end) == (0, self.len());
        Ok(Iter { records: self, read: VecDeque::new(), next: start, end, is_whole })
    }

    /// Calls `with` for every record, on the threads of `work`. Each thread takes 1 MiB of records at a time, or as
    /// much as [`Records::iter`] does. After the first error no further step starts, and the error is returned.
    ///
    /// # Errors
    /// Returns the errors of `with` and of [`Records::record`].
    pub fn par_for_each(
        &self,
        work: &Work,
        with: impl Fn(Record<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        self.par_chunks(work, |first, bytes| {
            for (at, bytes) in bytes.chunks_exact(self.0.stride).enumerate() {
                let bytes = Cow::Borrowed(bytes.get(..self.0.size).unwrap_or(bytes));
                let index = first + at as u64;
                with(Record { records: self, ty: self.0.ty, index, bytes })?;
            }
            Ok(())
        })
    }

    /// Calls `with` for runs of records, on the threads of `work`: with the index of the first record, and the bytes of
    /// about 1 MiB of records at their stride.
    ///
    /// # Errors
    /// Returns the same errors as [`Records::par_for_each`].
    pub fn par_chunks(
        &self,
        work: &Work,
        with: impl Fn(u64, &[u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let every = self.step();
        let first = std::sync::atomic::AtomicU64::new(0);
        // Each job takes steps until none are left, because a list of all steps could itself be long.
        let failed = std::sync::atomic::AtomicBool::new(false);
        let turn = |(): ()| -> Result<()> {
            use std::sync::atomic::Ordering::Relaxed;
            while !failed.load(Relaxed) {
                work.check()?;
                let start = first.fetch_add(every, Relaxed);
                if start >= self.len() {
                    break;
                }
                let done = self
                    .run(start..self.len().min(start + every))
                    .and_then(|bytes| with(start, &bytes));
                if let Err(e) = done {
                    failed.store(true, Relaxed);
                    return Err(e);
                }
            }
            Ok(())
        };
        work.for_each(vec![(); work.threads()], || (), |(), job| turn(job))?;
        self.compare()
    }

    /// Returns the number of records to read at a time.
    pub(super) fn step(&self) -> u64 {
        let hints = self.tensor().file().sources().read_hints();
        let len = if hints.is_remote() { hints.piece } else { STEP };
        (len / self.0.stride as u64).max(1)
    }
}

impl<'r> Iter<'r> {
    fn fill(&mut self) -> Result<()> {
        let records = self.records;
        let range = self.next..self.end.min(self.next + records.step());
        let (stride, size) = (records.0.stride, records.0.size);
        let bytes = records.run(range)?;
        for (index, bytes) in (self.next..).zip(bytes.chunks_exact(stride)) {
            let bytes = Cow::Owned(bytes.get(..size).unwrap_or(bytes).to_vec());
            self.read.push_back(Record { records, ty: records.0.ty, index, bytes });
        }
        Ok(())
    }
}

impl<'r> Iterator for Iter<'r> {
    type Item = Result<Record<'r>>;

    #[inline]
    fn next(&mut self) -> Option<Result<Record<'r>>> {
        if self.next >= self.end {
            let is_whole = std::mem::take(&mut self.is_whole);
            return is_whole.then(|| self.records.compare().err()).flatten().map(Err);
        }
        let found = if self.records.bytes().is_some() {
            self.records.record(self.next)
        } else {
            if self.read.is_empty()
                && let Err(e) = self.fill()
            {
                (self.next, self.is_whole) = (self.end, false);
                return Some(Err(e));
            }
            match self.read.pop_front() {
                Some(record) => Ok(record),
                None => self.records.record(self.next),
            }
        };
        self.next += 1;
        Some(found)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.end - self.next).unwrap_or(usize::MAX);
        // One more item may follow: an error from comparing digests.
        (left, left.checked_add(self.is_whole.into()))
    }
}
