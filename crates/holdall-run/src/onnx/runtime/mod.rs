//! The engine ONNX Runtime: a native library that the caller names.
//!
//! # Types
//! It computes in the graph's own types. Inputs are converted if the graph expects another type of the same kind and
//! every number fits; outputs are returned as they are. Booleans are integers in Cartons.
//!
//! # Untrusted input
//! Holdall has no control over what the library does with a graph. A call that takes too long is requested to stop.

mod tensor;

use super::ends::{self, End};
use super::worker::{Worker, bounded};
use super::{OPTIONS, Options, graph_file, guarded, look_through, satisfies};
use crate::rules::{
    ONNX_LIBRARY, ONNX_MODEL, ONNX_NAME, ONNX_OPERATOR, ONNX_RUN, ONNX_TYPE, TIMEOUT,
};
use crate::runner::{Load, Loaded, NamedValues, OutputSink, Runner};
use holdall::carton::{TensorValue, ValueType};
use holdall::{Error, Result};
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{RunOptions, Session};
use ort::value::{Outlet, TensorElementType};
use semver::VersionReq;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs ONNX graphs with a library of ONNX Runtime, version 1.17 or later.
#[derive(Clone)]
pub struct OnnxRuntime(Environment);

/// The library of this process. Only one can be loaded, and it is never unloaded.
static LOADED: Mutex<Option<(PathBuf, OnnxRuntime)>> = Mutex::new(None);

impl OnnxRuntime {
    /// Loads a library, such as `libonnxruntime.so.1.31.1`. Its code runs with all rights of this process.
    ///
    /// # Errors
    /// Returns `onnx/library` if the library cannot be loaded, or another one is loaded already.
    pub fn load(library: impl AsRef<Path>) -> Result<OnnxRuntime> {
        let given = library.as_ref();
        let path = given
            .canonicalize()
            .map_err(|e| ONNX_LIBRARY.broken(given.display().to_string()).because(e))?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, runtime)) = &*loaded {
            let (before, path) = (before.as_path(), path.as_path());
            return match before == path {
                true => Ok(runtime.clone()),
                false => Err(ONNX_LIBRARY.broken(format!(
                    "{}: this process has already loaded {}",
                    path.display(),
                    before.display()
                ))),
            };
        }
        let environment = guarded(&ONNX_LIBRARY, || {
            let builder = ort::environment::init_from(&path)
                .map_err(|e| ONNX_LIBRARY.broken(e.to_string().escape_debug().to_string()))?;
            let built = builder.with_name("holdall").with_telemetry(false).build();
            let environment = built.map_err(|e| session_error(&ONNX_LIBRARY, &e))?;
            environment.set_log_level(LogLevel::Fatal);
            Ok(environment)
        })?;
        let runtime = OnnxRuntime(environment);
        *loaded = Some((path, runtime.clone()));
        Ok(runtime)
    }
}

impl std::fmt::Debug for OnnxRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnnxRuntime").finish_non_exhaustive()
    }
}

impl Runner for OnnxRuntime {
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
        let options = Options::from_load(load)?;
        let environment = self.0.clone();
        let mut session = bounded(load.settings, "read the graph", move || {
            guarded(&ONNX_MODEL, || {
                look_through(&path)?;
                let mut builder =
                    builder(&environment, &options).map_err(|e| session_error(&ONNX_MODEL, &e))?;
                builder.commit_from_file(&path).map_err(|e| session_error(load_rule(&e), &e))
            })
        })?;
        let inputs = ends::inputs(&load.description.inputs, &names(session.inputs()))?;
        let outputs = ends::outputs(&load.description.outputs, &names(session.outputs()))?;
        let inputs = graph_values(inputs, session.inputs(), "input")?;
        let outputs = graph_values(outputs, session.outputs(), "output")?;

        let run = Arc::new(RunOptions::new().map_err(|e| session_error(&ONNX_RUN, &e))?);
        let (asked, wanted) = (Arc::clone(&run), outputs.clone());
        let worker = Worker::new(load.settings, move |inputs| {
            called(&mut session, inputs, &asked, &wanted)
        })?;
        Ok(Box::new(Graph { inputs, outputs, run, worker }))
    }
}

