//! The engine's thread: what it is asked is answered in time, or given up.

use super::guarded;
use crate::rules::{ONNX_RUN, TIMEOUT, io};
use crate::runner_settings::{Cancelled, RunnerSettings};
use holdall::{Error, Result};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How often it is asked whether an answer is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// A thread that does one call after the other. It ends when this is dropped, and its call is done.
pub(super) struct Worker<J, A> {
    jobs: Sender<J>,
    answers: Receiver<Result<A>>,
    timeout: Duration,
    cancelled: Option<Cancelled>,
}

impl<J: Send + 'static, A: Send + 'static> Worker<J, A> {
    pub(super) fn new(
        settings: &RunnerSettings,
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
        let (timeout, cancelled) = (settings.timeout, settings.cancelled.clone());
        Ok(Worker { jobs, answers, timeout, cancelled })
    }

    /// Does one call.
    pub(super) fn run(&self, job: J) -> Result<A> {
        self.jobs.send(job).map_err(|_| ended())?;
        received(&self.answers, self.timeout, self.cancelled.as_ref(), "run the graph")
    }
}

/// Does `work` on a thread of its own, and gives it up when it takes too long.
pub(super) fn bounded<T: Send + 'static>(
    settings: &RunnerSettings,
    what: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (done, answer) = channel();
    spawn(move || {
        // Nobody waits any more for what comes too late.
        let _ = done.send(work());
    })?;
    received(&answer, settings.timeout, settings.cancelled.as_ref(), what)
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name("holdall-onnx".to_owned()).spawn(work);
    spawned.map(drop).map_err(|e| io(e, "starting a thread for the engine"))
}

fn received<T>(
    answer: &Receiver<Result<T>>,
    timeout: Duration,
    cancelled: Option<&Cancelled>,
    what: &str,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        match answer.recv_timeout(left.min(LOOK)) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Disconnected) => return Err(ended()),
            Err(RecvTimeoutError::Timeout) => RunnerSettings::check_wanted(cancelled)?,
        }
        if start.elapsed() >= timeout {
            let seconds = timeout.as_secs_f64();
            return Err(TIMEOUT.broken(format!("the engine did not {what} within {seconds} s")));
        }
    }
}

fn ended() -> Error {
    ONNX_RUN.broken("the engine's thread ended")
}
