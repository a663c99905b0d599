//! The runner `python`: runs a model's code with the user's Python interpreter, in a separate process.
//!
//! # Options
//! `entrypoint_package` is a module in `model`, `entrypoint_fn` a function in it. The defaults are `main` and `load`.
//! The function is called once, without arguments, and returns the model: an object with `infer_with_tensors(inputs)`,
//! one with `seal(inputs)` and `infer_with_handle(handle)`, or anything that can be called with inputs. Inputs and
//! outputs are dicts of NumPy arrays by name; an iterator of such dicts streams outputs.
//!
//! # Limitations
//! It installs nothing: the packages that a model imports must be installed. It is no sandbox: the code may do
//! everything that the user may.

use crate::platform;
use crate::process::child::{Process, failed};
use crate::process::frame::Kind;
use crate::process::program::{self, Remote};
use crate::requirements::version;
use crate::rules::{ENTRY, HANDSHAKE, INTERPRETER, LOAD, NUMPY, OUTPUT, START};
use crate::runner::{Load, Loaded, Runner};
use holdall::carton::OptionValue;
use holdall::{Remedy, Result, Rule};
use semver::VersionReq;
use serde_json::{Map, Value as Json, json};
use std::ffi::OsString;
use std::process::Command;

/// The Python code that runs a model and speaks the protocol.
const BOOTSTRAP: &str = concat!(include_str!("../process/wire.py"), include_str!("bootstrap.py"));
/// The environment variable with the Python interpreter.
pub const VARIABLE: &str = "HOLDALL_PYTHON";
/// The options with their defaults. The specification requires that models run without options.
const DEFAULTS: [(&str, &str); 2] = [("entrypoint_package", "main"), ("entrypoint_fn", "load")];

/// Returns the rule for the `what` of a failure that the interpreter reports.
fn rule_of(what: &str) -> Option<&'static Rule> {
    Some(match what {
        "entry" => &ENTRY,
        "load" => &LOAD,
        "numpy" => &NUMPY,
        "output" => &OUTPUT,
        _ => return None,
    })
}

/// Runs models that are Python code.
#[derive(Debug)]
pub struct Python;

impl Runner for Python {
    fn name(&self) -> &str {
        "python"
    }

    fn options(&self) -> Option<&[&str]> {
        Some(&[DEFAULTS[0].0, DEFAULTS[1].0])
    }

    /// Always succeeds: the interpreter's version is known only once it has started.
    fn satisfies(&self, _: &VersionReq) -> Result<(), String> {
        Ok(())
    }

    fn load(&self, load: &Load<'_>) -> Result<Box<dyn Loaded>> {
        let settings = load.settings;
        for (name, _) in DEFAULTS {
            match load.option(name) {
                Some(OptionValue::String(text)) if text.is_empty() => {
                    return Err(ENTRY.broken(format!("the option `{name}` is empty")));
                }
                Some(OptionValue::String(_)) | None => {}
                Some(_) => return Err(ENTRY.broken(format!("the option `{name}` is not text"))),
            }
        }
        let named = settings.python.clone().or_else(|| std::env::var_os(VARIABLE));
        let program =
            named.filter(|p| !p.is_empty()).unwrap_or_else(|| OsString::from(platform::PYTHON));
        let mut command = Command::new(&program);
        // No byte code in `model`, unbuffered output, UTF-8.
        command.args(["-B", "-u", "-X", "utf8", "-c", BOOTSTRAP]);
        let started = Process::start(command, settings);
        let (process, ready) = started.map_err(|e| match e.rule() {
            rule if *rule == START => e.with_rule(&INTERPRETER),
            _ => e,
        })?;
        if ready.kind == Kind::Fail {
            return Err(failed(&ready, rule_of));
        }
        let Some(has) = program::version(&ready)? else {
            return Err(HANDSHAKE.broken("the interpreter did not report its version"));
        };
        if !load.requirement.matches(&has) {
            let e = version("python", load.requirement, &format!("Python {has}"));
            return Err(e.with_remedy(Remedy::NamePython));
        }
        let mut options: Map<String, Json> =
            DEFAULTS.map(|(name, value)| (name.to_owned(), json!(value))).into_iter().collect();
        options.extend(program::options(load));
        Ok(Box::new(Remote::load(process, load, options, rule_of)?))
    }
}
