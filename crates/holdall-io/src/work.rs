//! Settings for running an operation: number of threads, progress reports, cancellation.

use crate::error::CANCELLED;
use crate::workers;
use holdall_core::Result;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Settings for running an operation: the number of threads, the receiver of progress reports, and cancellation. All
/// operations that may take long accept them in their options, with `with_work`.
///
/// Clones share their progress: an operation with a clone adds to the same total, so that one progress bar can follow
/// several operations.
///
/// ```
/// use holdall_io::{Cancel, Work};
///
/// let cancel = Cancel::new();
/// let work = Work::new()
///     .with_threads(2)
///     .with_cancel(&cancel)
///     .on_progress(|done, total| eprintln!("{done} of {total} bytes"));
/// let options = holdall_io::LoadOptions::new().with_work(work);
/// # let _ = options;
/// ```
#[derive(Clone, Default)]
pub struct Work {
    threads: Option<usize>,
    /// The operation ends if any of these was cancelled.
    cancel: Vec<Cancel>,
    progress: Option<Arc<Progress>>,
}

/// Cancels operations, from any thread. Clones cancel the same operations.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    report: Box<dyn Fn(u64, u64) + Send + Sync>,
}

impl Work {
    /// Returns the default: one thread for each core, no progress reports, not cancellable.
    pub fn new() -> Work {
        Work::default()
    }

    /// Sets the number of threads, from 1 to 256.
    pub fn with_threads(mut self, threads: usize) -> Work {
        self.threads = Some(threads);
        self
    }

    /// Sets a function that is called with the number of processed bytes and the total number, as far as it is known:
    /// the total may grow. It may be called on any thread, so a smaller number may follow a greater one. It must return
    /// quickly.
    pub fn on_progress(mut self, report: impl Fn(u64, u64) + Send + Sync + 'static) -> Work {
        let (done, total) = (AtomicU64::new(0), AtomicU64::new(0));
        self.progress = Some(Arc::new(Progress { done, total, report: Box::new(report) }));
        self
    }

    /// Adds a flag that ends the operation. Soon after any of the flags is set, the operation fails with
    /// `work/cancelled`, of kind Io. What it has written is then treated as after any other error.
    pub fn with_cancel(mut self, cancel: &Cancel) -> Work {
        self.cancel.push(cancel.clone());
        self
    }

    /// Adds the flags of `other`, so that the operation also ends when `other` is cancelled.
    pub fn under(mut self, other: &Work) -> Work {
        self.cancel.extend_from_slice(&other.cancel);
        self
    }

    /// Returns the number of threads to use, at least 1.
    pub fn threads(&self) -> usize {
        workers::threads(self.threads)
    }

    /// Returns the number of threads to use, by default `default`.
    pub fn threads_or(&self, default: usize) -> usize {
        self.threads.unwrap_or(default).clamp(1, 256)
    }

    /// Reports that `bytes` more bytes will be processed.
    pub fn begin(&self, bytes: u64) {
        let Some(p) = &self.progress else { return };
        let total = p.total.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        (p.report)(p.done.load(Ordering::Relaxed), total);
    }

    /// Reports that `bytes` more bytes were processed.
    ///
    /// # Errors
    /// Returns the same errors as [`Work::check`].
    pub fn advance(&self, bytes: u64) -> Result<()> {
        if let Some(p) = &self.progress {
            let done = p.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            (p.report)(done, p.total.load(Ordering::Relaxed));
        }
        self.check()
    }

    /// Checks that the work was not cancelled.
    ///
    /// # Errors
    /// Returns `work/cancelled`, of kind an `Io` error, if it was.
    pub fn check(&self) -> Result<()> {
        match self.cancel.iter().any(Cancel::is_cancelled) {
            true => Err(cancelled()),
            false => Ok(()),
        }
    }

    /// Runs all jobs on the threads of this work. Each thread has its own state. Threads take jobs in order. The first
    /// error stops the jobs that have not begun, and is returned.
    ///
    /// # Errors
    /// Returns the errors of `run`.
    pub fn for_each<J: Send, S>(
        &self,
        jobs: Vec<J>,
        state: impl Fn() -> S + Sync,
        run: impl Fn(&mut S, J) -> Result<()> + Sync,
    ) -> Result<()> {
        workers::for_each(self.threads(), jobs, state, run)
    }
}

impl Cancel {
    /// Creates a flag that is not set.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Cancels all work with this flag.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cold]
pub(crate) fn cancelled() -> holdall_core::Error {
    let e = std::io::Error::from(std::io::ErrorKind::Interrupted);
    CANCELLED.broken("the operation was cancelled").with_cause(e)
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("threads", &self.threads)
            .field("cancel", &self.cancel)
            .field("progress", &self.progress.is_some())
            .finish()
    }
}

/// Adds the method `with_work` to options with a field `work`.
#[macro_export]
macro_rules! with_work {
    ($($options:ty),+ $(,)?) => {$(
        impl $options {
            /// Sets the number of threads, progress reports in bytes, and cancellation.
            pub fn with_work(mut self, work: $crate::Work) -> $options {
                self.work = work;
                self
            }
        }
    )+};
}
