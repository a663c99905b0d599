//! What can go wrong when a model is loaded or run. `docs/spec/runner.md` speaks of every one.

use holdall::{Kind, Rule};

/// Every rule of this crate, and those of values, inputs and outputs.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    static OWN: &[&Rule] = &[
        &NO_RUNNER,
        &VERSION,
        &REQUIREMENT,
        &PLATFORM,
        &COMPAT,
        &OPTION,
        &TENSOR,
        &CLOSED,
        &NOTHING,
        &IO,
        &START,
        &HANDSHAKE,
        &DIED,
        &TIMEOUT,
        &FRAME,
        &FRAME_LIMIT,
        &ORDER,
        &SHARED,
        &FAILED,
        &LOAD,
        &ENTRY,
        &NUMPY,
        &OUTPUT,
        &INTERPRETER,
        &ONNX_FILE,
        &ONNX_MODEL,
        &ONNX_OPERATOR,
        &ONNX_NAME,
        &ONNX_TYPE,
        &ONNX_RANGE,
        &ONNX_RUN,
        &ONNX_LIBRARY,
    ];
    OWN.iter().chain(holdall::formats::carton::signature::RULES).copied()
}

/// A runner that there is not.
pub static NO_RUNNER: Rule = Rule::new(
    "run/no-runner",
    Kind::Unsupported,
    "The runner that a package names is one that this program has.",
);
/// The runner's version is not the one required.
pub static VERSION: Rule = Rule::new(
    "run/framework-version",
    Kind::Unsupported,
    "The runner's framework is of a version that the package requires.",
);
/// A requirement that cannot be read.
pub static REQUIREMENT: Rule = Rule::new(
    "run/requirement",
    Kind::Malformed,
    "The framework version that a package requires is a requirement in Cargo's form.",
);
/// Another platform.
pub static PLATFORM: Rule = Rule::new(
    "run/platform",
    Kind::Unsupported,
    "A package that names platforms is run on one of them.",
);
/// The folder `model` is in a form that the runner does not know.
pub static COMPAT: Rule = Rule::new(
    "run/compat-version",
    Kind::Unsupported,
    "The folder `model` is of a version that the runner knows.",
);
/// An option of the wrong type.
pub static OPTION: Rule = Rule::new(
    "run/option",
    Kind::Misuse,
    "An option of a runner has the type that the runner takes.",
);
/// A self-test names a tensor that is not there.
pub static TENSOR: Rule = Rule::new(
    "run/no-tensor",
    Kind::Malformed,
    "A tensor that a self-test names is in the package.",
);
/// The model broke earlier.
pub static CLOSED: Rule =
    Rule::new("run/closed", Kind::Misuse, "A model is run as long as its runner lives.")
        .with_hint("load the model again");
/// A model that gave nothing.
pub static NOTHING: Rule = Rule::new(
    "run/nothing",
    Kind::Malformed,
    "A model that is run gives its outputs at least once.",
);
/// The operating system failed.
pub static IO: Rule =
    Rule::new("run/io", Kind::Io, "The operating system does what running a model asks of it.");

/// The process cannot be started.
pub static START: Rule =
    Rule::new("runner/start", Kind::Io, "The program of a runner can be started.");
/// What answers is no runner.
pub static HANDSHAKE: Rule = Rule::new(
    "runner/handshake",
    Kind::Unsupported,
    "A runner answers the first frame with a version of the protocol that was offered.",
);
/// The process ended.
pub static DIED: Rule = Rule::new(
    "runner/died",
    Kind::Malformed,
    "The process of a runner lives until it is told to end.",
)
.with_hint("what the model printed before is on standard error");
/// It took too long.
pub static TIMEOUT: Rule = Rule::new(
    "runner/timeout",
    Kind::Malformed,
    "A runner answers within the time it is given; then its process group is killed.",
)
.with_hint("allow more with `--timeout SECONDS`");
/// Bytes that are no frame.
pub static FRAME: Rule = Rule::new(
    "runner/frame",
    Kind::Malformed,
    "What a runner sends are frames of a known kind whose header is a JSON object and whose values fit it.",
);
/// A frame that is too long.
pub static FRAME_LIMIT: Rule = Rule::new(
    "runner/frame-limit",
    Kind::Limit,
    "The header of a frame is at most 64 MiB long, its data at most 64 MiB.",
);
/// A frame that nobody asked for.
pub static ORDER: Rule =
    Rule::new("runner/order", Kind::Malformed, "A runner sends answers to the last request only.");
