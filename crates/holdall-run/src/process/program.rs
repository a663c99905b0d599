//! External runners: programs that speak the protocol. Also the code that all models in runner processes share.

use super::child::{Process, failed};
use super::frame::{Frame, Kind};
use crate::requirements::{check_compat, version as wrong_version};
use crate::rules::{FRAMEWORK, HANDSHAKE, REMOTE_LOAD, RULES, START, io};
use crate::runner::{Load, Loaded, NamedValues, OutputSink, Runner};
use crate::runner_settings::Span;
use holdall::carton::{OptionValue, ValueSpec};
use holdall::error::Escape as _;
use holdall::{Result, Rule};
use semver::{Version, VersionReq};
use serde_json::{Map, Value as Json, json};
use std::ffi::OsString;
use std::process::Command;

/// A runner that is an external program. Only the caller can name it, never a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    name: String,
    command: Vec<OsString>,
}

impl Program {
    /// Creates a runner with this `runner_name` and command: a program and its arguments. The program is looked up in
    /// `PATH`.
    pub fn new<T: Into<OsString>>(
        name: impl Into<String>,
        command: impl IntoIterator<Item = T>,
    ) -> Program {
        Program { name: name.into(), command: command.into_iter().map(Into::into).collect() }
    }

    /// Returns the command that starts the program.
    pub(crate) fn command(&self) -> Result<Command> {
        let [program, args @ ..] = &self.command[..] else {
            let name = self.name.escaped();
            return Err(START.broken(format!("the command of the runner `{name}` is empty")));
        };
        let mut command = Command::new(program);
        command.args(args);
        Ok(command)
    }
}

impl Runner for Program {
    fn name(&self) -> &str {
        &self.name
    }

    fn compat_versions(&self) -> Option<&[u64]> {
        None
    }

    fn options(&self) -> Option<&[&str]> {
        None
    }

    /// Always succeeds: the version is known only once the program has started.
    fn satisfies(&self, _: &VersionReq) -> Result<(), String> {
        Ok(())
    }

    fn load(&self, load: &Load<'_>) -> Result<Box<dyn Loaded>> {
        let (process, ready) = Process::start(self.command()?, load.settings)?;
        if ready.kind == Kind::Fail {
            return Err(failed(&ready, rule_of));
        }
        if let Some(has) = version(&ready)?
            && !load.requirement.matches(&has)
        {
            return Err(wrong_version(&self.name, load.requirement, &has.to_string()));
        }
        let known = ready.header.get("compat_versions").and_then(Json::as_array);
        let known = known.map(|all| all.iter().filter_map(Json::as_u64).collect::<Vec<_>>());
        check_compat(load.description, &self.name, known.as_deref())?;
        let options = options(load).collect();
        Ok(Box::new(Remote::load(process, load, options, rule_of)?))
    }
}

/// Returns the rule for the `what` of a failure that the program reports.
pub(crate) fn rule_of(what: &str) -> Option<&'static Rule> {
    match what {
        "load" => Some(&REMOTE_LOAD),
        "framework" | "numpy" => Some(&FRAMEWORK),
        code => RULES.iter().copied().find(|rule| rule.code == code),
    }
}

/// Returns the runner's framework version, if it reports one.
pub(crate) fn version(ready: &Frame) -> Result<Option<Version>> {
    match ready.header.get("version") {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Version::parse(text).map(Some).map_err(|e| {
            let e = HANDSHAKE.broken(format!("`{}` is not a version: {e}", text.escaped()));
            e.with_hint("write versions like 1.2.3")
        }),
        Some(_) => Err(HANDSHAKE.broken("the runner's `version` is not a string")),
    }
}

/// Returns the options of the package and the caller, in JSON.
pub(crate) fn options(load: &Load<'_>) -> impl Iterator<Item = (String, Json)> {
    load.options.iter().map(|(name, value)| (name.clone(), option(value)))
}

/// The key of an object that represents a value JSON cannot express. Its value is TOML text.
pub(crate) const TOML: &str = "toml";

fn option(value: &OptionValue) -> Json {
    match value {
        OptionValue::Integer(n) => json!(n),
        OptionValue::Double(n) if n.is_finite() => json!(n),
        OptionValue::String(text) => json!(text),
        OptionValue::Boolean(yes) => json!(yes),
        OptionValue::Array(all) => all.iter().map(option).collect(),
        // A table that looks like such an object is represented as TOML, too.
        OptionValue::Table(all) if !matches!(&all[..], [(name, _)] if name == TOML) => {
            Json::Object(all.iter().map(|(name, value)| (name.clone(), option(value))).collect())
        }
        other => json!({ TOML: other.to_string() }),
    }
}

/// A model in a runner's process.
pub(crate) struct Remote {
    process: Process,
    warnings: Vec<String>,
    rule_of: fn(&str) -> Option<&'static Rule>,
}

impl Remote {
    /// Loads a model in a runner that is ready.
    pub(crate) fn load(
        mut process: Process,
        load: &Load<'_>,
        options: Map<String, Json>,
        rule_of: fn(&str) -> Option<&'static Rule>,
    ) -> Result<Remote> {
        let model =
            std::path::absolute(load.model).map_err(|e| io(e, "finding the model's folder"))?;
        let header = json!({
            "model": model,
            "options": options,
            "temporary": load.temporary,
            "requirement": load.requirement.to_string(),
            "compat_version": load.description.runner.compat_version,
            "inputs": specs(&load.description.inputs),
            "outputs": specs(&load.description.outputs),
        });
        let loaded = process.ask(Kind::Load, header, Vec::new(), Kind::Loaded)?;
        if loaded.kind == Kind::Fail {
            return Err(failed(&loaded, rule_of));
        }
        let warnings = loaded.header.get("warnings").and_then(Json::as_array);
        let warnings = warnings.into_iter().flatten().filter_map(Json::as_str);
        let warnings = warnings.map(str::to_owned).collect();
        Ok(Remote { process, warnings, rule_of })
    }

    /// Returns the process.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Returns `true` if a warning of the runner contains `name`.
    pub(crate) fn warns_of(&self, name: &str) -> bool {
        self.warnings.iter().any(|warning| warning.contains(name))
    }

    /// Runs the model once.
    pub(crate) fn call(
        &mut self,
        inputs: &NamedValues,
        span: Span,
        each: OutputSink<'_>,
    ) -> Result<()> {
        let failure = self.process.call(inputs, span, each)?;
        failure.map_or(Ok(()), |frame| Err(failed(&frame, self.rule_of)))
    }
}

fn specs(specs_list: &[ValueSpec]) -> Json {
    let one = |spec: &ValueSpec| {
        json!({
            "name": spec.name,
            "dtype": spec.ty.as_str(),
            "internal_name": spec.internal_name,
        })
    };
    specs_list.iter().map(one).collect()
}

impl Loaded for Remote {
    fn run(&mut self, inputs: &NamedValues, each: OutputSink<'_>) -> Result<()> {
        self.call(inputs, Span::Answer, each)
    }

    fn run_whole(&mut self, inputs: &NamedValues, each: OutputSink<'_>) -> Result<()> {
        self.call(inputs, Span::Whole, each)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
