//! Long work on a separate thread without the GIL, so that the calling thread can report progress
//! and handle Ctrl-C.

use crate::errors::Raise;
use holdall::{Cancel, Result, Work};
use pyo3::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time between two checks for signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// Work on fewer bytes than this runs on the calling thread, since it is fast enough to be
/// uninterruptible.
const QUICK: u64 = 64 << 20;

/// The progress of work, in bytes.
#[derive(Default)]
pub(crate) struct Meter {
    done: AtomicU64,
    total: AtomicU64,
}

impl Meter {
    /// Creates a meter with `total` bytes to do.
    pub(crate) fn new(total: u64) -> Meter {
        Meter { done: AtomicU64::new(0), total: AtomicU64::new(total) }
    }

    /// Adds bytes that are done.
    pub(crate) fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn tell(&self, listener: &Bound<'_, PyAny>) -> PyResult<()> {
        let total = self.total.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed).min(total);
        listener.call1((done, total)).map(drop)
    }
}

/// Runs work on about this many bytes; Ctrl-C cancels it.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    bytes: u64,
    work: impl FnOnce(Work) -> Result<T> + Send,
) -> PyResult<T> {
    run_with(py, bytes, None, None, work)
}

/// Calls a function like [`run`], with a number of threads. `listener` is called with the bytes done and the total;
/// an exception cancels the work.
pub(crate) fn run_with<T: Send>(
    py: Python<'_>,
    bytes: u64,
    threads: Option<usize>,
    listener: Option<&Bound<'_, PyAny>>,
    run: impl FnOnce(Work) -> Result<T> + Send,
) -> PyResult<T> {
    let (meter, cancel) = (Arc::new(Meter::default()), Cancel::new());
    let mut work = Work::new().with_cancel(&cancel);
    if let Some(threads) = threads {
        work = work.with_threads(threads);
    }
    if listener.is_none() && bytes < QUICK {
        return py.detach(|| run(work)).raise(py);
    }
    let counts = Arc::clone(&meter);
    let work = work.on_progress(move |done, total| {
        counts.done.fetch_max(done, Ordering::Relaxed);
        counts.total.fetch_max(total, Ordering::Relaxed);
    });
    let kept = listener.map(|l| l.clone().unbind());
    let tell = |py: Python<'_>| kept.as_ref().map_or(Ok(()), |l| meter.tell(l.bind(py)));
    let (outcome, interrupted) = py.detach(|| watched(&cancel, tell, || run(work)));
    if let Some(e) = interrupted {
        return Err(e);
    }
    let value = outcome.raise(py)?;
    if let Some(listener) = listener {
        // Bytes that were skipped, or counted differently, are done too.
        meter.done.store(meter.total.load(Ordering::Relaxed), Ordering::Relaxed);
        meter.tell(listener)?;
    }
    Ok(value)
}

/// Runs a part of larger work: as [`run_with`], with a `cancel` and a `meter` that are shared by
/// the parts.
pub(crate) fn part<T: Send>(
    py: Python<'_>,
    cancel: &Cancel,
    progress: Option<(&Bound<'_, PyAny>, &Meter)>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    let kept = progress.map(|(listener, meter)| (listener.clone().unbind(), meter));
    let tell = |py: Python<'_>| kept.as_ref().map_or(Ok(()), |(l, meter)| meter.tell(l.bind(py)));
    let (outcome, interrupted) = py.detach(|| watched(cancel, tell, work));
    match interrupted {
        Some(e) => Err(e),
        None => outcome.raise(py),
    }
}

/// Runs work that cannot be cancelled on a separate thread. Ctrl-C ends the wait for it: the work
/// continues in the background, and its result is dropped.
pub(crate) fn run_apart<T: Send + 'static>(
    py: Python<'_>,
    bytes: u64,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    if bytes < QUICK {
        return py.detach(work).raise(py);
    }
    let (give, outcome) = channel();
    let work = Arc::new(Mutex::new(Some(work)));
    let taken = Arc::clone(&work);
    let go = move || {
        let work = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(work) = work {
            // The receiver may have been dropped.
            let _ = give.send(work());
        }
    };
    if std::thread::Builder::new().spawn(go).is_err() {
        // The system cannot start more threads: run it here, without handling Ctrl-C.
        let here = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        return match here {
            Some(work) => py.detach(work).raise(py),
            None => Err(ended()).raise(py),
        };
    }
    let outcome = Mutex::new(outcome);
    loop {
        let news =
            py.detach(|| outcome.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK));
        match news {
            Ok(done) => return done.raise(py),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(ended()).raise(py),
        }
    }
}

/// Returns the estimated work of opening a file, for [`run_apart`]: remote files, and files in
/// packages that may have to be fetched, may take long; others need no thread.
pub(crate) fn far(path: &Path) -> u64 {
    match holdall::Location::new(path) {
        holdall::Location::Path(_) => 0,
        _ => u64::MAX,
    }
}

#[cold]
fn ended() -> holdall::Error {
    holdall::error::CANCELLED.broken("the operation ended without an outcome")
}

fn watched<T: Send>(
    cancel: &Cancel,
    tell: impl Fn(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> Result<T> + Send,
) -> (Result<T>, Option<PyErr>) {
    let work = Mutex::new(Some(work));
    let outcome = Mutex::new(None);
    let (finished, news) = channel::<()>();
    let finished = Mutex::new(Some(finished));
    let go = || {
        // Dropped at the end in any case: the other side waits for it.
        let _finished = finished.lock().unwrap_or_else(PoisonError::into_inner).take();
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let value = work.map(|work| work());
        *outcome.lock().unwrap_or_else(PoisonError::into_inner) = value;
    };
    let mut interrupted = None;
    std::thread::scope(|scope| {
        if std::thread::Builder::new().spawn_scoped(scope, go).is_err() {
            // The system cannot start more threads: run it here, without handling Ctrl-C.
            go();
            return;
        }
        while news.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if interrupted.is_some() {
                continue;
            }
            // Signals are not checked when the interpreter shuts down.
            let called = Python::try_attach(|py| {
                py.check_signals()?;
                tell(py)
            });
            if let Some(Err(e)) = called {
                cancel.cancel();
                interrupted = Some(e);
            }
        }
    });
    let outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    // It is missing only after a panic, which the scope has propagated.
    let outcome = outcome.unwrap_or_else(|| Err(ended()));
    (outcome, interrupted)
}
