//! Settings for loading and running a model.

use crate::runner_settings::{LogLine, RunnerSettings};
use crate::runners::Runners;
use holdall::carton::OptionValue;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// Settings for loading and running a model.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// The runners that may be used.
    pub runners: Runners,
    /// Options that override those of the package.
    pub options: Vec<(String, OptionValue)>,
    /// Settings for the runner.
    pub runner: RunnerSettings,
}

impl Settings {
    /// Sets the runners that may be used.
    pub fn with_runners(mut self, runners: Runners) -> Settings {
        self.runners = runners;
        self
    }

    /// Adds an option for the runner, which overrides that of the package.
    pub fn with_option(mut self, name: impl Into<String>, value: OptionValue) -> Settings {
        self.options.push((name.into(), value));
        self
    }

    /// Sets the Python interpreter.
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

    /// Passes a variable of this process to a runner's, with its value at the time the model is loaded.
    pub fn with_inherited_variable(mut self, name: impl Into<OsString>) -> Settings {
        self.runner.environment.push((name.into(), None));
        self
    }

    /// Sets how long a runner may take to load a model, and to run it; for a streaming model, how long each item may
    /// take.
    pub fn with_timeout(mut self, timeout: Duration) -> Settings {
        self.runner.timeout = timeout;
        self
    }

    /// Sets the function that receives the lines that the model prints.
    pub fn with_log(mut self, log: impl Fn(LogLine) + Send + Sync + 'static) -> Settings {
        self.runner.log = Some(Arc::new(log));
        self
    }

    /// Sets a function that returns `true` once loading or running is cancelled.
    pub fn with_cancelled(
        mut self,
        cancelled: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Settings {
        self.runner.cancelled = Some(Arc::new(cancelled));
        self
    }
}
