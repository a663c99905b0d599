//! Going over many records.

use super::{Record, Records};
use holdall_core::Result;
use holdall_io::Work;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of records in one step, where reading does not wait for a round trip.
const STEP: u64 = 1 << 20;

/// Records one after the other: see [`Records::iter`].
pub struct Iter<'r> {
    records: &'r Records,
    /// Where what was read starts, and what it is; records at hand need nothing read.
    read: VecDeque<Record<'r>>,
    next: u64,
    end: u64,
    /// Whether these are all records, and were not compared yet.
    is_whole: bool,
}

impl Records {
    /// The records of a range, one after the other. Those that are not at hand are read 1 MiB
    /// at a time, or as much as is good to read at a time from where they are. All records are compared with their digests at the end:
    /// an error is the last item then.
    ///
    /// # Errors
    /// `records/index`.
    pub fn iter(&self, range: Range<u64>) -> Result<Iter<'_>> {
        self.check_range(&range)?;
        let Range { start, end } = range;
        let is_whole = (start, end) == (0, self.len());
        Ok(Iter { records: self, read: VecDeque::new(), next: start, end, is_whole })
    }

    /// Calls `with` for every record, on the threads of `work`, each of which
    /// takes 1 MiB of them after the other, or as in [`Records::iter`]. The first error stops what has not begun, and is returned.
    ///
    /// # Errors
    /// What `with` returns; as [`Records::record`].
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

    /// Calls `with` for runs of records, on the threads of `work`: with the
    /// number of the first, and the bytes of about 1 MiB of records at their stride.
    ///
    /// # Errors
    /// As [`Records::par_for_each`].
    pub fn par_chunks(
        &self,
        work: &Work,
        with: impl Fn(u64, &[u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let every = self.step();
        let first = std::sync::atomic::AtomicU64::new(0);
        // A job is a thread's turn at what is left: a list of all steps might itself be long.
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

    /// Records that are read at a time.
    pub(super) fn step(&self) -> u64 {
        let terms = self.tensor().file().sources().terms();
        let len = if terms.is_remote() { terms.piece } else { STEP };
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
        // An error may follow.
        (left, left.checked_add(self.is_whole.into()))
    }
}
