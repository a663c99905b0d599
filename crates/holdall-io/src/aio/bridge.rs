//! Adapts asynchronous sources to blocking ones, for operations that run on threads.

use super::source::{ByteSource, read};
use crate::source::ReadHints;
use crate::work::cancelled;
use bytes::Bytes;
use holdall_core::Result;
use std::any::Any;
use std::future::poll_fn;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::Poll;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Reads of asynchronous sources that other threads wait for, until they are ended.
pub(super) struct Reads {
    runtime: Handle,
    /// The reads in progress. `None` once they are ended.
    tasks: Mutex<Option<JoinSet<()>>>,
}

/// A blocking source that reads an asynchronous one. It must not be read on a thread of the runtime.
struct Bridge {
    source: Arc<dyn ByteSource>,
    reads: Arc<Reads>,
}

impl Reads {
    /// Creates a set of reads on the current runtime.
    pub(super) fn on_current_runtime() -> Arc<Reads> {
        Arc::new(Reads { runtime: Handle::current(), tasks: Mutex::new(Some(JoinSet::new())) })
    }

    /// Returns a blocking source that reads `source`.
    pub(super) fn bridge(
        self: &Arc<Reads>,
        source: Arc<dyn ByteSource>,
    ) -> Arc<dyn crate::ByteSource> {
        Arc::new(Bridge { source, reads: Arc::clone(self) })
    }

    /// Ends reads in progress, and makes later ones fail.
    pub(super) fn end(&self) {
        let tasks = self.tasks().take();
        // Threads that wait for a read get an error, because its channel is closed.
        drop(tasks);
    }

    fn tasks(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl crate::ByteSource for Bridge {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let (source, ranges) = (Arc::clone(&self.source), ranges.to_vec());
        match &mut *self.reads.tasks() {
            None => return Err(cancelled()),
            Some(tasks) => {
                while tasks.try_join_next().is_some() {}
                let run = async move {
                    let found = catch_panic(read(&*source, &ranges)).await;
                    // Fails if the reading thread no longer waits.
                    let _ = sender.send(found);
                };
                tasks.spawn_on(run, &self.reads.runtime);
            }
        }
        match receiver.recv() {
            Ok(Ok(found)) => found,
            // A panic of the source continues on the thread that waits for it.
            Ok(Err(panic)) => resume_unwind(panic),
            // The read was ended.
            Err(_) => Err(cancelled()),
        }
    }

    fn read_hints(&self) -> ReadHints {
        self.source.read_hints()
    }
}

/// Awaits a future, and returns its panic as an error.
async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    let poll = poll_fn(|context| {
        // It is not polled again after a panic.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(out)) => Poll::Ready(Ok(out)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    });
    poll.await
}
