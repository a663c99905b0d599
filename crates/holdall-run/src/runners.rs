//! The set of runners that may be used.

use crate::rules::NO_RUNNER;
use crate::runner::Runner;
use holdall::Error;
use holdall::error::Escape as _;
use std::sync::Arc;

/// The runners that may be used.
#[derive(Clone)]
pub struct Runners(Vec<Arc<dyn Runner>>);

impl Runners {
    /// Creates an empty set.
    pub fn none() -> Runners {
        Runners(Vec::new())
    }

    /// Adds a runner. It takes precedence over a runner of the same name.
    pub fn with(mut self, runner: impl Runner + 'static) -> Runners {
        self.0.insert(0, Arc::new(runner));
        self
    }

    /// Returns the names of all runners, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the runner with this name.
    ///
    /// # Errors
    /// Returns [`NO_RUNNER`] if no runner is found.
    pub fn find(&self, name: &str) -> Result<&dyn Runner, Error> {
        self.0.iter().map(|r| &**r).find(|r| r.name() == name).ok_or_else(|| {
            let names = self.names().join(", ");
            NO_RUNNER
                .broken(format!("the package requires the runner `{}`", name.escaped()))
                .with_hint(format!("available runners: {names}"))
        })
    }
}

impl std::fmt::Debug for Runners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Runners").field(&self.names()).finish()
    }
}
