//! The runner `onnx`: ONNX graphs, in this process, by the engine `rten`.
//!
//! # Files
//! `model.onnx`, or the only `.onnx` file in `model`; weights may be in files beside it, which the graph names.
//!
//! # Versions
//! A requirement is one of the ONNX standard: [`RELEASES`] are known. Graphs say themselves which sets of
//! operators they use.
//!
//! # Types
//! The engine computes in 32-bit floats and in integers of 32 and 8 bits. Values of other types are converted: those
//! that do not fit are refused ([`ONNX_RANGE`]). Outputs have the declared types; where none are
//! declared, the engine's.
//!
//! # Untrusted input
//! The engine is safe in memory, but its memory is not bounded. A panic in it is an error here. It computes on a
//! thread of its own, which nobody can stop: a call that takes too long is given up, and computes on unseen until
//! it is done.

mod tensor;
mod worker;

use crate::rules::{ONNX_FILE, ONNX_MODEL, ONNX_NAME, ONNX_OPERATOR, ONNX_TYPE, OPTION};
use crate::runner::{Each, Load, Loaded, Named, Runner};
use holdall::carton::{OptionValue, TensorSpec, ValueType};
use holdall::{Result, Rule};
use rten::{LoadErrorKind, ModelOptions, NodeId, RunOptions, ThreadPool};
use semver::{Version, VersionReq};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use worker::Worker;

/// Releases 1.0 to this one of the ONNX standard are known, whatever their last number.
pub const RELEASES: u64 = 23;

/// Runs ONNX graphs.
#[derive(Debug)]
pub struct Onnx;

impl Runner for Onnx {
    fn name(&self) -> &'static str {
        "onnx"
    }

    fn options(&self) -> &'static [&'static str] {
        &["num_threads", "optimize"]
    }

    fn satisfies(&self, requirement: &VersionReq) -> Result<(), String> {
        // Patches of a release change no operator.
        let releases = (0..=RELEASES).flat_map(|minor| (0..4).map(move |patch| (minor, patch)));
        let mut versions = releases.map(|(minor, patch)| Version::new(1, minor, patch));
        match versions.any(|v| requirement.matches(&v)) {
            true => Ok(()),
            false => Err(format!("ONNX 1.0 to 1.{RELEASES}")),
        }
    }

    fn load(&self, load: &Load<'_>) -> Result<Box<dyn Loaded>> {
        let path = graph_file(load.model)?;
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
        let timeout = load.settings.timeout;
        let model = worker::bounded(timeout, "read the graph", move || {
            guarded(&ONNX_MODEL, || read(&path, optimize))
        })?;
        let inputs = ends(&model, &load.description.inputs, model.input_ids(), "input")?;
        let outputs = ends(&model, &load.description.outputs, model.output_ids(), "output")?;
        let mut options = RunOptions::default();
        if let Some(n) = threads {
            options.thread_pool = Some(Arc::new(ThreadPool::with_num_threads(n)));
        }
        let ids = outputs.iter().map(|end| end.id).collect();
        let worker = Worker::new(model, ids, options, timeout)?;
        Ok(Box::new(Graph { inputs, outputs, worker }))
    }
}

fn read(path: &Path, optimize: bool) -> Result<rten::Model> {
    // In a number that does not end the engine would go round for ever.
    let checked = holdall::carton::mapped(path).and_then(|b| holdall::carton::onnx::check(&b));
    checked.map_err(|e| match e.kind() {
        holdall::Kind::Malformed => ONNX_MODEL.broken(e.message().to_owned()),
        _ => e,
    })?;
    ModelOptions::with_all_ops().enable_optimization(optimize).load_file(path).map_err(|e| {
        let rule = match e.kind() {
            LoadErrorKind::OperatorInvalid => &ONNX_OPERATOR,
            LoadErrorKind::IoError => &ONNX_FILE,
            _ => &ONNX_MODEL,
        };
        rule.broken(e.to_string().escape_debug().to_string())
    })
}

