//! The caller's choices that a runner is told: its environment, how long it may take, who hears of its output.

use holdall::Result;
use holdall::error::CANCELLED;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// A line that a model, or a runner in a process of its own, printed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// Whether it was printed on standard error.
    pub is_error: bool,
    /// The line, without its end; what is not UTF-8 is replaced.
    pub text: String,
}

/// Takes the lines that models print, from any thread.
pub type Log = Arc<dyn Fn(LogLine) + Send + Sync>;

/// Says whether loading or a call is no longer wanted, from any thread, about ten times a second.
pub type Cancelled = Arc<dyn Fn() -> bool + Send + Sync>;

/// The caller's choices that a runner is told.
#[derive(Clone)]
#[non_exhaustive]
pub struct RunnerSettings {
    /// The Python interpreter; else that of the variable `HOLDALL_PYTHON`, else `python3` on the path.
    pub python: Option<OsString>,
    /// Variables for a runner's process besides those that every one gets: of a value, or of the one that this
    /// process has for it. No others are passed.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// How long a runner may take to load, and for a call; for each answer of one that is streamed.
    pub timeout: Duration,
    /// Where lines that the model prints go; nowhere when there is none.
    pub log: Option<Log>,
    /// Asked while a runner loads or runs. Once it says yes, the wait ends with
    /// [`CANCELLED`], and the model can no longer be used.
    pub cancelled: Option<Cancelled>,
}

impl Default for RunnerSettings {
    fn default() -> RunnerSettings {
        RunnerSettings {
            python: None,
            environment: Vec::new(),
            timeout: Duration::from_secs(600),
            log: None,
            cancelled: None,
        }
    }
}

impl std::fmt::Debug for RunnerSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunnerSettings")
            .field("python", &self.python)
            // Values may be secrets.
            .field("environment", &self.environment.iter().map(|(n, _)| n).collect::<Vec<_>>())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl RunnerSettings {
    /// Fails once the awaited result is no longer wanted.
    pub(crate) fn check_wanted(cancelled: Option<&Cancelled>) -> Result<()> {
        match cancelled.is_some_and(|cancelled| cancelled()) {
            true => Err(CANCELLED.broken("the model was no longer wanted")),
            false => Ok(()),
        }
    }
}

/// What the time limit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// Each answer of a call.
    Answer,
    /// All of a call.
    Whole,
}
