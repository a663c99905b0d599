//! Read-ahead for a component that is read in small ranges, one after the other or many together.

use bytes::Bytes;
use holdall_core::Result;
use holdall_core::read::join;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Number of sequential readers that are followed at once, for example threads that each read a part of the records.
const RUNS: usize = 8;

/// Largest gap in bytes between two ranges that count as sequential.
const GAP: u64 = 16 << 10;

/// Length of the first read-ahead in bytes. Each further one is four times as long, up to [`MAX_READ_AHEAD`] or the source's
/// preferred length of a read.
const FIRST: u64 = 32 << 10;

/// Largest number of bytes that are kept for each sequential reader.
const MAX_READ_AHEAD: u64 = 4 << 20;

/// Number of bytes to keep of ranges that were read together; more if a single group was larger.
const TOGETHER: usize = 32 << 20;

/// A cache of ranges that were read, and of the bytes that follow them.
///
/// The first range of a run is read as it is. The following ranges are read with more and more of the bytes that
/// follow, so that the entries of many records need few reads. At most 32 MiB of read-ahead is kept, and as much of
/// ranges that were read together.
#[derive(Default)]
pub(super) struct Ahead {
    /// The most recently used run is last.
    runs: Mutex<Vec<Run>>,
    /// Ranges that were read together: each group is sorted by offset, and the most recent group is last.
    together: Mutex<Vec<Vec<(u64, Bytes)>>>,
}

struct Run {
    /// The offset where the kept bytes start.
    start: u64,
    kept: Bytes,
    /// The end of the last requested range.
    asked: u64,
    /// The length of the next read in bytes.
    next: u64,
}

impl Run {
    fn slice(&self, range: &Range<u64>) -> Option<Bytes> {
        let at = |offset: u64| usize::try_from(offset.checked_sub(self.start)?).ok();
        let (start, end) = (at(range.start)?, at(range.end)?);
        (start <= end && end <= self.kept.len()).then(|| self.kept.slice(start..end))
    }

    fn goes_on(&self, range: &Range<u64>) -> bool {
        range.start >= self.asked && range.start - self.asked <= GAP
    }
}

impl Ahead {
    /// Returns a range if it is among those that were read together.
    pub(super) fn cached(&self, range: &Range<u64>) -> Option<Bytes> {
        let together = self.together.lock().unwrap_or_else(PoisonError::into_inner);
        together.iter().rev().find_map(|set| {
            let at = set.partition_point(|(start, _)| *start <= range.start).checked_sub(1)?;
            let (start, bytes) = &set[at];
            let at = |offset: u64| usize::try_from(offset.checked_sub(*start)?).ok();
            let (from, upto) = (at(range.start)?, at(range.end)?);
            (from <= upto && upto <= bytes.len()).then(|| bytes.slice(from..upto))
        })
    }

    /// Reads those of these ranges that are not cached, together, with `read`.
    pub(super) fn prefetch(
        &self,
        mut ranges: Vec<Range<u64>>,
        read: impl FnOnce(&[Range<u64>]) -> Result<Vec<Bytes>>,
    ) -> Result<()> {
        ranges.retain(|range| self.cached(range).is_none());
        let ranges: Vec<Range<u64>> =
            join(&ranges, 0, u64::MAX).into_iter().map(|joined| joined.range).collect();
        if ranges.is_empty() {
            return Ok(());
        }
        let all = read(&ranges)?;
        let set: Vec<(u64, Bytes)> = ranges.iter().map(|range| range.start).zip(all).collect();
        let len = |set: &[(u64, Bytes)]| set.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        let mut together = self.together.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = len(&set) + together.iter().map(|set| len(set)).sum::<usize>();
        while kept > TOGETHER && !together.is_empty() {
            kept -= len(&together.remove(0));
        }
        together.push(set);
        Ok(())
    }

    /// Returns a range of a component of `len` bytes; calls `read` if it is not cached. `piece` is the preferred length
    /// of a read in bytes.
    pub(super) fn get(
        &self,
        range: Range<u64>,
        len: u64,
        piece: u64,
        read: impl Fn(Range<u64>) -> Result<Bytes>,
    ) -> Result<Bytes> {
        if let Some(found) = self.cached(&range) {
            return Ok(found);
        }
        let runs = || self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let next = {
            let mut runs = runs();
            let hit = runs.iter().enumerate().rev();
            let hit = hit.filter_map(|(at, run)| Some((at, run.slice(&range)?))).next();
            if let Some((at, found)) = hit {
                let mut run = runs.remove(at);
                run.asked = range.end;
                runs.push(run);
                return Ok(found);
            }
            let at = runs.iter().rposition(|run| run.goes_on(&range));
            at.map_or(0, |at| runs.remove(at).next)
        };
        let mut whole = range.start..range.end.max(range.start.saturating_add(next).min(len));
        let kept = match read(whole.clone()) {
            // Only the bytes after the requested range may be damaged; these were not requested.
            Err(_) if whole.end > range.end => {
                whole = range.clone();
                read(range.clone())?
            }
            kept => kept?,
        };
        let next = (next.max(FIRST / 4) * 4).min(MAX_READ_AHEAD).min(piece.max(FIRST));
        // A long range is not kept, because the next request starts after it.
        let kept_here = if whole.end == range.end { Bytes::new() } else { kept.clone() };
        let run = Run { start: whole.start, kept: kept_here, asked: range.end, next };
        let mut runs = runs();
        if runs.len() >= RUNS {
            runs.remove(0);
        }
        runs.push(run);
        Ok(kept.slice(..(range.end - range.start) as usize))
    }
}
