//! Warns about an ONNX graph that the built-in engine of its runner cannot run.

use super::parts::FileToPack;
use holdall_core::Warning;
use holdall_package::Description;
use holdall_package::onnx::engine::unsupported;
use std::collections::BTreeMap;

/// The runner that has a built-in engine.
const RUNNER: &str = "onnx";

/// Returns a warning if the graph of a package for the runner `onnx` cannot be run by the built-in engine. There is no
/// warning for a graph that cannot be read, since opening the model reports the error.
pub(super) fn engine_warning(
    files: &BTreeMap<String, FileToPack>,
    description: &Description,
) -> Option<Warning> {
    if description.runner.name != RUNNER {
        return None;
    }
    let path = graph_path(files)?;
    let bytes = crate::mapped(files.get(path)?.path()?).ok()?;
    let warning = unsupported(&bytes).ok()?.warning()?;
    Some(Warning::new(warning.code, format!("{path}: {}", warning.message)))
}

/// Returns the path of the graph that the runner would run: `model/model.onnx`, or the only `.onnx` file in `model`.
fn graph_path(files: &BTreeMap<String, FileToPack>) -> Option<&str> {
    const DEFAULT: &str = "model/model.onnx";
    if files.contains_key(DEFAULT) {
        return Some(DEFAULT);
    }
    let is_graph = |path: &&str| {
        path.strip_prefix("model/").is_some_and(|name| !name.contains('/'))
            && path.ends_with(".onnx")
    };
    let mut graphs = files.keys().map(String::as_str).filter(is_graph);
    graphs.next().filter(|_| graphs.next().is_none())
}
