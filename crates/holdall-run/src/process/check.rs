//! Checks whether a program is a runner: the requirements of section 2 of `docs/spec/runner.md`, each in a separate
//! process.

use super::child::{Process, failed};
use super::frame::{Frame, Kind, PROTOCOL};
use super::program::{Program, Remote, rule_of, version};
use super::values::SHARED_FROM;
use crate::folder::Folder;
use crate::rules::{FAILED, FRAME, HANDSHAKE, ORDER, SHARED, io};
use crate::runner::{Load, NamedValues};
use crate::runner_settings::{RunnerSettings, Span};
use holdall::carton::compare;
use holdall::carton::signature::CallChecker;
use holdall::carton::{OptionValue, Package, SelfTest, TensorValue};
use holdall::plain::{Plain, ToPlain};
use holdall::{Error, Result, fields};
use semver::VersionReq;
use serde_json::{Value as Json, json};
use std::path::Path;

/// The result of one check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckResult {
    /// The check's name.
    pub name: &'static str,
    /// The required behaviour.
    pub requirement: &'static str,
    /// How the program deviated from it; `None` if it passed.
    pub error: Option<Error>,
}

impl ToPlain for CheckResult {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => name, requirement, passed: self.error.is_none(), error)
    }
}

/// The name of an option that no runner has.
const NO_OPTION: &str = "no_such_option_of_any_runner";

/// Checks a program. The checks that need a model are made if there is a package for the runner. `each` is called after
/// every check.
///
/// # Errors
/// Returns the errors of the package. Errors of the program are in the returned results.
pub fn check(
    program: &Program,
    package: Option<&Package>,
    settings: &RunnerSettings,
    each: &mut dyn FnMut(&CheckResult),
) -> Result<Vec<CheckResult>> {
    let mut tried = Tried { program, settings, each, all: Vec::new() };
    for (name, says, trial) in FRAMES {
        tried.add(name, says, trial);
        // If the program does not even start, all other checks would fail for the same reason.
        if tried.all.len() == 1 && tried.all[0].error.is_some() {
            return Ok(tried.all);
        }
    }
    if let Some(package) = package {
        let folder = Folder::new()?;
        package.unpack_model(folder.model())?;
        folder.protect()?;
        let model = folder.model();
        for (name, says, trial) in MODELS {
            tried.add(name, says, |tried| trial(tried, package, &model));
        }
    }
    Ok(tried.all)
}

