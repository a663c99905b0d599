//! Long work: without the GIL, on a thread of its own, so that the caller's can tell how far it is and
//! hear Ctrl-C.

use crate::errors::Raise;
use holdall::{Progress, Result};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long work goes on between two looks at signals.
const LOOK: Duration = Duration::from_millis(50);
/// Work on fewer bytes than this is done where it is asked for: it ends before anyone loses patience.
const QUICK: u64 = 64 << 20;

/// How far work is, in bytes, and whether it is still wanted.
#[derive(Default)]
pub(crate) struct Meter {
    total: AtomicU64,
    done: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress for Meter {
    fn begin(&self, total_bytes: u64) {
        self.total.fetch_add(total_bytes, Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl Meter {
    fn tell(&self, listener: &Bound<'_, PyAny>) -> PyResult<()> {
        let total = self.total.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed).min(total);
        listener.call1((done, total)).map(drop)
    }
}

/// A meter for work that learns on the way how much there is, and says all of it each time.
pub(crate) struct Latest(pub(crate) Arc<Meter>);

impl Progress for Latest {
    fn begin(&self, total_bytes: u64) {
        self.0.total.store(total_bytes, Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.0.advance(bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// Does work on about so many bytes. `listener` is called with the bytes done and all bytes; what it
/// raises, or Ctrl-C, cancels the work.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    bytes: u64,
    listener: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(Arc<Meter>) -> Result<T> + Send,
) -> PyResult<T> {
    let meter = Arc::new(Meter::default());
    if listener.is_none() && bytes < QUICK {
        return py.detach(|| work(meter)).raise(py);
    }
    let kept = listener.map(|l| l.clone().unbind());
    let (outcome, interrupted) = py.detach(|| watched(&meter, kept.as_ref(), work));
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

fn watched<T: Send>(
    meter: &Arc<Meter>,
    listener: Option<&Py<PyAny>>,
    work: impl FnOnce(Arc<Meter>) -> Result<T> + Send,
) -> (Result<T>, Option<PyErr>) {
    let work = Mutex::new(Some(work));
    let outcome = Mutex::new(None);
    let (finished, news) = channel::<()>();
    let finished = Mutex::new(Some(finished));
    let go = || {
        // Dropped at the end, however that comes: it is what the other side waits for.
        let _finished = finished.lock().unwrap_or_else(PoisonError::into_inner).take();
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let value = work.map(|work| work(Arc::clone(meter)));
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
                listener.map_or(Ok(()), |l| meter.tell(l.bind(py)))
            });
            if let Some(Err(e)) = heard {
                meter.cancelled.store(true, Ordering::Relaxed);
                interrupted = Some(e);
            }
        }
    });
    let outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    // There is none only after a panic, which the scope has passed on.
    let outcome = outcome.unwrap_or_else(|| {
        Err(holdall::error::CANCELLED.broken("the operation ended without an outcome"))
    });
    (outcome, interrupted)
}
