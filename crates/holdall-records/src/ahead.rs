//! Reading ahead in a component that is asked for in small ranges: one behind the other, or many together.

use bytes::Bytes;
use holdall_core::Result;
use holdall_core::read::join;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Runs of ranges that are followed at once: threads that each go through a part of the records.
const RUNS: usize = 8;

/// Bytes that may lie between one range and the next for both to be one run.
const GAP: u64 = 16 << 10;

/// Bytes that are read ahead first; each time four times as many, up to [`MOST`] or what is good to read at a time.
const FIRST: u64 = 32 << 10;

/// Bytes kept for each run.
const MOST: u64 = 4 << 20;

/// Bytes kept of what was read together; more where that was more.
const TOGETHER: usize = 32 << 20;

/// Ranges that were read, and what follows them.
///
/// A range alone is read as it is. The one behind it, and what comes after that, is read with more and more of what follows, so
/// that the entries of many records cost few reads. Of these at most 32 MiB are kept, and as much of what was read together.
#[derive(Default)]
pub(super) struct Ahead {
    /// The run that was asked for last is the last.
    runs: Mutex<Vec<Run>>,
    /// What was read together, in rising order of where it starts; what came last is the last.
    together: Mutex<Vec<Vec<(u64, Bytes)>>>,
}

struct Run {
    /// What is kept, and where it starts.
    start: u64,
    kept: Bytes,
    /// Where the range ended that was asked for last.
    asked: u64,
    /// How much the next read takes.
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
    /// A range of what was read together.
    pub(super) fn near(&self, range: &Range<u64>) -> Option<Bytes> {
        let together = self.together.lock().unwrap_or_else(PoisonError::into_inner);
        together.iter().rev().find_map(|set| {
            let at = set.partition_point(|(start, _)| *start <= range.start).checked_sub(1)?;
            let (start, bytes) = &set[at];
            let at = |offset: u64| usize::try_from(offset.checked_sub(*start)?).ok();
            let (from, upto) = (at(range.start)?, at(range.end)?);
            (from <= upto && upto <= bytes.len()).then(|| bytes.slice(from..upto))
        })
    }

    /// Reads these ranges together by `read`, as far as they are not kept.
    pub(super) fn bring(
        &self,
        mut ranges: Vec<Range<u64>>,
        read: impl FnOnce(&[Range<u64>]) -> Result<Vec<Bytes>>,
    ) -> Result<()> {
        ranges.retain(|range| self.near(range).is_none());
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

    /// A range of `len` bytes, by `read` where it is not kept; `piece` bytes are good to read at a time.
    pub(super) fn get(
        &self,
        range: Range<u64>,
        len: u64,
        piece: u64,
        read: impl Fn(Range<u64>) -> Result<Bytes>,
    ) -> Result<Bytes> {
        if let Some(found) = self.near(&range) {
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
            // What follows may be damaged; nobody has asked for it.
            Err(_) if whole.end > range.end => {
                whole = range.clone();
                read(range.clone())?
            }
            kept => kept?,
        };
        let next = (next.max(FIRST / 4) * 4).min(MOST).min(piece.max(FIRST));
        // A long range would be kept for nothing: what follows it is asked for next.
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