fn builder(environment: &Environment, options: &Options) -> ort::Result<SessionBuilder> {
    let level = match options.optimize {
        true => GraphOptimizationLevel::All,
        false => GraphOptimizationLevel::Disable,
    };
    let builder = Session::builder(environment)?.with_optimization_level(level)?;
    Ok(match options.threads {
        Some(n) => builder.with_intra_threads(n)?,
        None => builder,
    })
}

/// The inputs, by their names in the graph.
type Job = Vec<(String, ort::value::DynValue)>;

fn called(
    session: &mut Session,
    inputs: Job,
    options: &RunOptions,
    wanted: &[GraphValue],
) -> Result<Vec<TensorValue>> {
    let ran =
        session.run_with_options(inputs, options).map_err(|e| session_error(run_rule(&e), &e))?;
    let convert = |output: &GraphValue| {
        let value = ran.get(&output.graph).ok_or_else(|| {
            ONNX_RUN.broken(format!("the graph did not return `{}`", output.graph.escape_debug()))
        })?;
        tensor::from_engine(value, output.ty).map_err(|e| e.in_tensor(output.name.as_str()))
    };
    wanted.iter().map(convert).collect()
}

/// An input or output, and its properties in the graph.
#[derive(Clone)]
struct GraphValue {
    name: String,
    /// The name in the graph.
    graph: String,
    /// The element type in the graph.
    engine: TensorElementType,
    ty: Option<ValueType>,
}

fn names(outlets: &[Outlet]) -> Vec<String> {
    outlets.iter().map(|outlet| outlet.name().to_owned()).collect()
}

fn graph_values(ends: Vec<End>, outlets: &[Outlet], what: &str) -> Result<Vec<GraphValue>> {
    let graph_value = |End { name, index: at, ty }: End| {
        let outlet = &outlets[at];
        let Some(engine) = outlet.dtype().tensor_type() else {
            let (name, dtype) = (name.escape_debug(), outlet.dtype());
            return Err(ONNX_TYPE.broken(format!("{what} `{name}` of the graph is a {dtype}")));
        };
        Ok(GraphValue { name, graph: outlet.name().to_owned(), engine, ty })
    };
    ends.into_iter().map(graph_value).collect()
}

struct Graph {
    inputs: Vec<GraphValue>,
    outputs: Vec<GraphValue>,
    run: Arc<RunOptions>,
    worker: Worker<Job, Vec<TensorValue>>,
}

impl Loaded for Graph {
    fn needs_files(&self) -> bool {
        false
    }

    fn run(&mut self, inputs: &NamedValues, each: OutputSink<'_>) -> Result<()> {
        let mut given = Vec::with_capacity(inputs.len());
        for (name, value) in inputs {
            let Some(input) = self.inputs.iter().find(|input| input.name == *name) else {
                let e = format!("the graph has no input `{}`", name.escape_debug());
                return Err(ONNX_NAME.broken(e));
            };
            let converted = tensor::to_engine(value, input.engine);
            given.push((input.graph.clone(), converted.map_err(|e| e.in_tensor(name.as_str()))?));
        }
        let ran = self.worker.run(given);
        if ran.as_ref().is_err_and(|e| e.code() == TIMEOUT.code) {
            // If the request to stop fails, the call continues in the background.
            let _ = self.run.terminate();
        }
        let outputs = self.outputs.iter().map(|value| value.name.clone()).zip(ran?).collect();
        each(outputs)
    }
}

/// Returns the rule for a failure to load a graph.
fn load_rule<R>(e: &ort::Error<R>) -> &'static holdall::Rule {
    match e.code() {
        ort::error::ErrorCode::NotImplemented => &ONNX_OPERATOR,
        _ if e.message().contains("is not a registered function/op") => &ONNX_OPERATOR,
        _ => &ONNX_MODEL,
    }
}

/// Returns the rule for a failure to run a graph.
fn run_rule<R>(e: &ort::Error<R>) -> &'static holdall::Rule {
    match e.code() {
        ort::error::ErrorCode::NotImplemented => &ONNX_OPERATOR,
        _ => &ONNX_RUN,
    }
}

fn session_error<R>(rule: &'static holdall::Rule, e: &ort::Error<R>) -> Error {
    rule.broken(e.message().escape_debug().to_string())
}
