//! A model: loaded once, run as often as wanted, its inputs and outputs checked against its description.

use crate::folder::Folder;
use crate::rules::{CLOSED, COMPAT, IO, NOTHING, PLATFORM, REQUIREMENT, VERSION};
use crate::runner::{Each, Load, Loaded, Named, Runner, Runners};
use holdall::carton::signature::{self, Call};
use holdall::carton::{Description, OptionValue, Package, TensorValue, ValueSpec};
use holdall::error::{CANCELLED, Shown as _, list};
use holdall::{Error, Result};
use semver::VersionReq;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;
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

/// A caller's choices.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The runners that may be used.
    pub runners: Runners,
    /// Options that come before the package's.
    pub options: Vec<(String, OptionValue)>,
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

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            runners: Runners::default(),
            options: Vec::new(),
            python: None,
            environment: Vec::new(),
            timeout: Duration::from_secs(600),
            log: None,
            cancelled: None,
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("runners", &self.runners)
            .field("options", &self.options)
            .field("python", &self.python)
            // Values may be secrets.
            .field("environment", &self.environment.iter().map(|(n, _)| n).collect::<Vec<_>>())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
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
        self.python = Some(python.into());
        self
    }

    /// Sets a variable in the environment of a runner's process.
    pub fn with_variable(
        mut self,
        name: impl Into<OsString>,
        value: impl Into<OsString>,
    ) -> Settings {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Passes a variable of this process to a runner's: its value when the model is loaded.
    pub fn with_own_variable(mut self, name: impl Into<OsString>) -> Settings {
        self.environment.push((name.into(), None));
        self
    }

    /// How long a runner may take to load, and for a call; for each answer of one that is streamed.
    pub fn with_timeout(mut self, timeout: Duration) -> Settings {
        self.timeout = timeout;
        self
    }

    /// Where lines that the model prints go.
    pub fn with_log(mut self, log: impl Fn(LogLine) + Send + Sync + 'static) -> Settings {
        self.log = Some(Arc::new(log));
        self
    }

    /// Asks this whether loading or a call is no longer wanted.
    pub fn with_cancelled(
        mut self,
        cancelled: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Settings {
        self.cancelled = Some(Arc::new(cancelled));
        self
    }

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

/// A model that was loaded.
pub struct Model {
    /// Ends before the folder goes.
    loaded: Option<Box<dyn Loaded>>,
    description: Description,
    warnings: Vec<String>,
    _folder: Option<Folder>,
    /// The process that loaded it. Its threads, and its right to end the runner, do not survive a fork.
    process: u32,
}

impl Model {
    /// Unpacks and loads the model of a package. The folder `model` is checked, and gone when it is no
    /// longer needed.
    ///
    /// # Errors
    /// As [`Model::load_folder`], and what is wrong with the package's files.
    pub fn load(package: &Package, settings: &Settings) -> Result<Model> {
        // What cannot be run is not unpacked.
        Prepared::new(package.description(), settings)?;
        let folder = Folder::new()?;
        package.unpack_model(folder.model())?;
        folder.protect()?;
        let (model, around) = (folder.model(), folder.path());
        let mut model =
            Model::load_in(package.description().clone(), &model, Some(around), settings)?;
        if model.loaded.as_ref().is_some_and(|loaded| loaded.needs_files()) {
            model._folder = Some(folder);
        }
        Ok(model)
    }

    /// Loads the model in a folder, whose files were checked by the caller.
    ///
    /// # Errors
    /// `run/…`, `runner/…`, and those of the runner.
    pub fn load_folder(
        description: Description,
        folder: &Path,
        settings: &Settings,
    ) -> Result<Model> {
        Model::load_in(description, folder, None, settings)
    }

    fn load_in(
        description: Description,
        folder: &Path,
        temporary: Option<&Path>,
        settings: &Settings,
    ) -> Result<Model> {
        let prepared = Prepared::new(&description, settings)?;
        let loaded = prepared.runner.load(&Load {
            description: &description,
            model: folder,
            temporary,
            options: &prepared.options,
            requirement: &prepared.requirement,
            settings,
        })?;
        let mut warnings = prepared.warnings;
        warnings.extend_from_slice(loaded.warnings());
        let process = std::process::id();
        Ok(Model { loaded: Some(loaded), description, warnings, _folder: None, process })
    }

    /// What the package says of the model.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// What is odd: options that the runner does not know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Inputs without names, given those of the declared inputs in their order.
    ///
    /// # Errors
    /// `signature/position`
    pub fn in_order(&self, values: Vec<TensorValue>) -> Result<Named> {
        signature::in_order(&self.description.inputs, values)
    }

    /// Runs the model. Of one that streams, the last outputs are given; all of it ends within the time limit.
    ///
    /// # Errors
    /// As [`Model::run_streaming`].
    pub fn run(&mut self, inputs: Named) -> Result<Named> {
        let mut last = None;
        self.call(inputs, Span::Whole, &mut |outputs| {
            last = Some(outputs);
            Ok(())
        })?;
        last.ok_or_else(nothing)
    }

    /// Runs the model and hands on its outputs each time that it gives some, in the declared order.
    ///
    /// # Errors
    /// `run/nothing` where it gives none at all, `signature/…` where inputs or outputs do not fit the description, what went wrong in the model or its
    /// runner, and what `each` gave. After a failure of the runner itself the model must be loaded again.
    pub fn run_streaming(&mut self, inputs: Named, each: Each<'_>) -> Result<()> {
        let mut gave = false;
        self.call(inputs, Span::Answer, &mut |outputs| {
            gave = true;
            each(outputs)
        })?;
        if gave { Ok(()) } else { Err(nothing()) }
    }

    /// Checks inputs against a description, as a call of its model does: before the model is
    /// loaded, which may take long.
    ///
    /// # Errors
    /// `signature/…`
    pub fn check_inputs(description: &Description, inputs: &Named) -> Result<()> {
        bound(description, inputs).map(|_| ())
    }

    fn call(&mut self, inputs: Named, span: Span, each: Each<'_>) -> Result<()> {
        if self.process != std::process::id() {
            let e = CLOSED.broken(format!("the model was loaded in process {}", self.process));
            return Err(e.with_hint("load it in this process"));
        }
        let Some(loaded) = &mut self.loaded else {
            return Err(CLOSED.broken("the runner of this model ended earlier"));
        };
        let call = bound(&self.description, &inputs)?;
        let outputs = &self.description.outputs;
        let mut hand_on = |mut given: Named| {
            // Symbols of the outputs are bound anew each time: a stream's sizes may change.
            all_of(call.clone().outputs(outputs, by_ref(&given)))?;
            order(outputs, &mut given);
            each(given)
        };
        let ran = match span {
            Span::Answer => loaded.run(&inputs, &mut hand_on),
            Span::Whole => loaded.run_whole(&inputs, &mut hand_on),
        };
        let is_fatal = |e: &Error| {
            *e.rule() == CANCELLED || e.code().starts_with("runner/") && e.code() != "runner/failed"
        };
        if ran.as_ref().is_err_and(is_fatal) {
            self.loaded = None;
        }
        ran
    }
}

impl Drop for Model {
    /// In a process forked from the one that loaded the model, the runner and its files are left alone:
    /// they are still in use over there.
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget((self.loaded.take(), self._folder.take()));
        }
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("name", &self.description.model_name)
            .field("runner", &self.description.runner.name)
            .finish_non_exhaustive()
    }
}

