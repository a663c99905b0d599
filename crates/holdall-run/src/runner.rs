//! Runners, which load and run models.

use crate::runner_settings::RunnerSettings;
use holdall::Result;
use holdall::carton::{Description, OptionValue, TensorValue};
use semver::VersionReq;
use std::path::Path;

/// Values by name: the inputs or outputs of a call.
pub type NamedValues = Vec<(String, TensorValue)>;

/// A function that receives the outputs of a call: once, or several times if the model streams them.
pub type OutputSink<'a> = &'a mut dyn FnMut(NamedValues) -> Result<()>;

/// Loads models of one kind.
pub trait Runner: Send + Sync {
    /// Returns the name of the runner, as in `runner_name` of a package.
    fn name(&self) -> &str;

    /// Returns the versions of the folder `model` that the runner knows. `None` if they are known only once it is
    /// started; the runner then checks the version in `load`.
    fn compat_versions(&self) -> Option<&[u64]> {
        Some(&[1])
    }

    /// Returns the names of the runner's options; other options cause a warning. `None` if they are known only once it
    /// is started; the runner then warns in [`Loaded::warnings`].
    fn options(&self) -> Option<&[&str]>;

    /// Checks whether the runner's framework satisfies the requirement. A runner whose version is known only once it is
    /// started returns `Ok`, and checks [`Load::requirement`] in `load`.
    ///
    /// # Errors
    /// Returns the versions that the runner has, for an error message.
    fn satisfies(&self, requirement: &VersionReq) -> Result<(), String>;

    /// Loads a model.
    ///
    /// # Errors
    /// Returns an error of the model or of the runner.
    fn load(&self, load: &Load<'_>) -> Result<Box<dyn Loaded>>;
}

/// The arguments of [`Runner::load`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Load<'a> {
    /// The package's description of the model.
    pub description: &'a Description,
    /// The folder `model`, which has been verified and is read-only.
    pub model: &'a Path,
    /// A temporary folder that contains `model`, deleted with the model; `None` if the caller keeps the files.
    pub temporary: Option<&'a Path>,
    /// The options of the package, overridden by those of the caller.
    pub options: &'a [(String, OptionValue)],
    /// The required framework versions.
    pub requirement: &'a VersionReq,
    /// The caller's settings for the runner.
    pub settings: &'a RunnerSettings,
}

impl Load<'_> {
    /// Returns the value of an option.
    pub fn option(&self, name: &str) -> Option<&OptionValue> {
        self.options.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }
}

/// A loaded model.
pub trait Loaded: Send {
    /// Runs the model once on inputs that fit the description, and passes its outputs to `each`: once, or several times
    /// if it streams them. The outputs need not fit the description.
    ///
    /// # Errors
    /// Returns an error of the model, of the runner or of `each`.
    fn run(&mut self, inputs: &NamedValues, each: OutputSink<'_>) -> Result<()>;

    /// Like `run`, except that the time limit applies to the whole call rather than to each item.
    ///
    /// # Errors
    /// Returns the same errors as for `run`.
    fn run_whole(&mut self, inputs: &NamedValues, each: OutputSink<'_>) -> Result<()> {
        self.run(inputs, each)
    }

    /// Returns `true` if the model may still read files in `model`. Otherwise they are deleted once it is loaded.
    fn needs_files(&self) -> bool {
        true
    }

    /// Returns the runner's warnings, such as unknown options.
    fn warnings(&self) -> &[String] {
        &[]
    }
}
