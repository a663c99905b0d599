//! Long work: without the GIL, on a thread of its own, so that the caller's can tell how far it is and
//! hear Ctrl-C.

use crate::errors::Raise;
use holdall::{Cancel, Result, Work};
use pyo3::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long work runs between two looks at signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// Work on fewer bytes than this is done where it is asked for: it ends before anyone loses patience.
const QUICK: u64 = 64 << 20;

/// How far work is, in bytes.
#[derive(Default)]
pub(crate) struct Meter {
    done: AtomicU64,
    total: AtomicU64,
}

impl Meter {
    /// Nothing is done of so many bytes.
    pub(crate) fn new(total: u64) -> Meter {
        Meter { done: AtomicU64::new(0), total: AtomicU64::new(total) }
    }

    /// So many more are.
    pub(crate) fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn tell(&self, listener: &Bound<'_, PyAny>) -> PyResult<()> {
        let total = self.total.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed).min(total);
        listener.call1((done, total)).map(drop)
    }
}

/// Does work on about so many bytes; Ctrl-C cancels it.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    bytes: u64,
    work: impl FnOnce(Work) -> Result<T> + Send,
) -> PyResult<T> {
    run_with(py, bytes, None, None, work)
}

/// As [`run`], on so many threads. `listener` is called with the bytes done and all bytes; what it raises
/// cancels the work.
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
    let told = Arc::clone(&meter);
    let work = work.on_progress(move |done, total| {
        told.done.fetch_max(done, Ordering::Relaxed);
        told.total.fetch_max(total, Ordering::Relaxed);
    });
    let kept = listener.map(|l| l.clone().unbind());
    let tell = |py: Python<'_>| kept.as_ref().map_or(Ok(()), |l| meter.tell(l.bind(py)));
    let (outcome, interrupted) = py.detach(|| watched(&cancel, tell, || run(work)));
    if let Some(e) = interrupted {
        return Err(e);
    }
    let value = outcome.raise(py)?;
    if let Some(listener) = listener {
        // Bytes that were passed over, or stored ones that stood for decoded ones, are done too.
        meter.done.store(meter.total.load(Ordering::Relaxed), Ordering::Relaxed);
        meter.tell(listener)?;
    }
    Ok(value)
}

/// A part of work that others share: as [`run_with`], under a `cancel` and a `meter` that are kept between parts.
pub(crate) fn part<T: Send>(
    py: Python<'_>,
    cancel: &Cancel,
    heard: Option<(&Bound<'_, PyAny>, &Meter)>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    let kept = heard.map(|(listener, meter)| (listener.clone().unbind(), meter));
    let tell = |py: Python<'_>| kept.as_ref().map_or(Ok(()), |(l, meter)| meter.tell(l.bind(py)));
    let (outcome, interrupted) = py.detach(|| watched(cancel, tell, work));
    match interrupted {
        Some(e) => Err(e),
        None => outcome.raise(py),
    }
}

/// Does work that cannot be cancelled on a thread of its own. Ctrl-C ends the wait for it: the work continues unseen, and
/// what it comes to is dropped.
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
            // Nobody may be left to take it.
            let _ = give.send(work());
        }
    };
    if std::thread::Builder::new().spawn(go).is_err() {
        // The system starts no more threads: done here, deaf.
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

/// What [`run_apart`] is told of opening a file: one on the web, or in a package that may have to fetch it, may take
/// long; others are not worth a thread.
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
        // Dropped at the end, however that comes: it is what the other side waits for.
        let _finished = finished.lock().unwrap_or_else(PoisonError::into_inner).take();
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let value = work.map(|work| work());
        *outcome.lock().unwrap_or_else(PoisonError::into_inner) = value;
    };
    let mut interrupted = None;
    std::thread::scope(|scope| {
        if std::thread::Builder::new().spawn_scoped(scope, go).is_err() {
            // The system starts no more threads: done here, deaf.
            go();
            return;
        }
        while news.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if interrupted.is_some() {
                continue;
            }
            // There is nobody to tell where the interpreter is on its way out.
            let heard = Python::try_attach(|py| {
                py.check_signals()?;
                tell(py)
            });
            if let Some(Err(e)) = heard {
                cancel.cancel();
                interrupted = Some(e);
            }
        }
    });
    let outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    // There is none only after a panic, which the scope has passed on.
    let outcome = outcome.unwrap_or_else(|| Err(ended()));
    (outcome, interrupted)
}
