//! Blocking on futures: a runtime for sockets and timers, and threads that park.

use crate::rules::FAILED;
use holdall_core::{Error, Result};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use tokio::runtime::{Builder, Handle, Runtime};

/// The runtime of this process, with the id of the process that made it. A forked child has none of the runtime's
/// threads, so it makes another.
static SHARED: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// Returns the runtime that all connections of the process share. It drives sockets and timers; callers poll their own
/// futures.
pub(crate) fn shared() -> Result<Handle> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((owner, runtime)) = *shared
        && owner == process
    {
        return Ok(runtime.handle().clone());
    }
    // Never dropped: connections outlive the file that opened the first.
    let runtime: &'static Runtime = Box::leak(Box::new(runtime(2)?));
    *shared = Some((process, runtime));
    Ok(runtime.handle().clone())
}

/// Creates a runtime with this number of threads.
pub(crate) fn runtime(threads: usize) -> Result<Runtime> {
    let built = Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("holdall-net")
        .enable_io()
        .enable_time()
        .build();
    built.map_err(|e| FAILED.broken("cannot start threads").because(e))
}

/// Blocks the current thread until `future` is ready, and returns its output. The thread may belong to another runtime;
/// timers and sockets use that of `handle`.
pub(crate) fn wait<F: Future>(handle: &Handle, future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let _inside = handle.enter();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(out) = future.as_mut().poll(&mut context) {
            return out;
        }
        std::thread::park();
    }
}

/// An error, and whether a retry may help.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    pub(crate) error: Error,
    pub(crate) is_passing: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed { error, is_passing: false }
    }
}

impl Failed {
    pub(crate) fn passing(error: Error) -> Failed {
        Failed { error, is_passing: true }
    }
}
