//! The engine's thread: what it is asked is answered in time, or given up.

use super::guarded;
use crate::model::io;
use crate::rules::{ONNX_RUN, TIMEOUT};
use holdall::{Error, Result};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A thread that does one call after the other. It ends when this is dropped, and its call is done.
pub(super) struct Worker<J, A> {
    jobs: Sender<J>,
    answers: Receiver<Result<A>>,
    timeout: Duration,
}

impl<J: Send + 'static, A: Send + 'static> Worker<J, A> {
    pub(super) fn new(
        timeout: Duration,
        mut work: impl FnMut(J) -> Result<A> + Send + 'static,
    ) -> Result<Worker<J, A>> {
        let (jobs, todo) = channel::<J>();
        let (done, answers) = channel();
        spawn(move || {
            for job in todo {
                if done.send(guarded(&ONNX_RUN, || work(job))).is_err() {
                    return;
                }
            }
        })?;
        Ok(Worker { jobs, answers, timeout })
    }

    /// Does one call.
    pub(super) fn run(&self, job: J) -> Result<A> {
        self.jobs.send(job).map_err(|_| ended())?;
        received(&self.answers, self.timeout, "run the graph")
    }
}

/// Does `work` on a thread of its own, and gives it up when it takes too long.
pub(super) fn bounded<T: Send + 'static>(
    timeout: Duration,
    what: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (done, answer) = channel();
    spawn(move || {
        // Nobody waits any more for what comes too late.
        let _ = done.send(work());
    })?;
    received(&answer, timeout, what)
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name("holdall-onnx".to_owned()).spawn(work);
    spawned.map(drop).map_err(|e| io(e, "starting a thread for the engine"))
}

fn received<T>(answer: &Receiver<Result<T>>, timeout: Duration, what: &str) -> Result<T> {
    match answer.recv_timeout(timeout) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => {
            let seconds = timeout.as_secs_f64();
            Err(TIMEOUT.broken(format!("the engine did not {what} within {seconds} s")))
        }
        Err(RecvTimeoutError::Disconnected) => Err(ended()),
    }
}

fn ended() -> Error {
    ONNX_RUN.broken("the engine's thread ended")
}
