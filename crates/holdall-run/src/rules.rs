//! What can go wrong when a model is loaded or run. `docs/spec/runner.md` speaks of every one.

use holdall::Error;
use std::fmt::Display;

holdall::error::rules! {
    /// The rules of models that are loaded and run.
    pub static RULES;

    /// A runner that there is not.
    pub NO_RUNNER: Unsupported "run/no-runner"
        "The runner that a package names is available.";
    /// The runner's version is not the one required.
    pub VERSION: Unsupported "run/framework-version"
        "The runner's framework has a version that the package accepts.";
    /// A requirement that cannot be read.
    pub REQUIREMENT: Malformed "run/requirement"
        "The framework version that a package requires is written as Cargo writes requirements.";
    /// Another platform.
    pub PLATFORM: Unsupported "run/platform"
        "A package that lists platforms is run on one of them.";
    /// The folder `model` is in a form that the runner does not know.
    pub COMPAT: Unsupported "run/compat-version"
        "The folder `model` has a version that the runner knows.";
    /// An option of the wrong type.
    pub OPTION: Misuse "run/option" "An option of a runner has the type that the runner expects.";
    /// A variable that there is not.
    pub ENVIRONMENT: Misuse "run/environment"
        "A variable that is passed to a model has a name without `=`, and a value: the one given, or the one in the caller's environment.";
    /// A self-test names a tensor that is not there.
    pub TENSOR: Malformed "run/no-tensor" "A tensor that a self-test names is in the package.";
    /// The model broke earlier.
    pub CLOSED: Misuse "run/closed"
        "A model runs only while its runner is alive."
        hint "load the model again";
    /// A model that gave nothing.
    pub NOTHING: Malformed "run/nothing" "A model that is run returns its outputs at least once.";
    /// The operating system failed.
    pub IO: Io "run/io" "The operating system does what is needed to run a model.";

    /// The process cannot be started.
    pub START: Io "runner/start" "The program of a runner can be started.";
    /// What answers is not a runner.
    pub HANDSHAKE: Unsupported "runner/handshake"
        "A runner answers the first frame with one of the protocol versions that it was offered.";
    /// The process ended.
    pub DIED: Malformed "runner/died"
        "The process of a runner lives until it is told to end."
        hint "see what the model printed before";
    /// It took too long.
    pub TIMEOUT: Malformed "runner/timeout"
        "A runner answers within the time that it is given; otherwise its process group is killed."
        remedies [RaiseTimeout];
    /// Bytes that are not a frame.
    pub FRAME: Malformed "runner/frame"
        "A runner sends frames of a known kind, whose header is a JSON object and whose values fit it.";
    /// A frame that is too long.
    pub FRAME_LIMIT: Limit "runner/frame-limit"
        "The header of a frame, and its data, have at most 64 MiB each.";
    /// A frame that nobody asked for.
    pub ORDER: Malformed "runner/order" "A runner answers only the last request.";
    /// A file of shared memory is not as said.
    pub SHARED: Malformed "runner/shared"
        "A tensor in shared memory is a file of exactly its length, in the folder made for it.";
    /// The model raised an error.
    pub FAILED: Malformed "runner/failed"
        "The code of a model runs to completion for inputs that fit its description."
        hint "see the traceback that the model printed";
    /// The model cannot be loaded by a runner of others.
    pub REMOTE_LOAD: Malformed "runner/load"
        "A runner loads the model that it was started for."
        hint "see what the runner printed";
    /// What a runner needs is not there.
    pub FRAMEWORK: Unsupported "runner/framework"
        "The framework that a runner uses is installed where the runner starts."
        hint "install it, or start the runner by the interpreter that has it";
    /// A file of settings that says something else than it can.
    pub CONFIG: Misuse "run/config"
        "A configuration file is TOML; each table `[runners.NAME]` has a `command`: a list of strings, the first of which is a program.";

    /// The model cannot be loaded.
    pub LOAD: Malformed "python/load"
        "The module and the function of a model run without an error when the model is loaded."
        hint "see the traceback that the model printed; install the packages that the model needs";
    /// No entry point.
    pub ENTRY: Malformed "python/entry"
        "The options `entrypoint_package` and `entrypoint_fn` name a module in `model` and a \
         function of it; without them these are `main` and `load`."
        hint "write a function `load` in `model/main.py`, or name another in carton.toml: `[runner.opts]` with \
              `entrypoint_package = \"main\"` and `entrypoint_fn = \"load\"`";
    /// No NumPy.
    pub NUMPY: Unsupported "python/numpy"
        "The interpreter that runs a model has NumPy."
        hint "install numpy for it"
        remedies [NamePython];
    /// What the function gave is not a value.
    pub OUTPUT: Malformed "python/output"
        "A model returns a dict of arrays by name, or an iterator of such dicts, with elements of a type that Cartons have.";
    /// No interpreter.
    pub INTERPRETER: Unsupported "python/interpreter"
        "There is a Python interpreter: the one named, or `python3` on the path."
        remedies [NamePython];

    /// No graph in the folder.
    pub ONNX_FILE: Malformed "onnx/file"
        "The graph of an ONNX model is `model.onnx`, or the only `.onnx` file in `model`.";
    /// The graph cannot be read.
    pub ONNX_MODEL: Malformed "onnx/model" "The graph of an ONNX model is sound.";
    /// An operator that the engine lacks.
    pub ONNX_OPERATOR: Unsupported "onnx/operator"
        "The engine has every operator of the graph, and supports its attributes and types.";
    /// The graph has no such input or output.
    pub ONNX_NAME: Malformed "onnx/name"
        "The inputs and outputs of a description are those of the graph, by name or internal name."
        hint "set `internal_name` of the input or output to the graph's name";
    /// A graph that computes in more bits than the engine.
    pub ONNX_WIDTH: Unsupported "onnx/width"
        "A graph that the built-in engine runs has no 64-bit floats: it computes in 32 bits."
        hint "export the model with 32-bit floats, or run it by ONNX Runtime";
    /// A type that the engine does not take.
    pub ONNX_TYPE: Unsupported "onnx/type"
        "Values of an ONNX model are numbers that the graph accepts, not strings, nested tensors or sequences.";
    /// A number that does not fit.
    pub ONNX_RANGE: Unsupported "onnx/range"
        "Integers of an ONNX model fit the type that the engine computes in, at most 32 bits.";
    /// The graph cannot be run.
    pub ONNX_RUN: Malformed "onnx/run"
        "A graph runs to completion for inputs that fit its description.";
    /// ONNX Runtime cannot be loaded.
    pub ONNX_LIBRARY: Misuse "onnx/library"
        "The ONNX Runtime library that is named can be loaded, is version 1.17 or later, and is the only one in the process.";
}

/// An operating system error that happened while doing `what`.
#[cold]
pub(crate) fn io(e: std::io::Error, what: impl Display) -> Error {
    IO.broken(what.to_string()).because(e)
}