#[cold]
fn nothing() -> Error {
    NOTHING.broken("the model gave no outputs")
}

/// A call with these inputs: their symbols have sizes.
fn bound<'a>(description: &'a Description, inputs: &Named) -> Result<Call<'a>> {
    let mut call = Call::new();
    all_of(call.inputs(&description.inputs, by_ref(inputs)))?;
    Ok(call)
}

fn by_ref(values: &Named) -> impl Iterator<Item = (&str, &TensorValue)> {
    values.iter().map(|(name, value)| (name.as_str(), value))
}

fn order(declared: &[ValueSpec], given: &mut Named) {
    if !declared.is_empty() {
        given.sort_by_key(|(name, _)| declared.iter().position(|d| d.name == *name));
    }
}

/// One error for all that is wrong: the first one's rule, and what each says.
fn all_of(mut wrong: Vec<Error>) -> Result<()> {
    if wrong.len() < 2 {
        return wrong.pop().map_or(Ok(()), Err);
    }
    let said: Vec<&str> = wrong.iter().map(Error::message).collect();
    let said = said.join("; ");
    // The one that advises, if one does.
    let cause =
        wrong.iter().position(|e| e.hint().is_some() || !e.remedies().is_empty()).unwrap_or(0);
    let rule = wrong[0].rule();
    Err(rule.broken(said).with_cause(wrong.swap_remove(cause)))
}

