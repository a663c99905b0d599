//! The engine's thread. Calls are answered within the time limit, or abandoned.

use super::guarded;
use crate::rules::{ONNX_RUN, TIMEOUT, io};
use crate::runner_settings::{Cancelled, RunnerSettings};
use holdall::{Error, Result};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How often to check whether the call was cancelled.
const LOOK: Duration = Duration::from_millis(100);

/// A thread that executes calls one after the other. It ends when this is dropped and the current call has ended.
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

    /// Executes one call.
    pub(super) fn run(&self, job: J) -> Result<A> {
        self.jobs.send(job).map_err(|_| ended())?;
        received(&self.answers, self.timeout, self.cancelled.as_ref(), "run the graph")
    }
}

/// Runs `work` on another thread, and abandons it if it takes too long.
pub(super) fn bounded<T: Send + 'static>(
    settings: &RunnerSettings,
    what: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (done, answer) = channel();
    spawn(move || {
        // If it was abandoned, there is no receiver any more.
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
    ONNX_RUN.broken("the engine's thread has ended")
}
