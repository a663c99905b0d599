//! The list of runners that may be used.

use crate::rules::NO_RUNNER;
use crate::runner::Runner;
use holdall::Error;
use holdall::error::Shown as _;
use std::sync::Arc;

/// The runners that may be used.
#[derive(Clone)]
pub struct Runners(Vec<Arc<dyn Runner>>);

impl Runners {
    /// None at all.
    pub fn none() -> Runners {
        Runners(Vec::new())
    }

    /// Adds one. It comes before those of the same name that are there.
    pub fn with(mut self, runner: impl Runner + 'static) -> Runners {
        self.0.insert(0, Arc::new(runner));
        self
    }

    /// Names of all.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The one of that name.
    ///
    /// # Errors
    /// [`NO_RUNNER`]
    pub fn find(&self, name: &str) -> Result<&dyn Runner, Error> {
        self.0.iter().map(|r| &**r).find(|r| r.name() == name).ok_or_else(|| {
            let names = self.names().join(", ");
            NO_RUNNER
                .broken(format!("the package is for the runner `{}`", name.shown()))
                .with_hint(format!("there are {names}"))
        })
    }
}

impl std::fmt::Debug for Runners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Runners").field(&self.names()).finish()
    }
}