/// What is settled before a model is loaded.
struct Prepared<'a> {
    runner: &'a dyn Runner,
    options: Vec<(String, OptionValue)>,
    requirement: VersionReq,
    warnings: Vec<String>,
}

impl<'a> Prepared<'a> {
    fn new(description: &Description, settings: &'a Settings) -> Result<Prepared<'a>> {
        let runner = settings.runners.find(&description.runner.name)?;
        let platforms = &description.required_platforms;
        let here = platform();
        if !platforms.is_empty() && !platforms.contains(&here) {
            let wanted = list(platforms.iter().map(|p| p.shown()));
            return Err(PLATFORM.broken(format!("this is {here}, the package is for {wanted}")));
        }
        let text = &description.runner.framework_version;
        let requirement = VersionReq::parse(text).map_err(|e| {
            REQUIREMENT.broken(format!("`{}` cannot be read", text.shown())).because(e)
        })?;
        runner.satisfies(&requirement).map_err(|has| version(runner.name(), &requirement, &has))?;
        check_compat(description, runner.name(), runner.compat_versions())?;
        let mut options = description.runner.options.clone();
        for (name, value) in &settings.options {
            options.retain(|(n, _)| n != name);
            options.push((name.clone(), value.clone()));
        }
        let taken = runner.options();
        let is_unknown = |name: &str| taken.is_some_and(|taken| !taken.contains(&name));
        let unknown = options.iter().filter(|(name, _)| is_unknown(name));
        let warnings = unknown
            .map(|(name, _)| {
                let (name, known) = (name.shown(), taken.unwrap_or_default().join(", "));
                let runner = runner.name();
                match known.is_empty() {
                    true => format!("the runner `{runner}` takes no options, `{name}` does nothing"),
                    false => format!(
                        "the runner `{runner}` knows no option `{name}`, which does nothing; there are {known}"
                    ),
                }
            })
            .collect();
        Ok(Prepared { runner, options, requirement, warnings })
    }
}

/// Whether the folder `model` is of a version that the runner knows, where it says which those are.
pub(crate) fn check_compat(
    description: &Description,
    runner: &str,
    known: Option<&[u64]>,
) -> Result<()> {
    let compat = description.runner.compat_version;
    match known.filter(|known| !known.contains(&compat)) {
        None => Ok(()),
        Some(known) => Err(COMPAT.broken(format!(
            "`runner_compat_version` is {compat}, the runner `{runner}` knows {known:?}"
        ))),
    }
}

/// A framework of the wrong version.
pub(crate) fn version(runner: &str, requirement: &VersionReq, has: &str) -> Error {
    VERSION.broken(format!("the package requires `{requirement}`, the runner `{runner}` has {has}"))
}

/// The target triple of this build, as `required_platforms` names it.
pub fn platform() -> String {
    let arch = std::env::consts::ARCH;
    match std::env::consts::OS {
        "linux" if cfg!(target_env = "musl") => format!("{arch}-unknown-linux-musl"),
        "linux" => format!("{arch}-unknown-linux-gnu"),
        "macos" => format!("{arch}-apple-darwin"),
        "windows" => format!("{arch}-pc-windows-msvc"),
        os => format!("{arch}-unknown-{os}"),
    }
}

/// An operating system error that happened while doing `what`.
#[cold]
pub(crate) fn io(e: std::io::Error, what: impl Display) -> Error {
    IO.broken(what.to_string()).because(e)
}
