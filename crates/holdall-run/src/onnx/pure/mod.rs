//! The engine `rten`.
//!
//! # Types
//! It computes in 32-bit floats and in integers of 32 and 8 bits. Values of other types are converted. Values that do
//! not fit are refused (`onnx/range`), and so are graphs with 64-bit floats (`onnx/width`). Outputs have the declared
//! types, or the engine's if none are declared.
//!
//! # Untrusted input
//! The engine is memory-safe, but its memory use is not bounded. A panic becomes an error. Its thread cannot be
//! stopped: an abandoned call continues in the background until it ends.

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

/// Runs ONNX graphs with the built-in engine `rten`.
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
        let inputs = graph_values(&model, inputs, model.input_ids(), "input")?;
        let outputs = ends::outputs(&load.description.outputs, &names(&model, model.output_ids()))?;
        let outputs = graph_values(&model, outputs, model.output_ids(), "output")?;
        // A separate thread pool, because an abandoned call keeps its threads busy.
        let threads = threads.or(std::thread::available_parallelism().ok().map(Into::into));
        let pool = Arc::new(ThreadPool::with_num_threads(threads.unwrap_or(1)));
        let options = RunOptions::default().with_thread_pool(Some(pool));
        let ids = outputs.iter().map(|value| value.id).collect();
        let worker = worker(model, ids, options, load.settings)?;
        Ok(Box::new(Graph { inputs, outputs, worker }))
    }
}

fn read(path: &Path, optimize: bool) -> Result<rten::Model> {
    // A varint without an end would make the engine loop forever.
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

/// Refuses a graph with 64-bit floats, which the engine would round.
fn check_width(path: &Path) -> Result<()> {
    let bytes = holdall::carton::mapped(path)?;
    match holdall::carton::onnx::has_doubles(&bytes)? {
        false => Ok(()),
        true => Err(ONNX_WIDTH.broken("the graph computes in 64-bit floats")),
    }
}

/// The inputs of one call.
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
    /// The engine's type of the node, if the graph gives it.
    engine: Option<rten::DataType>,
}

fn graph_values(
    model: &rten::Model,
    ends: Vec<End>,
    ids: &[NodeId],
    what: &str,
) -> Result<Vec<GraphValue>> {
    let graph_value = |end: End| {
        let id = ids[end.index];
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
    ends.into_iter().map(graph_value).collect()
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
            let Some(input) = self.inputs.iter().find(|input| input.end.name == *name) else {
                let e = format!("the graph has no input `{}`", name.escape_debug());
                return Err(ONNX_NAME.broken(e));
            };
            let converted = tensor::to_engine(value, input.engine);
            given.push((input.id, converted.map_err(|e| e.in_tensor(name.as_str()))?));
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

#[cfg(test)]
mod tests {
    use holdall::carton::onnx::engine::{MICROSOFT, STANDARD, is_supported};
    use rten::ModelOptions;

    /// A field of bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    /// Returns `true` if the engine has an operator. It may still refuse the node, which lacks inputs and attributes.
    fn has(domain: &str, name: &str) -> bool {
        let node =
            [field(2, b"y"), field(4, name.as_bytes()), field(7, domain.as_bytes())].concat();
        let graph = [field(1, &node), field(12, &field(1, b"y"))].concat();
        let model = [vec![0x08, 8], field(7, &graph), field(8, &[0x10, 17])].concat();
        match ModelOptions::with_all_ops().load(model) {
            Ok(_) => true,
            Err(e) => {
                let text = e.to_string();
                !text.contains("not supported or not enabled") && !text.contains(" feature")
            }
        }
    }

    /// The list by which packing warns is that of the engine.
    #[test]
    fn operators_are_known_as_the_engine_has_them() {
        for name in STANDARD {
            assert!(has("", name), "{name}");
        }
        for name in MICROSOFT {
            assert!(has("com.microsoft", name), "{name}");
        }
        // Other operators of ONNX 1.23 and of ONNX Runtime.
        for (domain, name) in [
            ("ai.onnx.ml", "TreeEnsembleClassifier"),
            ("ai.onnx.ml", "LinearRegressor"),
            ("ai.onnx.ml", "LabelEncoder"),
            ("", "StringNormalizer"),
            ("", "StringConcat"),
            ("", "RegexFullMatch"),
            ("", "TfIdfVectorizer"),
            ("", "DFT"),
            ("", "STFT"),
            ("", "Scan"),
            ("", "RNN"),
            ("", "Det"),
            ("", "DeformConv"),
            ("", "RoiAlign"),
            ("", "MaxUnpool"),
            ("", "LRN"),
            ("", "Shrink"),
            ("", "ThresholdedRelu"),
            ("", "Selu"),
            ("", "Celu"),
            ("", "Mish"),
            ("", "Hardmax"),
            ("", "Bernoulli"),
            ("", "Unique"),
            ("", "Compress"),
            ("", "GroupNormalization"),
            ("", "QLinearMatMul"),
            ("", "QLinearConv"),
            ("", "Optional"),
            ("", "SequenceMap"),
            ("", "NegativeLogLikelihoodLoss"),
            ("com.microsoft", "FusedConv"),
            ("com.example", "Add"),
        ] {
            assert_eq!(has(domain, name), is_supported(domain, name), "{domain} {name}");
        }
    }
}
