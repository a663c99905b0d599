//! The verdicts on imports of pickles. Only names in a short list are considered safe. The verdict on other names
//! depends on a list of dangerous ones, which affects only the report.

mod science;

use std::fmt;

/// The effect of unpickling on a program, from harmless to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Danger {
    /// No pickle was found.
    NoPickles,
    /// All imports are in the list of names that create tensors and plain values.
    Safe,
    /// The effect cannot be determined.
    Unknown,
    /// An import is in no list: importing it runs a module, and calling it runs unknown code.
    Suspicious,
    /// An import can run code or programs, or open files or connections.
    Dangerous,
}

impl Danger {
    /// Returns the name: `no pickles`, `safe`, `unknown`, `suspicious` or `dangerous`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Danger::NoPickles => "no pickles",
            Danger::Safe => "safe",
            Danger::Unknown => "unknown",
            Danger::Suspicious => "suspicious",
            Danger::Dangerous => "dangerous",
        }
    }
}

impl fmt::Display for Danger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Returns the verdict on `name` in `module`.
pub fn danger_of(module: &str, name: &str) -> Danger {
    if module == "?" || name == "?" {
        return Danger::Unknown;
    }
    let name_of_call = name.strip_suffix("(…)");
    if name_of_call.is_none() && is_safe(module, name) {
        return Danger::Safe;
    }
    let name = name_of_call.unwrap_or(name);
    let mut parts = module.split('.').chain(name.split('.'));
    let is_module = DANGEROUS_MODULES.iter().any(|known| {
        module.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    match is_module || parts.any(|part| DANGEROUS_PARTS.contains(&part)) {
        true => Danger::Dangerous,
        false => Danger::Suspicious,
    }
}

/// Returns `true` if Python could import a module of this name: an import starts with the part before the first dot,
/// which consists of letters, digits, `_` and `-`. Most texts that happen to begin like a pickle have other characters
/// there.
///
/// Two kinds of names are excluded, although there could be files with such names: names with `-` and then `/`, with
/// which lists of files begin (`click-8.1.dist-info/RECORD`); and `NumpyArrayWrapper`, joblib's class, which is in the
/// position of a module when `pickle.load` reads an array of objects of joblib.
pub(super) fn may_be_module(module: &str) -> bool {
    let (first, rest) = module.split_once('.').unwrap_or((module, ""));
    let is_listed_file = first.contains('-') && rest.contains('/');
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    !first.is_empty() && first.chars().all(is_name) && !is_listed_file && module != WRAPPER
}

/// The class that describes an array in a joblib pickle.
const WRAPPER: &str = "NumpyArrayWrapper";

/// The allowed use of a safe name. Any other use is not safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Safe to call with any arguments.
    Call,
    /// Safe to call without arguments, as unpickling does before it sets the state. Arguments are unsafe, because
    /// they may be an object with the attribute `__array_interface__`, which has the address of an array: items added
    /// to the result would be written to this address.
    CallWithNothing,
    /// A type or function to which others refer, and which must not be called: types of tensors and storages accept
    /// addresses (`cdata`, `allocator`), types of numbers accept `__array_interface__`.
    Refer,
}

/// Returns the allowed [`Use`] of `name` in `module`, for a safe name.
pub(super) fn use_of(module: &str, name: &str) -> Use {
    match module {
        "torch" if matches!(name, "Size" | "device") => Use::Call,
        "torch" | "torch.cuda" | "torch.storage" | "torch.sparse" | "torch.cuda.sparse" => {
            Use::Refer
        }
        "numpy" if name != "dtype" => Use::Refer,
        "ml_dtypes" | "numpy.matrixlib.defmatrix" => Use::Refer,
        _ => science::use_of(module, name),
    }
}

/// The requirement on the arguments of a safe name for its call to be safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arguments {
    Any,
    /// The first argument is called with the second, or with its items: it must be a name that may be called with any
    /// arguments.
    FirstIsCalled,
    /// The first argument is a class that is called with the others: it must be from this package.
    FirstIsOf(&'static str),
    /// The first argument is a class, and the second creates objects of it: it must be a name that may be called with
    /// any arguments.
    SecondIsCalled,
}

/// Returns the requirement on the arguments of `name` in `module`.
pub(super) fn arguments_of(module: &str, name: &str) -> Arguments {
    match (module, name) {
        ("torch._tensor", _) | ("jax._src.array", _) => Arguments::FirstIsCalled,
        ("copyreg" | "copy_reg", _) => Arguments::SecondIsCalled,
        (_, "newObj") => Arguments::FirstIsOf("sklearn"),
        (_, "__pyx_unpickle_NDArrayBacked") => Arguments::FirstIsOf("pandas"),
        (module, name) if module.starts_with("pandas.") && name.starts_with("_new_") => {
            Arguments::FirstIsOf("pandas")
        }
        _ => Arguments::Any,
    }
}

/// Returns `true` if a call of `name` in `module` never returns a string, so that the result cannot be used as a name.
pub(super) fn gives_no_text(module: &str, name: &str) -> bool {
    match module {
        "collections" => true,
        "numpy" => name == "dtype",
        "numpy.core.multiarray" | "numpy._core.multiarray" => name == "_reconstruct",
        "numpy.core.numeric" | "numpy._core.numeric" => name == "_frombuffer",
        "joblib.numpy_pickle" => name == "NumpyArrayWrapper",
        _ => science::is_class(module, name),
    }
}

/// Returns `true` if a call of `name` in `module` may return one of its arguments, or an object that is shared in the
/// process: setting attributes of the result may change an object that other code uses.
pub(super) fn shares(module: &str, name: &str) -> bool {
    match module {
        "torch.jit._pickle" | "torch._tensor" | "jax._src.array" => true,
        "numpy.core.multiarray" | "numpy._core.multiarray" => name == "scalar",
        "uuid" => name == "SafeUUID",
        "torch.distributed.checkpoint.metadata" => name == "_MEM_FORMAT_ENCODING",
        "torch.serialization" => name == "_get_layout",
        _ => false,
    }
}

fn is_safe(module: &str, name: &str) -> bool {
    let is_listed =
        SAFE.iter().any(|(modules, names)| modules.contains(&module) && names.contains(&name));
    is_listed || is_of_torch(module, name) || science::is_safe(module, name)
}

/// Returns `true` for dtypes, quantization schemes, storages and legacy tensors.
fn is_of_torch(module: &str, name: &str) -> bool {
    let is_element = |name: Option<&str>| name.is_some_and(|name| ELEMENTS.contains(&name));
    match module {
        "torch" if crate::pytorch::is_dtype(name) => true,
        "torch" => {
            const SCHEMES: [&str; 5] = [
                "per_tensor_affine",
                "per_tensor_symmetric",
                "per_channel_affine",
                "per_channel_symmetric",
                "per_channel_affine_float_qparams",
            ];
            SCHEMES.contains(&name)
                || is_element(name.strip_suffix("Storage"))
                || is_element(name.strip_suffix("Tensor"))
        }
        "torch.cuda" | "torch.storage" => {
            is_element(name.strip_suffix("Storage")) || is_element(name.strip_suffix("Tensor"))
        }
        "torch.sparse" | "torch.cuda.sparse" => is_element(name.strip_suffix("Tensor")),
        _ => false,
    }
}

/// The names of elements in the names of storages and tensors.
const ELEMENTS: [&str; 19] = [
    "Double",
    "Float",
    "Half",
    "Long",
    "Int",
    "Short",
    "Char",
    "Byte",
    "Bool",
    "BFloat16",
    "ComplexDouble",
    "ComplexFloat",
    "QInt8",
    "QInt32",
    "QUInt8",
    "QUInt4x2",
    "QUInt2x4",
    "Typed",
    "Untyped",
];

/// Modules, and names in them, that only create values from their arguments.
const SAFE: &[(&[&str], &[&str])] = &[
    (&["collections"], &["OrderedDict", "Counter", "defaultdict", "deque"]),
    (
        &["builtins", "__builtin__"],
        &[
            "bool",
            "bytearray",
            "bytes",
            "complex",
            "dict",
            "float",
            "frozenset",
            "int",
            "list",
            "long",
            "object",
            "range",
            "set",
            "slice",
            "str",
            "tuple",
            "unicode",
            "xrange",
        ],
    ),
    (&["_codecs"], &["encode"]),
    (&["joblib.numpy_pickle", "sklearn.externals.joblib.numpy_pickle"], &["NumpyArrayWrapper"]),
    (&["copyreg", "copy_reg"], &["_reconstructor"]),
    (&["argparse"], &["Namespace"]),
    (&["datetime"], &["date", "datetime", "time", "timedelta", "timezone"]),
    (&["decimal"], &["Decimal"]),
    (&["fractions"], &["Fraction"]),
    (&["uuid"], &["UUID", "SafeUUID"]),
    (
        &["pathlib", "pathlib._local"],
        &["Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath"],
    ),
    (&["torch"], &["Size", "Tensor", "device"]),
    (&["torch.nn.parameter"], &["Parameter", "Buffer"]),
    (&["torch.serialization"], &["_get_layout"]),
    (
        &["torch.jit._pickle"],
        &[
            "build_boollist",
            "build_doublelist",
            "build_intlist",
            "build_tensorlist",
            "restore_type_tag",
        ],
    ),
    (&["torch._tensor"], &["_rebuild_from_type_v2"]),
    (
        &["torch._utils"],
        &[
            "_rebuild_device_tensor_from_cpu_tensor",
            "_rebuild_device_tensor_from_numpy",
            "_rebuild_meta_tensor_no_storage",
            "_rebuild_parameter",
            "_rebuild_parameter_with_state",
            "_rebuild_qtensor",
            "_rebuild_sparse_tensor",
            "_rebuild_tensor",
            "_rebuild_tensor_v2",
            "_rebuild_tensor_v3",
            "_rebuild_wrapper_subclass",
        ],
    ),
    (
        &["torch.distributed.checkpoint.metadata"],
        &[
            "BytesStorageMetadata",
            "ChunkStorageMetadata",
            "Metadata",
            "MetadataIndex",
            "StorageMeta",
            "TensorProperties",
            "TensorStorageMetadata",
            "_MEM_FORMAT_ENCODING",
        ],
    ),
    (&["torch.distributed.checkpoint.filesystem"], &["_StorageInfo"]),
    (&["numpy.core.multiarray", "numpy._core.multiarray"], &["_reconstruct", "scalar"]),
    (&["numpy.core.numeric", "numpy._core.numeric"], &["_frombuffer"]),
    (&["numpy.matrixlib.defmatrix"], &["matrix"]),
    (&["jax._src.array"], &["_reconstruct_array"]),
    (
        &["ml_dtypes"],
        &[
            "bfloat16",
            "float8_e4m3fn",
            "float8_e4m3fnuz",
            "float8_e5m2",
            "float8_e5m2fnuz",
            "float8_e8m0fnu",
        ],
    ),
    (
        &["numpy"],
        &[
            "bool_",
            "bytes_",
            "complex128",
            "complex64",
            "datetime64",
            "dtype",
            "float16",
            "float32",
            "float64",
            "int16",
            "int32",
            "int64",
            "int8",
            "longdouble",
            "matrix",
            "mean",
            "ndarray",
            "str_",
            "timedelta64",
            "uint16",
            "uint32",
            "uint64",
            "uint8",
            "void",
        ],
    ),
];

/// Modules that run code or programs, open files or connections, or inspect the interpreter.
const DANGEROUS_MODULES: &[&str] = &[
    "__builtin__",
    "__main__",
    "_ctypes",
    "_io",
    "_operator",
    "_pickle",
    "_posixsubprocess",
    "_socket",
    "_thread",
    "_winapi",
    "aiohttp",
    "antigravity",
    "asyncio",
    "bdb",
    "builtins",
    "cPickle",
    "cProfile",
    "cffi",
    "cloudpickle",
    "code",
    "codeop",
    "commands",
    "concurrent",
    "ctypes",
    "dbm",
    "dill",
    "distutils",
    "doctest",
    "ensurepip",
    "fcntl",
    "fileinput",
    "ftplib",
    "functools",
    "gc",
    "glob",
    "http",
    "httplib",
    "idlelib",
    "imaplib",
    "imp",
    "importlib",
    "inspect",
    "io",
    "jsonpickle",
    "lib2to3",
    "linecache",
    "logging.config",
    "mailcap",
    "marshal",
    "mmap",
    "msvcrt",
    "multiprocessing",
    "nt",
    "ntpath",
    "numpy.ctypeslib",
    "numpy.distutils",
    "numpy.f2py",
    "numpy.testing",
    "nntplib",
    "operator",
    "os",
    "paramiko",
    "pdb",
    "pickle",
    "pickletools",
    "pip",
    "pkgutil",
    "platform",
    "poplib",
    "popen2",
    "posix",
    "profile",
    "pty",
    "pydoc",
    "pyexpat",
    "requests",
    "resource",
    "runpy",
    "setuptools",
    "shelve",
    "shutil",
    "signal",
    "site",
    "smtplib",
    "socket",
    "socketserver",
    "sqlite3",
    "ssl",
    "subprocess",
    "sys",
    "sysconfig",
    "tarfile",
    "telnetlib",
    "tempfile",
    "test",
    "threading",
    "timeit",
    "tkinter",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.rpc",
    "torch.hub",
    "torch.multiprocessing",
    "torch.utils._config_module",
    "torch.utils.bottleneck",
    "torch.utils.collect_env",
    "torch.utils.cpp_extension",
    "torch.utils.data.datapipes",
    "trace",
    "types",
    "unittest",
    "urllib",
    "urllib2",
    "venv",
    "webbrowser",
    "winreg",
    "xmlrpc",
    "zipapp",
    "zipfile",
    "zipimport",
];

/// Parts of names with such effects, in any module.
const DANGEROUS_PARTS: &[&str] = &[
    "Popen",
    "__base__",
    "__bases__",
    "__builtin__",
    "__builtins__",
    "__class__",
    "__code__",
    "__dict__",
    "__getattribute__",
    "__globals__",
    "__import__",
    "__init_subclass__",
    "__mro__",
    "__reduce__",
    "__reduce_ex__",
    "__setstate__",
    "__subclasses__",
    "_load_from_bytes",
    "apply",
    "attrgetter",
    "breakpoint",
    "builtins",
    "check_call",
    "check_output",
    "chmod",
    "compile",
    "ctypes",
    "delattr",
    "eval",
    "evaluate_guards_expression",
    "exec",
    "exec_module",
    "execfile",
    "execv",
    "execve",
    "fork",
    "getattr",
    "getoutput",
    "getstatusoutput",
    "globals",
    "import_module",
    "importlib",
    "input",
    "load",
    "load_extension",
    "load_module",
    "loads",
    "locals",
    "marshal",
    "methodcaller",
    "modules",
    "nt",
    "open",
    "os",
    "pickle",
    "popen",
    "posix",
    "read_pickle",
    "remove",
    "rmtree",
    "run",
    "run_code",
    "run_module",
    "run_path",
    "runcode",
    "runctx",
    "runsource",
    "runstring",
    "setattr",
    "shutil",
    "socket",
    "spawn",
    "startfile",
    "subprocess",
    "sys",
    "system",
    "unlink",
    "urlopen",
    "vars",
];
