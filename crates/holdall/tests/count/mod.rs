//! A listener of progress that keeps what it is told.

use holdall::Progress;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct Count {
    pub(crate) total: AtomicU64,
    pub(crate) done: AtomicU64,
}

impl Progress for Count {
    fn begin(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}