type OfFrames = fn(&Tried<'_>) -> Result<()>;
type OfModels = fn(&Tried<'_>, &Package, &Path) -> Result<()>;

const FRAMES: [(&str, &str, OfFrames); 9] = [
    ("hello", "answers `hello` with `ready`, which has protocol, name and version", hello),
    ("protocols", "chooses one of the offered protocol versions", protocols),
    ("no-protocol", "answers `fail` if it supports none of the offered versions", no_protocol),
    ("early-call", "answers a `call` before `load` with `fail`, and keeps running", early_call),
    ("no-model", "answers the `load` of an empty folder, and keeps running", no_model),
    ("not-a-frame", "ends when it receives something that is not a frame", not_a_frame),
    ("not-json", "ends when it receives a frame whose header is not JSON", not_json),
    ("bye", "ends after `bye`", bye),
    ("closed", "ends when the connection is closed", closed),
];

const MODELS: [(&str, &str, OfModels); 5] = [
    ("load", "loads the package's model", load),
    ("self-tests", "returns what the self-tests expect", in_data),
    (
        "shared-memory",
        "receives and returns tensors in shared memory, and removes the received ones",
        in_files,
    ),
    ("wrong-input", "answers unknown inputs, and keeps running", wrong_input),
    ("unknown-option", "warns of an unknown option", unknown_option),
];

struct Tried<'a> {
    program: &'a Program,
    settings: &'a RunnerSettings,
    each: &'a mut dyn FnMut(&CheckResult),
    all: Vec<CheckResult>,
}

impl Tried<'_> {
    fn add(
        &mut self,
        name: &'static str,
        says: &'static str,
        trial: impl FnOnce(&Tried<'_>) -> Result<()>,
    ) {
        let trial = CheckResult { name, requirement: says, error: trial(self).err() };
        (self.each)(&trial);
        self.all.push(trial);
    }

    fn spawned(&self) -> Result<Process> {
        Process::spawn(self.program.command()?, self.settings)
    }

    /// Starts a process and waits until it is ready.
    fn ready(&self, shared_from: usize) -> Result<Process> {
        let mut process = self.spawned()?;
        let ready = process.hello(&[PROTOCOL], shared_from)?;
        expect(&ready, Kind::Ready)?;
        Ok(process)
    }

    fn loaded(
        &self,
        package: &Package,
        model: &Path,
        shared_from: usize,
        options: &[(String, OptionValue)],
    ) -> Result<Remote> {
        let process = self.ready(shared_from)?;
        let description = package.description();
        let requirement =
            VersionReq::parse(&description.runner.framework_version).unwrap_or(VersionReq::STAR);
        let load = Load {
            description,
            model,
            temporary: None,
            options,
            requirement: &requirement,
            settings: self.settings,
        };
        let options = super::program::options(&load).collect();
        Remote::load(process, &load, options, rule_of)
    }
}

/// Returns an error if a frame is not of this kind.
fn expect(frame: &Frame, kind: Kind) -> Result<()> {
    match frame.kind {
        found if found == kind => Ok(()),
        Kind::Fail => Err(failed(frame, rule_of)),
        other => Err(ORDER.broken(format!("the runner sent a frame of kind {}", other.number()))),
    }
}

/// Returns an error if a frame is not a failure with a message.
fn expect_fail(frame: &Frame) -> Result<()> {
    match (frame.kind, frame.text("message")) {
        (Kind::Fail, "") => Err(FRAME.broken("a failure without a message")),
        (Kind::Fail, _) => Ok(()),
        (other, _) => Err(ORDER.broken(format!("a frame of kind {}, not `fail`", other.number()))),
    }
}

fn hello(tried: &Tried<'_>) -> Result<()> {
    let mut process = tried.spawned()?;
    let ready = process.hello(&[PROTOCOL], SHARED_FROM)?;
    expect(&ready, Kind::Ready)?;
    if ready.header.get("protocol").and_then(Json::as_u64) != Some(PROTOCOL) {
        return Err(HANDSHAKE.broken(format!("`protocol` is not {PROTOCOL}, the offered version")));
    }
    if ready.text("runner").is_empty() {
        return Err(HANDSHAKE.broken("`runner` is not a name"));
    }
    version(&ready).map(drop)
}

fn protocols(tried: &Tried<'_>) -> Result<()> {
    let ready = tried.spawned()?.hello(&[1_000_000, PROTOCOL], SHARED_FROM)?;
    expect(&ready, Kind::Ready)?;
    match ready.header.get("protocol").and_then(Json::as_u64) {
        Some(PROTOCOL | 1_000_000) => Ok(()),
        _ => Err(HANDSHAKE.broken("`protocol` is not one of the offered versions")),
    }
}

fn no_protocol(tried: &Tried<'_>) -> Result<()> {
    expect_fail(&tried.spawned()?.hello(&[1_000_000], SHARED_FROM)?)
}

fn early_call(tried: &Tried<'_>) -> Result<()> {
    let mut process = tried.ready(SHARED_FROM)?;
    for _ in 0..2 {
        let call = json!({ "values": [] });
        expect_fail(&process.ask(Kind::Call, call, Vec::new(), Kind::Done)?)?;
    }
    Ok(())
}

fn no_model(tried: &Tried<'_>) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|e| io(e, "making a folder"))?;
    let mut process = tried.ready(SHARED_FROM)?;
    for _ in 0..2 {
        let load = json!({
            "model": folder.path(), "options": {}, "temporary": null, "inputs": [], "outputs": [],
            "an unknown field": [1],
        });
        let answer = process.ask(Kind::Load, load, Vec::new(), Kind::Loaded)?;
        // A runner that needs no files may load it.
        if answer.kind != Kind::Loaded {
            expect_fail(&answer)?;
        }
    }
    Ok(())
}

fn not_a_frame(tried: &Tried<'_>) -> Result<()> {
    let mut process = tried.ready(SHARED_FROM)?;
    match process.ends_after(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") {
        true => Ok(()),
        false => Err(FRAME.broken("it does not end after bytes that are not a frame")),
    }
}

fn not_json(tried: &Tried<'_>) -> Result<()> {
    let mut process = tried.ready(SHARED_FROM)?;
    let mut bytes = vec![Kind::Load.number(), 0, 0, 0];
    bytes.extend([9u32, 4, 0].iter().flat_map(|n| n.to_le_bytes()));
    bytes.extend_from_slice(b"{\"a\"");
    match process.ends_after(&bytes) {
        true => Ok(()),
        false => Err(FRAME.broken("it does not end after a header that is not JSON")),
    }
}

fn bye(tried: &Tried<'_>) -> Result<()> {
    let mut process = tried.ready(SHARED_FROM)?;
    let frame = Frame::new(Kind::Bye, 2, json!({})).encode()?;
    match process.ends_after(&frame) {
        true => Ok(()),
        false => Err(ORDER.broken("it does not end after `bye`")),
    }
}

fn closed(tried: &Tried<'_>) -> Result<()> {
    match tried.ready(SHARED_FROM)?.ends_when_closed() {
        true => Ok(()),
        false => Err(ORDER.broken("it does not end after the connection was closed")),
    }
}

fn load(tried: &Tried<'_>, package: &Package, model: &Path) -> Result<()> {
    tried.loaded(package, model, SHARED_FROM, &package.description().runner.options).map(drop)
}

fn in_data(tried: &Tried<'_>, package: &Package, model: &Path) -> Result<()> {
    self_tests(tried, package, model, SHARED_FROM)
}

fn in_files(tried: &Tried<'_>, package: &Package, model: &Path) -> Result<()> {
    self_tests(tried, package, model, 0)
}

/// Runs each self-test twice, to detect side effects of a call on the next one.
fn self_tests(
    tried: &Tried<'_>,
    package: &Package,
    model: &Path,
    shared_from: usize,
) -> Result<()> {
    let description = package.description();
    let mut loaded = tried.loaded(package, model, shared_from, &description.runner.options)?;
    for (at, test) in description.self_tests.iter().enumerate() {
        let name = test.name.clone().unwrap_or_else(|| (at + 1).to_string());
        for _ in 0..2 {
            self_test(&mut loaded, package, test)
                .map_err(|e| e.within(format!("self-test `{name}`")))?;
        }
    }
    match loaded.process().has_shared_files() {
        false => Ok(()),
        true => {
            Err(SHARED
                .broken("the runner did not remove a tensor in shared memory that it received"))
        }
    }
}

fn self_test(loaded: &mut Remote, package: &Package, test: &SelfTest) -> Result<()> {
    let values = |named: &[(String, String)]| -> Result<NamedValues> {
        named
            .iter()
            .map(|(name, reference)| Ok((name.clone(), package.value(reference)?)))
            .collect()
    };
    let mut last: Option<NamedValues> = None;
    loaded.call(&values(&test.inputs)?, Span::Whole, &mut |outputs| {
        last = Some(outputs);
        Ok(())
    })?;
    let Some(given) = last else {
        return Err(crate::rules::NOTHING.broken("the model returned no outputs"));
    };
    let outputs = given.iter().map(|(name, value)| (name.as_str(), value));
    if let Some(e) =
        CallChecker::new().outputs(&package.description().outputs, outputs).into_iter().next()
    {
        return Err(e);
    }
    for (name, expected) in values(test.expected.as_deref().unwrap_or_default())? {
        let found = given.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
        let Some(found) = found else {
            return Err(FAILED.broken(format!("the model did not return `{name}`")));
        };
        let comparison = compare(found, &expected, &test.tolerance);
        if !comparison.is_close() {
            return Err(FAILED.broken(format!("output `{name}` differs from the expected value")));
        }
    }
    Ok(())
}

fn wrong_input(tried: &Tried<'_>, package: &Package, model: &Path) -> Result<()> {
    let options = &package.description().runner.options;
    let mut loaded = tried.loaded(package, model, SHARED_FROM, options)?;
    let wrong = TensorValue::from_elements(vec![1], &[1u8])?;
    let inputs = vec![("no such input".to_owned(), wrong)];
    match loaded.call(&inputs, Span::Whole, &mut |_| Ok(())) {
        Ok(()) => {}
        // The other errors named `runner/…` mean that the runner ended, or sent invalid frames.
        Err(e) if *e.rule() == FAILED || !e.code().starts_with("runner/") => {}
        Err(e) => return Err(e),
    }
    match package.description().self_tests.first() {
        Some(test) => self_test(&mut loaded, package, test),
        None => Ok(()),
    }
}

fn unknown_option(tried: &Tried<'_>, package: &Package, model: &Path) -> Result<()> {
    let mut options = package.description().runner.options.clone();
    options.push((NO_OPTION.to_owned(), OptionValue::Integer(1)));
    let loaded = tried.loaded(package, model, SHARED_FROM, &options)?;
    match loaded.warns_of(NO_OPTION) {
        true => Ok(()),
        false => Err(FAILED.broken("`loaded` has no `warnings` that name the option")),
    }
}
