//! What came of a file that is far away and was not asked for by itself: kept for a while, with bounds for each source and over all.

use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Parts of a file that came with others.
#[derive(Default)]
pub(super) struct Held(Arc<Mutex<Parts>>);

#[derive(Default)]
struct Parts {
    /// What came when the file was opened, at its end or its ends.
    first: Vec<(u64, Bytes)>,
    /// What small reads brought, the last at the end.
    later: VecDeque<(u64, Bytes)>,
    /// Bytes of all of them.
    bytes: usize,
}

/// Parts that a source keeps of what small reads brought.
const KEPT: usize = 32;
/// Bytes that all sources keep together: more than comes of the files of a model that are opened at once, so that nothing is forgotten
/// before it is used.
const MOST: usize = 32 << 20;

/// Bytes that all sources keep now.
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// The sources that are open.
static SOURCES: Mutex<Sources> = Mutex::new(Sources { all: VecDeque::new(), room: 64 });

struct Sources {
    /// They, and some that have been dropped; those that forget first at the front.
    all: VecDeque<Weak<Mutex<Parts>>>,
    /// How many there may be before the dropped ones are removed.
    room: usize,
}

impl Held {
    /// What came when a file was opened.
    pub(super) fn new(first: Vec<(u64, Bytes)>) -> Held {
        let held = Held::default();
        let mut parts = lock(&held.0);
        parts.add(first.iter().map(|(_, bytes)| bytes.len()).sum());
        parts.first = first;
        drop(parts);
        lock(&SOURCES).add(&held.0);
        held.make_room();
        held
    }

    /// The same, for a source that cannot have it again: it is never forgotten.
    pub(super) fn for_good(first: Vec<(u64, Bytes)>) -> Held {
        let held = Held::default();
        lock(&held.0).first = first;
        held
    }

    /// The bytes of a range, where they are all in one part.
    pub(super) fn cut(&self, range: &Range<u64>) -> Option<Bytes> {
        let parts = lock(&self.0);
        parts.first.iter().chain(&parts.later).find_map(|(at, bytes)| cut(*at, bytes, range))
    }

    /// What came when the file was opened.
    pub(super) fn first(&self) -> Vec<(u64, Bytes)> {
        lock(&self.0).first.clone()
    }

    /// Keeps what a small read brought.
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

    /// Has other sources forget what they keep, as long as all keep too much: those that were opened
    /// first before others.
    fn make_room(&self) {
        if BYTES.load(Ordering::Relaxed) <= MOST {
            return;
        }
        let sources = &mut lock(&SOURCES).all;
        for _ in 0..sources.len() {
            if BYTES.load(Ordering::Relaxed) <= MOST {
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

/// Of each range what is to be read: all of it, or nothing at its place where it is at hand. Empty ranges are part of no read.
pub(super) fn missing(ranges: &[Range<u64>], at_hand: &[Option<Bytes>]) -> Vec<Range<u64>> {
    let missing = |(range, at): (&Range<u64>, &Option<Bytes>)| match at {
        Some(_) => range.start..range.start,
        None => range.clone(),
    };
    ranges.iter().zip(at_hand).map(missing).collect()
}

/// The bytes of `range` out of those found at `at`, where they are all there.
pub(super) fn cut(at: u64, bytes: &Bytes, range: &Range<u64>) -> Option<Bytes> {
    let start = range.start.checked_sub(at)?;
    let end = range.end.checked_sub(at)?;
    (end <= bytes.len() as u64).then(|| bytes.slice(start as usize..end as usize))
}

/// A thread that panicked poisons nothing worth protecting here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_keep_no_more_than_they_may() {
        let part = || Bytes::from(vec![0; 1 << 20]);
        let for_good = Held::for_good(vec![(0, part())]);
        let all: Vec<Held> = (0..100).map(|_| Held::new(vec![(0, part())])).collect();
        let has = |held: &Held| held.cut(&(5..10)).is_some();
        let kept = all.iter().filter(|held| has(held)).count();
        assert!((1..=MOST >> 20).contains(&kept), "{kept}");
        // Those that were opened last are the ones that are still needed.
        assert!(all[100 - kept..].iter().all(has) && has(&for_good));
        // A reader that reads on keeps what it has, and others forget.
        for at in 1..=64 {
            all[50].keep(at << 20, part());
        }
        assert!(
            all[50].cut(&(64 << 20..65 << 20)).is_some()
                && all[50].cut(&(1 << 20..2 << 20)).is_none()
        );
        assert!(BYTES.load(Ordering::Relaxed) <= MOST + (KEPT << 20));
        drop(all);
        // Other tests have none.
        assert_eq!(BYTES.load(Ordering::Relaxed), 0);
        for _ in 0..1000 {
            drop(Held::new(vec![(0, Bytes::new())]));
        }
        assert!(lock(&SOURCES).all.len() <= 64 + 2 * 64);
    }
}
