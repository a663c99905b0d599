//! The runner `onnx`: runs ONNX graphs in this process. [`Onnx`] runs them with the built-in engine `rten`,
//! `OnnxRuntime` with a library of ONNX Runtime that the caller names.
//!
//! # Files
//! `model.onnx`, or the only `.onnx` file in `model`. Weights may be in further files in that folder, which the graph
//! names.
//!
//! # Versions
//! A requirement is for a version of the ONNX standard, up to 1.[`RELEASES`]. The graph itself says which operator sets
//! it uses.
//!
//! # Untrusted input
//! Engines run on their own thread, so that a call that takes too long can be abandoned.

mod ends;
#[cfg(feature = "run-onnx")]
mod pure;
#[cfg(feature = "run-onnxruntime")]
mod runtime;
mod worker;

#[cfg(feature = "run-onnx")]
pub use pure::Onnx;
#[cfg(feature = "run-onnxruntime")]
pub use runtime::OnnxRuntime;

use crate::rules::{ONNX_FILE, ONNX_MODEL, OPTION};
use crate::runner::Load;
use holdall::carton::OptionValue;
use holdall::{Result, Rule};
use semver::{Version, VersionReq};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The latest known release of the ONNX standard: 1.0 to 1.`RELEASES` are known, with any patch number.
pub const RELEASES: u64 = 23;

/// The options of both engines.
const OPTIONS: [&str; 2] = ["num_threads", "optimize"];

/// Checks whether a known release satisfies the requirement. If not, returns the known releases, for an error message.
fn satisfies(requirement: &VersionReq) -> Result<(), String> {
    // Patch releases do not change operators.
    let releases = (0..=RELEASES).flat_map(|minor| (0..4).map(move |patch| (minor, patch)));
    let mut versions = releases.map(|(minor, patch)| Version::new(1, minor, patch));
    match versions.any(|v| requirement.matches(&v)) {
        true => Ok(()),
        false => Err(format!("ONNX 1.0 to 1.{RELEASES}")),
    }
}

/// Options for running a graph.
struct Options {
    /// Number of threads; `None` leaves the choice to the engine.
    threads: Option<usize>,
    /// Whether the engine may optimise the graph.
    optimize: bool,
}

impl Options {
    fn from_load(load: &Load<'_>) -> Result<Options> {
        let threads = match load.option("num_threads") {
            None => None,
            Some(OptionValue::Integer(n @ 1..=1024)) => Some(*n as usize),
            Some(_) => return Err(OPTION.broken("`num_threads` must be an integer from 1 to 1024")),
        };
        let optimize = match load.option("optimize") {
            None => true,
            Some(OptionValue::Boolean(yes)) => *yes,
            Some(_) => return Err(OPTION.broken("`optimize` must be `true` or `false`")),
        };
        Ok(Options { threads, optimize })
    }
}

/// Returns the path of the graph in a folder.
fn graph_file(folder: &Path) -> Result<PathBuf> {
    let mut found = holdall::carton::onnx_files(folder)?;
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(ONNX_FILE.broken("no `.onnx` file in `model`")),
        (_, more) => Err(ONNX_FILE.broken(format!(
            "there are {} `.onnx` files in `model`, and none of them is `model.onnx`",
            more + 1
        ))),
    }
}

/// Checks the whole graph, including its varints, before an engine reads it.
fn look_through(path: &Path) -> Result<()> {
    let checked = holdall::carton::mapped(path).and_then(|b| holdall::carton::onnx::check(&b));
    checked.map_err(|e| match e.kind() {
        holdall::ErrorKind::Malformed => e.with_rule(&ONNX_MODEL),
        _ => e,
    })
}

/// Runs `work`, and turns a panic of the engine into an error.
fn guarded<T>(rule: &'static Rule, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message =
            message.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        Err(rule.broken(format!("the engine failed: {}", message.escape_debug())))
    })
}
