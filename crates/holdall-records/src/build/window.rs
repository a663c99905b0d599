//! Recently appended bytes of a heap, which equal bytes can share.

use std::collections::HashMap;

/// Number of bytes in each half of a window.
const HALF: usize = 8 << 20;
/// Length of the longest run of bytes that is remembered.
const LONGEST: usize = 64 << 10;
/// Approximate memory of an entry in addition to its bytes.
const ENTRY: usize = 64;

/// Two halves: when the newer one is full, the older one is discarded. About 16 MiB in total.
#[derive(Default)]
pub(super) struct Window {
    newer: HashMap<Box<[u8]>, u64>,
    older: HashMap<Box<[u8]>, u64>,
    taken: usize,
}

impl Window {
    /// Returns the offset of equal bytes, if it is a multiple of `align`.
    pub(super) fn find(&self, bytes: &[u8], align: u32) -> Option<u64> {
        if bytes.len() > LONGEST {
            return None;
        }
        let found = self.newer.get(bytes).or_else(|| self.older.get(bytes)).copied();
        found.filter(|offset| offset.is_multiple_of(u64::from(align.max(1))))
    }

    /// Remembers the offset of these bytes.
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

    /// Discards everything.
    pub(super) fn forget(&mut self) {
        *self = Window::default();
    }
}