/// A file of shared memory is not as said.
pub static SHARED: Rule = Rule::new(
    "runner/shared",
    Kind::Malformed,
    "A tensor in shared memory is a file of exactly its length, in the folder made for it.",
);
/// The model raised an error.
pub static FAILED: Rule = Rule::new(
    "runner/failed",
    Kind::Malformed,
    "The code of a model runs to its end for inputs that fit its description.",
)
.with_hint("its traceback is on standard error");

/// The model cannot be loaded.
pub static LOAD: Rule = Rule::new(
    "python/load",
    Kind::Malformed,
    "The module and the function of a model run when they are loaded.",
)
.with_hint("its traceback is on standard error; packages that it needs are yours to install");
/// No entry point.
pub static ENTRY: Rule = Rule::new(
    "python/entry",
    Kind::Malformed,
    "The options `entrypoint_package` and `entrypoint_fn` name a module in `model` and a function of it.",
)
.with_hint(
    "in carton.toml: `[runner.opts]` with `entrypoint_package = \"main\"` and `entrypoint_fn = \
     \"load\"`, for a function `load` in `model/main.py`",
);
/// No NumPy.
pub static NUMPY: Rule =
    Rule::new("python/numpy", Kind::Unsupported, "The interpreter that runs a model has NumPy.")
        .with_hint("install numpy for it, or name another with `--python`");
/// What the function gave is no value.
pub static OUTPUT: Rule = Rule::new(
    "python/output",
    Kind::Malformed,
    "A model gives a dict of arrays by name, or an iterator of such dicts; elements are of a type that Cartons \
     have.",
);
/// No interpreter.
pub static INTERPRETER: Rule = Rule::new(
    "python/interpreter",
    Kind::Unsupported,
    "There is a Python interpreter: the one named, or `python3` on the path.",
)
.with_hint("name one with `--python` or the variable HOLDALL_PYTHON");

/// No graph in the folder.
pub static ONNX_FILE: Rule = Rule::new(
    "onnx/file",
    Kind::Malformed,
    "The graph of an ONNX model is `model.onnx`, or the only `.onnx` file in `model`.",
);
/// The graph cannot be read.
pub static ONNX_MODEL: Rule =
    Rule::new("onnx/model", Kind::Malformed, "The graph of an ONNX model is sound.");
/// An operator that the engine lacks.
pub static ONNX_OPERATOR: Rule = Rule::new(
    "onnx/operator",
    Kind::Unsupported,
    "The operators of a graph are ones that the engine has, with attributes and types that it takes.",
);
/// The graph has no such input or output.
pub static ONNX_NAME: Rule = Rule::new(
    "onnx/name",
    Kind::Malformed,
    "The inputs and outputs of a description are those of the graph, by name or internal name.",
)
.with_hint("set `internal_name` of the input or output to the graph's name");
/// A type that the engine does not take.
pub static ONNX_TYPE: Rule = Rule::new(
    "onnx/type",
    Kind::Unsupported,
    "Values of an ONNX model are numbers that the graph takes: no texts, no nested tensors, no sequences.",
);
/// A number that does not fit.
pub static ONNX_RANGE: Rule = Rule::new(
    "onnx/range",
    Kind::Unsupported,
    "Integers of an ONNX model fit the type that the engine computes in, 32 bits at most.",
);
/// The graph cannot be run.
pub static ONNX_RUN: Rule = Rule::new(
    "onnx/run",
    Kind::Malformed,
    "A graph runs to its end for inputs that fit its description.",
);
/// ONNX Runtime cannot be loaded.
pub static ONNX_LIBRARY: Rule = Rule::new(
    "onnx/library",
    Kind::Misuse,
    "The library of ONNX Runtime that is named can be loaded, is 1.17 or later, and the only one of a process.",
);
