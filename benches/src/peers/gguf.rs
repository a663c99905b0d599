//! The Python package `gguf` 0.19, installed in a separate environment next to the files. The program times itself.

use crate::files::Workload;
use crate::packages::run_python;
use crate::peers::python::environment;
use crate::timing::Outcome;
use crate::worker::Context;
use anyhow::Result;
use std::path::PathBuf;

/// Returns a Python interpreter with the package. The first call downloads it.
fn interpreter(c: &Context) -> Result<PathBuf> {
    environment(c.folder(), "gguf-py", &["gguf==0.19.0", "numpy==2.4.6"])
}

/// Opens the file and lists names, types and shapes.
pub fn list(c: &Context, file: Workload) -> Result<Outcome> {
    run_python(&interpreter(c)?, LIST, &[c.path(file).as_os_str()])
}

/// Dequantizes the named tensor, whose bytes are already in memory.
pub fn dequantise(c: &Context, file: Workload, name: &str) -> Result<Outcome> {
    run_python(&interpreter(c)?, DEQUANTISE, &[c.path(file).as_os_str(), name.as_ref()])
}

/// Copies every tensor into an array with its own memory.
pub fn load(c: &Context, file: Workload) -> Result<Outcome> {
    run_python(&interpreter(c)?, LOAD, &[c.path(file).as_os_str()])
}

const LIST: &str = r#"
import sys, time
from gguf import GGUFReader
def work():
    return [(t.name, t.tensor_type, tuple(t.shape)) for t in GGUFReader(sys.argv[1]).tensors]
work()
times = []
for _ in range(5):
    start = time.perf_counter_ns()
    work()
    times.append(time.perf_counter_ns() - start)
print(sorted(times)[2])
"#;

const DEQUANTISE: &str = r#"
import sys, time
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
(t,) = [t for t in GGUFReader(sys.argv[1]).tensors if t.name == sys.argv[2]]
data = np.array(t.data)
dequantize(data[:64], t.tensor_type)
start = time.perf_counter_ns()
kept = dequantize(data, t.tensor_type)
print(time.perf_counter_ns() - start)
"#;

const LOAD: &str = r#"
import sys, time
import numpy as np
from gguf import GGUFReader
start = time.perf_counter_ns()
kept = {t.name: np.array(t.data) for t in GGUFReader(sys.argv[1]).tensors}
print(time.perf_counter_ns() - start)
"#;