/// The file of the graph in a folder.
fn graph_file(folder: &Path) -> Result<PathBuf> {
    let usual = folder.join("model.onnx");
    if usual.is_file() {
        return Ok(usual);
    }
    let read = std::fs::read_dir(folder).map_err(|e| crate::model::io(e, "reading `model`"))?;
    let mut found: Vec<PathBuf> = read
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "onnx"))
        .collect();
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(ONNX_FILE.broken("there is no `.onnx` file in `model`")),
        (_, more) => Err(ONNX_FILE.broken(format!(
            "there are {} `.onnx` files in `model`, and none of them is `model.onnx`",
            more + 1
        ))),
    }
}

/// An input or output: its name in the description, its node in the graph.
struct End {
    name: String,
    id: NodeId,
    /// What the engine takes or gives there, where the graph says it.
    engine: Option<rten::DataType>,
    /// The declared type; `None` where nothing is declared.
    ty: Option<ValueType>,
}

fn ends(
    model: &rten::Model,
    declared: &[TensorSpec],
    ids: &[NodeId],
    what: &str,
) -> Result<Vec<End>> {
    let name_of = |id: NodeId| model.node_info(id).and_then(|n| n.name()).unwrap_or("").to_owned();
    let end = |name: String, id: NodeId, ty: Option<ValueType>| {
        let engine = match model.node_info(id).and_then(|n| n.dtype()) {
            Some(rten::ValueType::Tensor(dtype)) => Some(dtype),
            None => None,
            Some(other) => {
                let name = name.escape_debug();
                return Err(ONNX_TYPE.broken(format!("{what} `{name}` of the graph is a {other}")));
            }
        };
        Ok(End { name, id, engine, ty })
    };
    if declared.is_empty() {
        return ids.iter().map(|id| end(name_of(*id), *id, None)).collect();
    }
    let mut out = Vec::with_capacity(ids.len());
    for spec in declared {
        let wanted = spec.internal_name.as_ref().unwrap_or(&spec.name);
        let Some(id) = ids.iter().find(|id| name_of(**id) == *wanted) else {
            let names: Vec<String> =
                ids.iter().map(|id| format!("`{}`", name_of(*id).escape_debug())).collect();
            let e = format!("the graph has no {what} `{}`, only ", wanted.escape_debug());
            return Err(ONNX_NAME.broken(e + &names.join(", ")));
        };
        out.push(end(spec.name.clone(), *id, Some(spec.ty))?);
    }
    let left = ids.iter().find(|id| what == "input" && !out.iter().any(|end| end.id == **id));
    if let Some(id) = left {
        let name = name_of(*id);
        let e = format!("the graph's input `{}` is not declared", name.escape_debug());
        return Err(ONNX_NAME.broken(e));
    }
    Ok(out)
}

struct Graph {
    inputs: Vec<End>,
    outputs: Vec<End>,
    worker: Worker,
}

impl Loaded for Graph {
    fn needs_files(&self) -> bool {
        false
    }

    fn run(&mut self, inputs: &Named, each: Each<'_>) -> Result<()> {
        let mut given = Vec::with_capacity(inputs.len());
        for (name, value) in inputs {
            let Some(end) = self.inputs.iter().find(|end| end.name == *name) else {
                let e = format!("the graph has no input `{}`", name.escape_debug());
                return Err(ONNX_NAME.broken(e));
            };
            let converted = tensor::to_engine(value, end.engine);
            given.push((end.id, converted.map_err(|e| e.in_tensor(name.as_str()))?));
        }
        let ran = self.worker.run(given)?;
        let outputs: Result<Named> = (self.outputs.iter().zip(ran))
            .map(|(end, value)| {
                let converted = tensor::from_engine(value, end.ty);
                Ok((end.name.clone(), converted.map_err(|e| e.in_tensor(end.name.as_str()))?))
            })
            .collect();
        each(outputs?)
    }
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
