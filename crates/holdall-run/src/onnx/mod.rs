//! The runner `onnx`: ONNX graphs, in this process. [`Onnx`] runs them by the engine `rten`, which is in the
//! box; `OnnxRuntime` by ONNX Runtime, a library that the caller has and names.
//!
//! # Files
//! `model.onnx`, or the only `.onnx` file in `model`; weights may be in files beside it, which the graph names.
//!
//! # Versions
//! A requirement is one of the ONNX standard: [`RELEASES`] are known. Graphs say themselves which sets of
//! operators they use.
//!
//! # Untrusted input
//! Engines compute on a thread of their own, so that a call that takes too long can be given up.

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

/// Releases 1.0 to this one of the ONNX standard are known, whatever their last number.
pub const RELEASES: u64 = 23;

/// What both engines take.
const OPTIONS: [&str; 2] = ["num_threads", "optimize"];

/// Whether a release that is known is one that is required; otherwise which are known.
fn satisfies(requirement: &VersionReq) -> Result<(), String> {
    // Patches of a release change no operator.
    let releases = (0..=RELEASES).flat_map(|minor| (0..4).map(move |patch| (minor, patch)));
    let mut versions = releases.map(|(minor, patch)| Version::new(1, minor, patch));
    match versions.any(|v| requirement.matches(&v)) {
        true => Ok(()),
        false => Err(format!("ONNX 1.0 to 1.{RELEASES}")),
    }
}

/// How a graph is to be run.
struct Options {
    /// How many threads compute; `None` leaves it to the engine.
    threads: Option<usize>,
    /// Whether the engine may change the graph.
    optimize: bool,
}

impl Options {
    fn from_load(load: &Load<'_>) -> Result<Options> {
        let threads = match load.option("num_threads") {
            None => None,
            Some(OptionValue::Integer(n @ 1..=1024)) => Some(*n as usize),
            Some(_) => return Err(OPTION.broken("`num_threads` is a whole number from 1 to 1024")),
        };
        let optimize = match load.option("optimize") {
            None => true,
            Some(OptionValue::Boolean(yes)) => *yes,
            Some(_) => return Err(OPTION.broken("`optimize` is `true` or `false`")),
        };
        Ok(Options { threads, optimize })
    }
}

/// The file of the graph in a folder.
fn graph_file(folder: &Path) -> Result<PathBuf> {
    let mut found = holdall::carton::onnx_files(folder)?;
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(ONNX_FILE.broken("there is no `.onnx` file in `model`")),
        (_, more) => Err(ONNX_FILE.broken(format!(
            "there are {} `.onnx` files in `model`, and none of them is `model.onnx`",
            more + 1
        ))),
    }
}

/// Looks the graph through before an engine sees it, down to the numbers of its weights.
fn look_through(path: &Path) -> Result<()> {
    let checked = holdall::carton::mapped(path).and_then(|b| holdall::carton::onnx::check(&b));
    checked.map_err(|e| match e.kind() {
        holdall::ErrorKind::Malformed => e.under(&ONNX_MODEL),
        _ => e,
    })
}

/// What the engine does; where it panics, an error.
fn guarded<T>(rule: &'static Rule, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said =
            said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("for no reason it gives");
        Err(rule.broken(format!("the engine gave up: {}", said.escape_debug())))
    })
}
