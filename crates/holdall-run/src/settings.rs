//! A caller's choices about a model: which runners there are, and what the runner is told.

use crate::runner_settings::{LogLine, RunnerSettings};
use crate::runners::Runners;
use holdall::carton::OptionValue;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// A caller's choices about a model.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// The runners that may be used.
    pub runners: Runners,
    /// Options that come before the package's.
    pub options: Vec<(String, OptionValue)>,
    /// What the runner is told.
    pub runner: RunnerSettings,
}

impl Settings {
    /// The runners that may be used.
    pub fn with_runners(mut self, runners: Runners) -> Settings {
        self.runners = runners;
        self
    }

    /// An option for the runner; it comes before the package's.
    pub fn with_option(mut self, name: impl Into<String>, value: OptionValue) -> Settings {
        self.options.push((name.into(), value));
        self
    }

    /// The Python interpreter.
    pub fn with_python(mut self, python: impl Into<OsString>) -> Settings {
        self.runner.python = Some(python.into());
        self
    }

    /// Sets a variable in the environment of a runner's process.
    pub fn with_variable(
        mut self,
        name: impl Into<OsString>,
        value: impl Into<OsString>,
    ) -> Settings {
        self.runner.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Passes a variable of this process to a runner's: its value when the model is loaded.
    pub fn with_own_variable(mut self, name: impl Into<OsString>) -> Settings {
        self.runner.environment.push((name.into(), None));
        self
    }

    /// How long a runner may take to load, and for a call; for each answer of one that is streamed.
    pub fn with_timeout(mut self, timeout: Duration) -> Settings {
        self.runner.timeout = timeout;
        self
    }

    /// Where lines that the model prints go.
    pub fn with_log(mut self, log: impl Fn(LogLine) + Send + Sync + 'static) -> Settings {
        self.runner.log = Some(Arc::new(log));
        self
    }

    /// Asks this whether loading or a call is no longer wanted.
    pub fn with_cancelled(
        mut self,
        cancelled: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Settings {
        self.runner.cancelled = Some(Arc::new(cancelled));
        self
    }
}
