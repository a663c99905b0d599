//! Settings for runners: environment, time limit, log.

use holdall::Result;
use holdall::error::CANCELLED;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// A line that a model, or a runner in a separate process, printed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// Whether it was printed on standard error.
    pub is_error: bool,
    /// The text, without the line break; invalid UTF-8 is replaced.
    pub text: String,
}

/// A function that receives the lines that models print, called from any thread.
pub type Log = Arc<dyn Fn(LogLine) + Send + Sync>;

/// A function that returns `true` once loading or running is cancelled. Called about ten times a second, from any
/// thread.
pub type Cancelled = Arc<dyn Fn() -> bool + Send + Sync>;

/// Settings for runners.
#[derive(Clone)]
#[non_exhaustive]
pub struct RunnerSettings {
    /// The Python interpreter. The default is the one in the variable `HOLDALL_PYTHON`, or else `python3` in `PATH`.
    pub python: Option<OsString>,
    /// Further environment variables for a runner's process, each with a value, or with `None` for the value in this
    /// process. Besides them, a process gets a fixed set of variables, and no others.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// How long a runner may take to load a model, and to run it; for a streaming model, how long each item may take.
    /// Default: 600 s.
    pub timeout: Duration,
    /// A function that receives the lines that the model prints. By default, they are discarded.
    pub log: Option<Log>,
    /// A function that is called while a model is being loaded or run. Once it returns `true`, the operation fails with
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
    /// Returns an error if the operation was cancelled.
    pub(crate) fn check_wanted(cancelled: Option<&Cancelled>) -> Result<()> {
        match cancelled.is_some_and(|cancelled| cancelled()) {
            true => Err(CANCELLED.broken("the operation was cancelled")),
            false => Ok(()),
        }
    }
}

/// The scope of the time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// Each item of a call.
    Answer,
    /// A whole call.
    Whole,
}
