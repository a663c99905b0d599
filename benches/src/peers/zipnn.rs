//! ZipNN, a Python package that compresses the bytes of floats. It has no files of tensors: each tensor is one of its buffers, after its
//! length.

use super::python::environment;
use crate::files::Workload;
use crate::packages::run_python;
use crate::timing::Outcome;
use crate::worker::Context;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// Returns a Python interpreter with the package, which needs PyTorch. The first call downloads both into `folder`.
///
/// # Errors
///
/// Returns an error if the packages cannot be installed.
pub fn python(folder: &Path) -> Result<PathBuf> {
    environment(folder, "zipnn-py", &["numpy==2.4.6", "zipnn==0.5.4"])
}

/// Writes the tensors of the safetensors file `source`.
pub fn write(source: &Path, target: &Path) -> Result<()> {
    let folder = source.parent().context("no folder")?;
    let program = format!("{PROGRAM}\ncompress(sys.argv[1], open(sys.argv[2], 'wb'))\nprint(0)");
    run_python(&python(folder)?, &program, &[source.as_os_str(), target.as_os_str()])?;
    Ok(())
}

/// Compresses the tensors of the safetensors file into memory, with one thread.
pub fn compress(c: &Context) -> Result<Outcome> {
    let program = format!("{PROGRAM}\nprint(compress(sys.argv[1], None))");
    run_python(&python(c.folder())?, &program, &[c.path(Workload::LlamaSafetensors).as_os_str()])
}

/// Decompresses all tensors into memory, with one thread.
pub fn load(c: &Context) -> Result<Outcome> {
    let program = format!("{PROGRAM}\nprint(load(sys.argv[1]))");
    run_python(&python(c.folder())?, &program, &[c.path(Workload::LlamaZipNn).as_os_str()])
}

const PROGRAM: &str = r#"
import json, os, sys, time
from zipnn import ZipNN
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
zipnn = ZipNN(bytearray_dtype="bfloat16", input_format="byte", threads=1)
def compress(source, out):
    with open(source, "rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(start - 8))
        taken = 0
        for name, of in header.items():
            if name == "__metadata__":
                continue
            begin, end = of["data_offsets"]
            file.seek(start + begin)
            before = time.perf_counter_ns()
            stored = zipnn.compress(file.read(end - begin))
            taken += time.perf_counter_ns() - before
            if out:
                out.write(len(stored).to_bytes(8, "little"))
                out.write(stored)
    return taken
def load(path):
    before, kept = time.perf_counter_ns(), []
    with open(path, "rb") as file:
        while size := file.read(8):
            kept.append(zipnn.decompress(file.read(int.from_bytes(size, "little"))))
    return time.perf_counter_ns() - before
"#;
