//! How an operation is done: on how many threads, who is told how far it is, whether it is still wanted.

use crate::error::CANCELLED;
use crate::workers;
use holdall_core::Result;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How an operation is done: on how many threads, who is told how far it is, and whether it is still
/// wanted. All operations that may take long accept one in their options, as `with_work`.
///
/// Clones count together: an operation that is given a clone adds to the same total, so one progress bar
/// can follow several operations.
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
    /// Any of them ends it.
    cancel: Vec<Cancel>,
    progress: Option<Arc<Progress>>,
}

/// Ends work that is no longer wanted, from any thread. Clones cancel the same work.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    tell: Box<dyn Fn(u64, u64) + Send + Sync>,
}

impl Work {
    /// One thread for each core; nobody is told, and nothing cancels it.
    pub fn new() -> Work {
        Work::default()
    }

    /// Uses this many threads, from 1 to 256.
    pub fn with_threads(mut self, threads: usize) -> Work {
        self.threads = Some(threads);
        self
    }

    /// Calls `tell` with the bytes that are done and all bytes of the operation, as far as they are known:
    /// the total may grow. Any thread may call it, so a smaller number may come after a greater one. It
    /// must return quickly.
    pub fn on_progress(mut self, tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Work {
        let (done, total) = (AtomicU64::new(0), AtomicU64::new(0));
        self.progress = Some(Arc::new(Progress { done, total, tell: Box::new(tell) }));
        self
    }

    /// Ends the operation soon after `cancel`, or another that was given before, was used, with `work/cancelled`, an error of kind Io.
    /// It leaves behind what any other error leaves.
    pub fn with_cancel(mut self, cancel: &Cancel) -> Work {
        self.cancel.push(cancel.clone());
        self
    }

    /// The same, ended by what ends `other` too.
    pub fn under(mut self, other: &Work) -> Work {
        self.cancel.extend_from_slice(&other.cancel);
        self
    }

    /// The number of threads to use: at least 1.
    pub fn threads(&self) -> usize {
        workers::threads(self.threads)
    }

    /// As [`Work::threads`], where the operation has a number of its own for callers who gave none.
    pub fn threads_or(&self, usual: usize) -> usize {
        self.threads.unwrap_or(usual).clamp(1, 256)
    }

    /// This many more bytes will be handled.
    pub fn begin(&self, bytes: u64) {
        let Some(p) = &self.progress else { return };
        let total = p.total.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        (p.tell)(p.done.load(Ordering::Relaxed), total);
    }

    /// This many more bytes were handled.
    ///
    /// # Errors
    /// As [`Work::check`].
    pub fn advance(&self, bytes: u64) -> Result<()> {
        if let Some(p) = &self.progress {
            let done = p.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            (p.tell)(done, p.total.load(Ordering::Relaxed));
        }
        self.check()
    }

    /// Whether the work is still wanted.
    ///
    /// # Errors
    /// `work/cancelled`, of kind Io, once it is not.
    pub fn check(&self) -> Result<()> {
        match self.cancel.iter().any(Cancel::is_cancelled) {
            true => Err(cancelled()),
            false => Ok(()),
        }
    }

    /// Does all jobs on the threads of this work, each thread with a state of its own. Threads take jobs
    /// in order. The first error stops the jobs that have not begun, and is returned.
    ///
    /// # Errors
    /// What `run` returns.
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
    /// Nothing is cancelled yet.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Cancels the work that was given this.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`Cancel::cancel`] was called.
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

/// Gives options that hold a `work` the method that sets it.
#[macro_export]
macro_rules! with_work {
    ($($options:ty),+ $(,)?) => {$(
        impl $options {
            /// How the work is done: threads, progress in bytes, cancellation.
            pub fn with_work(mut self, work: $crate::Work) -> $options {
                self.work = work;
                self
            }
        }
    )+};
}
