//! Runners: what loads a model and runs it.

use crate::runner_settings::RunnerSettings;
use holdall::Result;
use holdall::carton::{Description, OptionValue, TensorValue};
use semver::VersionReq;
use std::path::Path;

/// Values by name: the inputs or the outputs of a call.
pub type NamedValues = Vec<(String, TensorValue)>;

/// Takes the outputs of a call, once for each time that the model gives some.
pub type OutputSink<'a> = &'a mut dyn FnMut(NamedValues) -> Result<()>;

/// Loads models of one kind.
pub trait Runner: Send + Sync {
    /// The name in `runner_name`.
    fn name(&self) -> &str;

    /// The versions of the folder `model` that it knows; `None` where that shows only when it is started, and it
    /// checks them itself in `load`.
    fn compat_versions(&self) -> Option<&[u64]> {
        Some(&[1])
    }

    /// Names of the options it takes. Others are warned of: by [`Loaded::warnings`] where this is `None`.
    fn options(&self) -> Option<&[&str]>;

    /// Whether its framework is of a version that is required; otherwise what it has. A runner that knows its
    /// version only when it is started says yes here, and checks it against [`Load::requirement`] in `load`.
    ///
    /// # Errors
    /// The versions it has, for people.
    fn satisfies(&self, requirement: &VersionReq) -> Result<(), String>;

    /// Loads a model.
    ///
    /// # Errors
    /// What is wrong with the model, or in the way of running it.
    fn load(&self, load: &Load<'_>) -> Result<Box<dyn Loaded>>;
}

/// What a runner is given to load.
#[derive(Debug)]
#[non_exhaustive]
pub struct Load<'a> {
    /// What the package says of the model.
    pub description: &'a Description,
    /// The folder `model`, checked and for reading only.
    pub model: &'a Path,
    /// A folder around `model` that goes with the model; `None` where the caller keeps the files.
    pub temporary: Option<&'a Path>,
    /// The package's options, under those of the caller.
    pub options: &'a [(String, OptionValue)],
    /// The framework versions that are required.
    pub requirement: &'a VersionReq,
    /// The caller's choices that the runner is told.
    pub settings: &'a RunnerSettings,
}

impl Load<'_> {
    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&OptionValue> {
        self.options.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }
}

/// A model that was loaded.
pub trait Loaded: Send {
    /// Runs it once on inputs that fit the description, and hands on what it gives: once, or as often as a model
    /// that streams says. What is handed on need not fit the description.
    ///
    /// # Errors
    /// What went wrong, and what `each` gave.
    fn run(&mut self, inputs: &NamedValues, each: OutputSink<'_>) -> Result<()>;

    /// Runs it as `run` does, with nobody waiting for what it gives on the way: all of it ends within the time
    /// limit, not each answer.
    ///
    /// # Errors
    /// Those of `run`.
    fn run_whole(&mut self, inputs: &NamedValues, each: OutputSink<'_>) -> Result<()> {
        self.run(inputs, each)
    }

    /// Whether it may still read files in `model`. Of one that does not, they go as soon as it is loaded.
    fn needs_files(&self) -> bool {
        true
    }

    /// What is odd, as found by the runner: options that it does not know.
    fn warnings(&self) -> &[String] {
        &[]
    }
}
