//! Models: loaded once, run any number of times. Inputs and outputs are checked against the description.

use crate::folder::Folder;
use crate::requirements::{check_compat, platform, version};
use crate::rules::{CLOSED, NOTHING, PLATFORM, REQUIREMENT};
use crate::runner::{Load, Loaded, NamedValues, OutputSink, Runner};
use crate::runner_settings::Span;
use crate::settings::Settings;
use holdall::carton::signature::{self, CallChecker};
use holdall::carton::{Description, OptionValue, Package, TensorValue, ValueSpec};
use holdall::error::{CANCELLED, Escape as _, list};
use holdall::{Error, Result};
use semver::VersionReq;
use std::path::Path;

/// A loaded model.
pub struct Model {
    /// Dropped before the folder is deleted.
    loaded: Option<Box<dyn Loaded>>,
    description: Description,
    warnings: Vec<String>,
    _folder: Option<Folder>,
    /// The process that loaded the model. After a fork, the child has none of the model's threads, and must not end the
    /// runner.
    process: u32,
}

impl Model {
    /// Unpacks and loads the model of a package. The files in the folder `model` are verified, and deleted when they
    /// are no longer needed.
    ///
    /// # Errors
    /// Returns the same errors as for [`Model::load_folder`], and the errors of the package's files.
    pub fn load(package: &Package, settings: &Settings) -> Result<Model> {
        // Checked before unpacking, which may take long.
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

    /// Loads the model in a folder. The caller must have verified its files.
    ///
    /// # Errors
    /// Returns `run/…`, `runner/…`, and the errors of the runner.
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
            settings: &settings.runner,
        })?;
        let mut warnings = prepared.warnings;
        warnings.extend_from_slice(loaded.warnings());
        let process = std::process::id();
        Ok(Model { loaded: Some(loaded), description, warnings, _folder: None, process })
    }

    /// Returns the package's description of the model.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Returns the warnings of loading, such as unknown options.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Names values after the declared inputs, in their order.
    ///
    /// # Errors
    /// Returns `signature/position` if there are more values than declared inputs.
    pub fn in_order(&self, values: Vec<TensorValue>) -> Result<NamedValues> {
        signature::assign_names(&self.description.inputs, values)
    }

    /// Runs the model. If it streams its outputs, the last ones are returned, and the time limit applies to the whole
    /// call.
    ///
    /// # Errors
    /// Returns the same errors as for [`Model::run_streaming`].
    pub fn run(&mut self, inputs: NamedValues) -> Result<NamedValues> {
        let mut last = None;
        self.call(inputs, Span::Whole, &mut |outputs| {
            last = Some(outputs);
            Ok(())
        })?;
        last.ok_or_else(nothing)
    }

    /// Runs the model and passes its outputs to `each`, in the declared order: once, or several times if the model
    /// streams them.
    ///
    /// # Errors
    /// Returns `run/nothing` if the model returns no outputs; `signature/…` if inputs or outputs do not fit the description;
    /// errors of the model, of its runner and of `each`. After a failure of the runner itself, the model must be loaded
    /// again.
    pub fn run_streaming(&mut self, inputs: NamedValues, each: OutputSink<'_>) -> Result<()> {
        let mut gave = false;
        self.call(inputs, Span::Answer, &mut |outputs| {
            gave = true;
            each(outputs)
        })?;
        if gave { Ok(()) } else { Err(nothing()) }
    }

    /// Checks inputs against a description, as running the model does. Useful before loading a model, which may take
    /// long.
    ///
    /// # Errors
    /// Returns `signature/…` if the inputs do not fit.
    pub fn check_inputs(description: &Description, inputs: &NamedValues) -> Result<()> {
        bound(description, inputs).map(|_| ())
    }

    fn call(&mut self, inputs: NamedValues, span: Span, each: OutputSink<'_>) -> Result<()> {
        if self.process != std::process::id() {
            let e = CLOSED.broken(format!("the model was loaded in process {}", self.process));
            return Err(e.with_hint("load it in this process"));
        }
        let Some(loaded) = &mut self.loaded else {
            return Err(CLOSED.broken("the runner of this model has ended"));
        };
        let call = bound(&self.description, &inputs)?;
        let outputs = &self.description.outputs;
        let mut hand_on = |mut given: NamedValues| {
            // Symbols in output shapes are bound anew for each item: sizes may change within a stream.
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
    /// In a process forked from the one that loaded the model, the runner and its files are left alone: the parent
    /// still uses them.
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
    NOTHING.broken("the model returned no outputs")
}

/// Checks the inputs and returns a call in which the symbols of their shapes have sizes.
fn bound<'a>(description: &'a Description, inputs: &NamedValues) -> Result<CallChecker<'a>> {
    let mut call = CallChecker::new();
    all_of(call.inputs(&description.inputs, by_ref(inputs)))?;
    Ok(call)
}

fn by_ref(values: &NamedValues) -> impl Iterator<Item = (&str, &TensorValue)> {
    values.iter().map(|(name, value)| (name.as_str(), value))
}

fn order(declared: &[ValueSpec], given: &mut NamedValues) {
    if !declared.is_empty() {
        given.sort_by_key(|(name, _)| declared.iter().position(|d| d.name == *name));
    }
}

/// Combines several errors into one, with the rule of the first and the texts of all.
fn all_of(mut wrong: Vec<Error>) -> Result<()> {
    if wrong.len() < 2 {
        return wrong.pop().map_or(Ok(()), Err);
    }
    let messages: Vec<&str> = wrong.iter().map(Error::message).collect();
    let messages = messages.join("; ");
    // Prefer one that has a hint.
    let cause =
        wrong.iter().position(|e| e.hint().is_some() || !e.remedies().is_empty()).unwrap_or(0);
    let rule = wrong[0].rule();
    Err(rule.broken(messages).with_cause(wrong.swap_remove(cause)))
}

/// Everything that is checked before a model is loaded.
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
            let wanted = list(platforms.iter().map(|p| p.escaped()));
            return Err(
                PLATFORM.broken(format!("this machine is {here}, the package requires {wanted}"))
            );
        }
        let text = &description.runner.framework_version;
        let requirement = VersionReq::parse(text).map_err(|e| {
            REQUIREMENT
                .broken(format!("`{}` is not a version requirement", text.escaped()))
                .because(e)
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
                let (name, known) = (name.escaped(), taken.unwrap_or_default().join(", "));
                let runner = runner.name();
                match known.is_empty() {
                    true => format!("the runner `{runner}` takes no options, `{name}` is ignored"),
                    false => format!(
                        "the runner `{runner}` has no option `{name}`, which is ignored; its options are {known}"
                    ),
                }
            })
            .collect();
        Ok(Prepared { runner, options, requirement, warnings })
    }
}
