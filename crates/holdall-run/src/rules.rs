//! Rules about loading and running models. `docs/spec/runner.md` mentions each of them.

use holdall::Error;
use std::fmt::Display;

holdall::error::rules! {
    /// The rules about loading and running models.
    pub static RULES;

    /// An unknown runner.
    pub NO_RUNNER: Unsupported "run/no-runner"
        "The runner that a package names is available.";
    /// A framework of the wrong version.
    pub VERSION: Unsupported "run/framework-version"
        "The runner's framework has a version that the package accepts.";
    /// An invalid version requirement.
    pub REQUIREMENT: Malformed "run/requirement"
        "The framework version that a package requires is written like a version requirement of Cargo.";
    /// A platform that the package does not list.
    pub PLATFORM: Unsupported "run/platform"
        "A package that lists platforms is run on one of them.";
    /// A version of the folder `model` that the runner does not know.
    pub COMPAT: Unsupported "run/compat-version"
        "The folder `model` has a version that the runner knows.";
    /// An option of the wrong type.
    pub OPTION: Misuse "run/option" "An option of a runner has the type that the runner expects.";
    /// An invalid environment variable.
    pub ENVIRONMENT: Misuse "run/environment"
        "A variable that is passed to a model has a name without `=`, and a value: the one given, or the one in the caller's environment.";
    /// A self-test with a tensor that is not in the package.
    pub TENSOR: Malformed "run/no-tensor" "A tensor that a self-test names is in the package.";
    /// A model whose runner has ended.
    pub CLOSED: Misuse "run/closed"
        "A model runs only while its runner is alive."
        hint "load the model again";
    /// A model that returned no outputs.
    pub NOTHING: Malformed "run/nothing" "A model that is run returns its outputs at least once.";
    /// An error of the operating system.
    pub IO: Io "run/io" "The operating system carries out the operations that running a model needs.";

    /// A process that cannot be started.
    pub START: Io "runner/start" "The program of a runner can be started.";
    /// A program that is not a runner.
    pub HANDSHAKE: Unsupported "runner/handshake"
        "A runner answers the first frame with one of the offered protocol versions.";
    /// A process that ended unexpectedly.
    pub DIED: Malformed "runner/died"
        "The process of a runner keeps running until it is requested to end."
        hint "see what the model printed before";
    /// A runner that took too long.
    pub TIMEOUT: Malformed "runner/timeout"
        "A runner answers within the time limit; otherwise its process group is killed."
        remedies [RaiseTimeout];
    /// Bytes that are not a frame.
    pub FRAME: Malformed "runner/frame"
        "A runner sends frames of a known kind, whose header is a JSON object and whose values fit it.";
    /// A frame that is too long.
    pub FRAME_LIMIT: Limit "runner/frame-limit"
        "The header of a frame, and its data, have at most 64 MiB each.";
    /// An unexpected frame.
    pub ORDER: Malformed "runner/order" "A runner answers only the last request.";
    /// A file in shared memory of the wrong length.
    pub SHARED: Malformed "runner/shared"
        "A tensor in shared memory is a file of exactly its length, in the folder made for it.";
    /// An error that the model's code raised.
    pub FAILED: Malformed "runner/failed"
        "The code of a model runs to completion for inputs that fit its description."
        hint "see the traceback that the model printed";
    /// A model that an external runner cannot load.
    pub REMOTE_LOAD: Malformed "runner/load"
        "A runner loads the model that it was started for."
        hint "see what the runner printed";
    /// A framework that is not installed.
    pub FRAMEWORK: Unsupported "runner/framework"
        "The framework that a runner uses is installed where the runner starts."
        hint "install it, or start the runner with an interpreter that has it";
    /// An invalid configuration file.
    pub CONFIG: Misuse "run/config"
        "A configuration file is TOML; each table `[runners.NAME]` has a `command`: a list of strings, the first of which is a program.";

    /// A model whose code cannot be loaded.
    pub LOAD: Malformed "python/load"
        "The module and the function of a model run without an error when the model is loaded."
        hint "see the traceback that the model printed; install the packages that the model needs";
    /// A missing entry point.
    pub ENTRY: Malformed "python/entry"
        "The options `entrypoint_package` and `entrypoint_fn` name a module in `model` and a \
         function of it; without them these are `main` and `load`."
        hint "write a function `load` in `model/main.py`, or name another in carton.toml: `[runner.opts]` with \
              `entrypoint_package = \"main\"` and `entrypoint_fn = \"load\"`";
    /// NumPy is not installed.
    pub NUMPY: Unsupported "python/numpy"
        "The interpreter that runs a model has NumPy."
        hint "install numpy for it"
        remedies [NamePython];
    /// A return value that is not a dict of arrays.
    pub OUTPUT: Malformed "python/output"
        "A model returns a dict of arrays by name, or an iterator of such dicts, with elements of a type that Cartons have.";
    /// A missing interpreter.
    pub INTERPRETER: Unsupported "python/interpreter"
        "There is a Python interpreter: the one that is named, or `python3` in `PATH`."
        remedies [NamePython];

    /// A missing graph.
    pub ONNX_FILE: Malformed "onnx/file"
        "The graph of an ONNX model is `model.onnx`, or the only `.onnx` file in `model`.";
    /// An invalid graph.
    pub ONNX_MODEL: Malformed "onnx/model" "The graph of an ONNX model is valid.";
    /// An operator that the engine does not support.
    pub ONNX_OPERATOR: Unsupported "onnx/operator"
        "The engine has every operator of the graph, and supports its attributes and types.";
    /// An input or output that the graph does not have.
    pub ONNX_NAME: Malformed "onnx/name"
        "The inputs and outputs of a description are those of the graph, by name or internal name."
        hint "set `internal_name` of the input or output to the graph's name";
    /// A graph with 64-bit floats, for an engine of 32 bits.
    pub ONNX_WIDTH: Unsupported "onnx/width"
        "A graph that the built-in engine runs has no 64-bit floats: it computes in 32 bits."
        hint "export the model with 32-bit floats, or run it with ONNX Runtime";
    /// A type that the engine does not support.
    pub ONNX_TYPE: Unsupported "onnx/type"
        "Values of an ONNX model are numbers that the graph accepts, not strings, nested tensors or sequences.";
    /// An integer that does not fit in 32 bits.
    pub ONNX_RANGE: Unsupported "onnx/range"
        "Integers of an ONNX model fit the type that the engine computes in, at most 32 bits.";
    /// A graph that cannot be run.
    pub ONNX_RUN: Malformed "onnx/run"
        "A graph runs to completion for inputs that fit its description.";
    /// A library of ONNX Runtime that cannot be loaded.
    pub ONNX_LIBRARY: Misuse "onnx/library"
        "The ONNX Runtime library that is named can be loaded, is version 1.17 or later, and is the only one in the process.";
}

/// Returns an error of the operating system that happened while doing `what`.
#[cold]
pub(crate) fn io(e: std::io::Error, what: impl Display) -> Error {
    IO.broken(what.to_string()).because(e)
}
