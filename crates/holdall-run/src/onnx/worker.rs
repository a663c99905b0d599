//! The engine's thread: what it is asked is answered in time, or given up.

use super::guarded;
use crate::model::io;
use crate::rules::{ONNX_OPERATOR, ONNX_RUN, TIMEOUT};
use holdall::{Error, Result};
use rten::{Model, NodeId, RunErrorKind, RunOptions, Value};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Inputs of one call.
type Job = Vec<(NodeId, Value)>;

/// A thread that runs a graph, one call after the other. It ends when this is dropped, and its call is done.
pub(super) struct Worker {
    jobs: Sender<Job>,
    answers: Receiver<Result<Vec<Value>>>,
    timeout: Duration,
}

impl Worker {
    pub(super) fn new(
        model: Model,
        outputs: Vec<NodeId>,
        options: RunOptions,
        timeout: Duration,
    ) -> Result<Worker> {
        let (jobs, todo) = channel::<Job>();
        let (done, answers) = channel();
        spawn(move || {
            for job in todo {
                let given = job.into_iter().map(|(id, value)| (id, value.into())).collect();
                let ran = guarded(&ONNX_RUN, || {
                    model.run(given, &outputs, Some(options.clone())).map_err(told)
                });
                if done.send(ran).is_err() {
                    return;
                }
            }
        })?;
        Ok(Worker { jobs, answers, timeout })
    }

    /// Runs the graph once.
    pub(super) fn run(&self, inputs: Job) -> Result<Vec<Value>> {
        self.jobs.send(inputs).map_err(|_| ended())?;
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

fn told(e: rten::RunError) -> Error {
    let text = e.to_string();
    let rule = match e.kind() {
        RunErrorKind::OperatorError if text.contains("nsupported") => &ONNX_OPERATOR,
        _ => &ONNX_RUN,
    };
    rule.broken(text.escape_debug().to_string())
}
