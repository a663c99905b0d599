//! Bytes that were put into a heap lately, to be shared by those that are equal.

use std::collections::HashMap;

/// Bytes in each half of a window.
const HALF: usize = 8 << 20;
/// Longer runs are not remembered.
const LONGEST: usize = 64 << 10;
/// What an entry costs beside its bytes, about.
const ENTRY: usize = 64;

/// Two halves: when the newer is full, the older is forgotten. About 16 MiB in all.
#[derive(Default)]
pub(super) struct Window {
    newer: HashMap<Box<[u8]>, u64>,
    older: HashMap<Box<[u8]>, u64>,
    taken: usize,
}

impl Window {
    /// Where those bytes are, at a multiple of `align`.
    pub(super) fn find(&self, bytes: &[u8], align: u32) -> Option<u64> {
        if bytes.len() > LONGEST {
            return None;
        }
        let found = self.newer.get(bytes).or_else(|| self.older.get(bytes)).copied();
        found.filter(|offset| offset.is_multiple_of(u64::from(align.max(1))))
    }

    /// Notes where those bytes are.
    pub(super) fn keep(&mut self, bytes: &[u8], offset: u64) {
        if bytes.len() > LONGEST {
            return;
        }
        let cost = bytes.len() + ENTRY;
        if self.taken + cost > HALF {
            self.older = std::mem::take(&mut self.newer);
            self.taken = 0;
        }
        self.taken += cost;
        self.newer.insert(bytes.into(), offset);
    }

    /// Forgets all.
    pub(super) fn forget(&mut self) {
        *self = Window::default();
    }
}
