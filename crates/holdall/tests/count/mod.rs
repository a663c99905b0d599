//! Records the progress of work.

use holdall::Work;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct Count {
    pub(crate) total: AtomicU64,
    pub(crate) done: AtomicU64,
}

impl Count {
    /// Returns work whose progress is recorded.
    pub(crate) fn work(self: &Arc<Count>) -> Work {
        let kept = Arc::clone(self);
        Work::new().on_progress(move |done, total| {
            kept.done.fetch_max(done, Ordering::SeqCst);
            kept.total.fetch_max(total, Ordering::SeqCst);
        })
    }
}
