//! The engine `rten`.
//!
//! # Types
//! It computes in 32-bit floats and in integers of 32 and 8 bits. Values of other types are converted: those
//! that do not fit are refused (`onnx/range`), and so are graphs with 64-bit floats (`onnx/width`). Outputs have the declared types; where none are declared, the
//! engine's.
//!
//! # Untrusted input
//! The engine is safe in memory, but its memory is not bounded. A panic in it is an error here. Nobody can stop
//! its thread: a call that is given up computes on unseen until it is done.

mod tensor;

use super::ends::{self, End};
use super::worker::{Worker, bounded};
use super::{OPTIONS, Options, graph_file, guarded, look_through, satisfies};
use crate::rules::{
    ONNX_FILE, ONNX_MODEL, ONNX_NAME, ONNX_OPERATOR, ONNX_RUN, ONNX_TYPE, ONNX_WIDTH,
};
use crate::runner::{Load, Loaded, NamedValues, OutputSink, Runner};
use crate::runner_settings::RunnerSettings;
use holdall::{Error, Result};
use rten::{LoadErrorKind, ModelOptions, NodeId, RunErrorKind, RunOptions, ThreadPool, Value};
use semver::VersionReq;
use std::path::Path;
use std::sync::Arc;

/// Runs ONNX graphs by the engine that is in the box.
#[derive(Debug)]
pub struct Onnx;

impl Runner for Onnx {
    fn name(&self) -> &str {
        "onnx"
    }

    fn options(&self) -> Option<&[&str]> {
        Some(&OPTIONS)
    }

    fn satisfies(&self, requirement: &VersionReq) -> Result<(), String> {
        satisfies(requirement)
    }

    fn load(&self, load: &Load<'_>) -> Result<Box<dyn Loaded>> {
        let path = graph_file(load.model)?;
        let Options { threads, optimize } = Options::from_load(load)?;
        let model = bounded(load.settings, "read the graph", move || {
            guarded(&ONNX_MODEL, || read(&path, optimize))
        })?;
        let inputs = ends::inputs(&load.description.inputs, &names(&model, model.input_ids()))?;
        let inputs = placed(&model, inputs, model.input_ids(), "input")?;
        let outputs = ends::outputs(&load.description.outputs, &names(&model, model.output_ids()))?;
        let outputs = placed(&model, outputs, model.output_ids(), "output")?;
        // Threads of its own: a call that is given up keeps those it has.
        let threads = threads.or(std::thread::available_parallelism().ok().map(Into::into));
        let pool = Arc::new(ThreadPool::with_num_threads(threads.unwrap_or(1)));
        let options = RunOptions::default().with_thread_pool(Some(pool));
        let ids = outputs.iter().map(|place| place.id).collect();
        let worker = worker(model, ids, options, load.settings)?;
        Ok(Box::new(Graph { inputs, outputs, worker }))
    }
}

fn read(path: &Path, optimize: bool) -> Result<rten::Model> {
    // In a number that does not end the engine would go round for ever.
    look_through(path)?;
    check_width(path)?;
    ModelOptions::with_all_ops().enable_optimization(optimize).load_file(path).map_err(|e| {
        let rule = match e.kind() {
            LoadErrorKind::OperatorInvalid => &ONNX_OPERATOR,
            LoadErrorKind::IoError => &ONNX_FILE,
            _ => &ONNX_MODEL,
        };
        rule.broken(e.to_string().escape_debug().to_string())
    })
}

/// Refuses a graph whose 64-bit floats the engine would round.
fn check_width(path: &Path) -> Result<()> {
    let bytes = holdall::carton::mapped(path)?;
    match holdall::carton::onnx::has_doubles(&bytes)? {
        false => Ok(()),
        true => Err(ONNX_WIDTH.broken("the graph computes in 64-bit floats")),
    }
}

/// Inputs of one call.
type Job = Vec<(NodeId, Value)>;

fn worker(
    model: rten::Model,
    outputs: Vec<NodeId>,
    options: RunOptions,
    settings: &RunnerSettings,
) -> Result<Worker<Job, Vec<Value>>> {
    Worker::new(settings, move |job: Job| {
        let given = job.into_iter().map(|(id, value)| (id, value.into())).collect();
        model.run(given, &outputs, Some(options.clone())).map_err(run_error)
    })
}

fn run_error(e: rten::RunError) -> Error {
    let text = e.to_string();
    let rule = match e.kind() {
        RunErrorKind::OperatorError if text.contains("nsupported") => &ONNX_OPERATOR,
        _ => &ONNX_RUN,
    };
    rule.broken(text.escape_debug().to_string())
}

fn names(model: &rten::Model, ids: &[NodeId]) -> Vec<String> {
    let name = |id: &NodeId| model.node_info(*id).and_then(|n| n.name()).unwrap_or("").to_owned();
    ids.iter().map(name).collect()
}

/// An input or output, and its node in the graph.
struct GraphValue {
    end: End,
    id: NodeId,
    /// What the engine takes or gives there, where the graph says it.
    engine: Option<rten::DataType>,
}

fn placed(
    model: &rten::Model,
    ends: Vec<End>,
    ids: &[NodeId],
    what: &str,
) -> Result<Vec<GraphValue>> {
    let place = |end: End| {
        let id = ids[end.at];
        let engine = match model.node_info(id).and_then(|n| n.dtype()) {
            Some(rten::ValueType::Tensor(dtype)) => Some(dtype),
            None => None,
            Some(other) => {
                let name = end.name.escape_debug();
                return Err(ONNX_TYPE.broken(format!("{what} `{name}` of the graph is a {other}")));
            }
        };
        Ok(GraphValue { end, id, engine })
    };
    ends.into_iter().map(place).collect()
}

struct Graph {
    inputs: Vec<GraphValue>,
    outputs: Vec<GraphValue>,
    worker: Worker<Job, Vec<Value>>,
}

impl Loaded for Graph {
    fn needs_files(&self) -> bool {
        false
    }

    fn run(&mut self, inputs: &NamedValues, each: OutputSink<'_>) -> Result<()> {
        let mut given = Vec::with_capacity(inputs.len());
        for (name, value) in inputs {
            let Some(place) = self.inputs.iter().find(|place| place.end.name == *name) else {
                let e = format!("the graph has no input `{}`", name.escape_debug());
                return Err(ONNX_NAME.broken(e));
            };
            let converted = tensor::to_engine(value, place.engine);
            given.push((place.id, converted.map_err(|e| e.in_tensor(name.as_str()))?));
        }
        let ran = self.worker.run(given)?;
        let outputs: Result<NamedValues> = (self.outputs.iter().zip(ran))
            .map(|(GraphValue { end, .. }, value)| {
                let converted = tensor::from_engine(value, end.ty);
                Ok((end.name.clone(), converted.map_err(|e| e.in_tensor(end.name.as_str()))?))
            })
            .collect();
        each(outputs?)
    }
}
