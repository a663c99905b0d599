//! A cache of bytes of remote files that were received along with requested ones, bounded for each source and overall.

use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The cached parts of one file.
#[derive(Default)]
pub(super) struct ReceivedParts(Arc<Mutex<Parts>>);

#[derive(Default)]
struct Parts {
    /// The parts that were received when the file was opened, from its end or its ends.
    first: Vec<(u64, Bytes)>,
    /// The parts that small reads received, the most recent last.
    later: VecDeque<(u64, Bytes)>,
    /// The total number of bytes of all parts.
    bytes: usize,
}

/// The number of parts from small reads that a source keeps.
const KEPT: usize = 32;
/// The number of bytes that all sources keep together: more than opening all files of a model at once receives, so that
/// nothing is evicted before it is used.
const MAX_HELD_LEN: usize = 32 << 20;

/// The number of bytes that all sources keep now.
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// The open sources.
static SOURCES: Mutex<Sources> = Mutex::new(Sources { all: VecDeque::new(), room: 64 });

struct Sources {
    /// The open sources, and some that have been dropped. Those at the front are evicted first.
    all: VecDeque<Weak<Mutex<Parts>>>,
    /// The number of entries at which dropped sources are removed.
    room: usize,
}

impl ReceivedParts {
    /// Creates the cache with the parts that were received when the file was opened.
    pub(super) fn new(first: Vec<(u64, Bytes)>) -> ReceivedParts {
        let held = ReceivedParts::default();
        let mut parts = lock(&held.0);
        parts.add(first.iter().map(|(_, bytes)| bytes.len()).sum());
        parts.first = first;
        drop(parts);
        lock(&SOURCES).add(&held.0);
        held.make_room();
        held
    }

    /// Creates the cache with parts that are never evicted, for a source that cannot fetch them again.
    pub(super) fn permanent(first: Vec<(u64, Bytes)>) -> ReceivedParts {
        let held = ReceivedParts::default();
        lock(&held.0).first = first;
        held
    }

    /// Returns the bytes of a range if one part contains all of them.
    pub(super) fn cut(&self, range: &Range<u64>) -> Option<Bytes> {
        let parts = lock(&self.0);
        parts.first.iter().chain(&parts.later).find_map(|(at, bytes)| cut(*at, bytes, range))
    }

    /// Returns the parts that were received when the file was opened.
    pub(super) fn first(&self) -> Vec<(u64, Bytes)> {
        lock(&self.0).first.clone()
    }

    /// Adds the bytes that a small read received.
    pub(super) fn keep(&self, at: u64, bytes: Bytes) {
        let mut parts = lock(&self.0);
        if parts.later.len() >= KEPT
            && let Some((_, old)) = parts.later.pop_front()
        {
            parts.take(old.len());
        }
        parts.add(bytes.len());
        parts.later.push_back((at, bytes));
        drop(parts);
        self.make_room();
    }

    /// Evicts the parts of other sources until the overall bound is met, starting with the source that was opened
    /// first.
    fn make_room(&self) {
        if BYTES.load(Ordering::Relaxed) <= MAX_HELD_LEN {
            return;
        }
        let sources = &mut lock(&SOURCES).all;
        for _ in 0..sources.len() {
            if BYTES.load(Ordering::Relaxed) <= MAX_HELD_LEN {
                return;
            }
            let Some(other) = sources.pop_front() else { return };
            let Some(parts) = other.upgrade() else { continue };
            if !Arc::ptr_eq(&parts, &self.0) {
                let mut parts = lock(&parts);
                let bytes = parts.bytes;
                parts.take(bytes);
                (parts.first, parts.later) = Default::default();
            }
            sources.push_back(other);
        }
    }
}

impl Sources {
    fn add(&mut self, one: &Arc<Mutex<Parts>>) {
        if self.all.len() >= self.room {
            self.all.retain(|other| other.strong_count() > 0);
            self.room = 64 + 2 * self.all.len();
        }
        self.all.push_back(Arc::downgrade(one));
    }
}

impl Parts {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        BYTES.fetch_add(bytes, Ordering::Relaxed);
    }

    fn take(&mut self, bytes: usize) {
        self.bytes -= bytes;
        BYTES.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.take(self.bytes);
    }
}

/// Returns the ranges that must be fetched, one for each of `ranges`: empty if its bytes are cached. Empty ranges are
/// part of no request.
pub(super) fn missing(ranges: &[Range<u64>], cached: &[Option<Bytes>]) -> Vec<Range<u64>> {
    let missing = |(range, at): (&Range<u64>, &Option<Bytes>)| match at {
        Some(_) => range.start..range.start,
        None => range.clone(),
    };
    ranges.iter().zip(cached).map(missing).collect()
}

/// Returns the bytes of `range` out of a part that starts at offset `at`, if the part contains all of them.
pub(super) fn cut(at: u64, bytes: &Bytes, range: &Range<u64>) -> Option<Bytes> {
    let start = range.start.checked_sub(at)?;
    let end = range.end.checked_sub(at)?;
    (end <= bytes.len() as u64).then(|| bytes.slice(start as usize..end as usize))
}

/// Locks a mutex, ignoring poisoning: a panic leaves nothing inconsistent here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_parts_are_bounded_over_all_sources() {
        let part = || Bytes::from(vec![0; 1 << 20]);
        let for_good = ReceivedParts::permanent(vec![(0, part())]);
        let all: Vec<ReceivedParts> =
            (0..100).map(|_| ReceivedParts::new(vec![(0, part())])).collect();
        let has = |held: &ReceivedParts| held.cut(&(5..10)).is_some();
        let kept = all.iter().filter(|held| has(held)).count();
        assert!((1..=MAX_HELD_LEN >> 20).contains(&kept), "{kept}");
        // Those that were opened last are still needed.
        assert!(all[100 - kept..].iter().all(has) && has(&for_good));
        // A reader that continues keeps its parts, and others are evicted.
        for at in 1..=64 {
            all[50].keep(at << 20, part());
        }
        assert!(
            all[50].cut(&(64 << 20..65 << 20)).is_some()
                && all[50].cut(&(1 << 20..2 << 20)).is_none()
        );
        assert!(BYTES.load(Ordering::Relaxed) <= MAX_HELD_LEN + (KEPT << 20));
        drop(all);
        // Other tests add nothing.
        assert_eq!(BYTES.load(Ordering::Relaxed), 0);
        for _ in 0..1000 {
            drop(ReceivedParts::new(vec![(0, Bytes::new())]));
        }
        assert!(lock(&SOURCES).all.len() <= 64 + 2 * 64);
    }
}
