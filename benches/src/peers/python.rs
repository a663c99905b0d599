//! Python packages that read files of their own formats: environments that have them, and their programs. Each program
//! times itself.

use crate::files::Workload;
use crate::packages::run_python;
use crate::timing::Outcome;
use crate::worker::Context;
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A format, and the Python package that implements it.
#[derive(Debug)]
pub struct Package {
    /// The module that writes, lists and loads files.
    module: &'static str,
    /// Code that writes all of `tensors()` to `target`.
    write: &'static str,
    /// Code that lists the contents of `path`.
    list: &'static str,
    /// Code that loads all arrays of `path` into their own memory.
    load: &'static str,
}

const TORCH: Package = Package {
    module: "torch",
    write: "torch.save({n: torch.from_numpy(x.copy()) for n, x in tensors()}, target)",
    list: "[(n, t.dtype, tuple(t.shape)) for n, t in torch.load(path, weights_only=True, mmap=True).items()]",
    load: "torch.load(path, weights_only=True)",
};

const NPZ: Package = Package {
    module: "numpy",
    write: "numpy.savez(open(target, 'wb'), **dict(tensors()))",
    list: "headers(path)",
    load: "dict(numpy.load(path))",
};

const NPY: Package = Package {
    module: "numpy",
    write: "numpy.save(open(target, 'wb'), dict(tensors())['model.embed_tokens.weight'])",
    list: "[(x.dtype, x.shape) for x in [numpy.load(path, mmap_mode='r')]]",
    load: "numpy.load(path)",
};

const H5PY: Package = Package {
    module: "h5py",
    write: "file = h5py.File(target, 'w'); [file.create_dataset(n, data=x) for n, x in tensors()]; file.close()",
    list: "[(n, d.dtype, d.shape) for n, d in h5py.File(path).items()]",
    load: "{n: d[()] for n, d in h5py.File(path).items()}",
};

const ONNX: Package = Package {
    module: "onnx",
    write: "arrays = [onnx.numpy_helper.from_array(x, n) for n, x in tensors()]; \
            onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], 'g', [], [], arrays)), target)",
    list: "[(t.name, t.data_type, tuple(t.dims)) for t in onnx.load(path).graph.initializer]",
    load: "{t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}",
};

/// The requirements of all packages except PyTorch.
const WANTED: &[&str] = &["numpy==2.4.6", "h5py==3.16.0", "onnx==1.23.2"];

/// Returns the package of a workload file, or `None` if the file has none.
pub fn package(of: Workload) -> Option<&'static Package> {
    Some(match of {
        Workload::LlamaTorch => &TORCH,
        Workload::LlamaNpz => &NPZ,
        Workload::EmbeddingNpy => &NPY,
        Workload::LlamaHdf5 => &H5PY,
        Workload::LlamaOnnx => &ONNX,
        _ => return None,
    })
}

/// Opens the file and lists names, types and shapes.
pub fn list(c: &Context, file: Workload) -> Result<Outcome> {
    timed(c, file, |package| package.list, 5)
}

/// Reads every tensor into an array with its own memory.
pub fn load(c: &Context, file: Workload) -> Result<Outcome> {
    timed(c, file, |package| package.load, 1)
}

fn timed(c: &Context, file: Workload, work: fn(&Package) -> &str, times: usize) -> Result<Outcome> {
    let package = package(file).context("no package")?;
    let (module, work) = (package.module, work(package));
    // Repeated listings are preceded by an unmeasured one.
    let program = format!(
        "import sys, time, {module}\n{HEADERS}\npath, times, taken = sys.argv[1], {times}, []\n\
         if times > 1:\n    {work}\n\
         for _ in range(times):\n    start = time.perf_counter_ns()\n    kept = {work}\n    \
         taken.append(time.perf_counter_ns() - start)\n    del kept\n\
         print(sorted(taken)[times // 2])"
    );
    run_python(&package.python(c.folder())?, &program, &[c.path(file).as_os_str()])
}

impl Package {
    /// Returns a Python interpreter with the package. The first call downloads it into `folder`.
    ///
    /// # Errors
    ///
    /// Returns the reason if there is none.
    pub fn python(&self, folder: &Path) -> Result<PathBuf> {
        if self.module != "torch" {
            return environment(folder, "formats-py", WANTED);
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let python = root.join("target/ecosystem/venv/bin/python");
        let found = Command::new(&python).args(["-c", "import torch"]).output();
        let has_it = found.is_ok_and(|out| out.status.success());
        ensure!(has_it, "torch is missing: install it with `cargo xtask ecosystem`");
        Ok(python)
    }

    /// Writes the tensors of the safetensors file `source` as float16, which all formats support.
    pub fn write(&self, source: &Path, target: &Path) -> Result<()> {
        let folder = source.parent().context("no folder")?;
        let program = format!("import {}\n{TENSORS}\n{}\nprint(0)", self.module, self.write);
        let arguments = [source.as_os_str(), target.as_os_str()];
        run_python(&self.python(folder)?, &program, &arguments)?;
        Ok(())
    }
}

/// Returns a Python interpreter with these packages, in an environment in `folder`. The first call downloads them.
///
/// # Errors
///
/// Returns an error if the packages cannot be installed.
pub fn environment(folder: &Path, name: &str, wanted: &[&str]) -> Result<PathBuf> {
    let folder = folder.join(name);
    let python = folder.join("bin/python");
    if !folder.join("done").exists() {
        let run = |command: &mut Command| -> Result<()> {
            let out = command.output()?;
            ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            Ok(())
        };
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let install = ["-m", "pip", "install", "--quiet"];
        run(Command::new(&python).args(install).args(wanted))
            .with_context(|| format!("installing {}", wanted.join(", ")))?;
        std::fs::write(folder.join("done"), "")?;
    }
    Ok(python)
}

const TENSORS: &str = r#"
import json, sys
import numpy
source, target = sys.argv[1:]
def tensors():
    with open(source, "rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(start - 8))
    data = numpy.memmap(source, "<f2", "r", start)
    for name, of in header.items():
        if name != "__metadata__":
            begin, end = of["data_offsets"]
            yield name, data[begin // 2 : end // 2].reshape(of["shape"])
"#;

/// Names, types and shapes of an `.npz` file. NumPy itself lists only the names.
const HEADERS: &str = r#"
def headers(path):
    import zipfile
    found = []
    with zipfile.ZipFile(path) as file:
        for name in file.namelist():
            with file.open(name) as entry:
                numpy.lib.format.read_magic(entry)
                shape, _, dtype = numpy.lib.format.read_array_header_1_0(entry)
                found.append((name, dtype, shape))
    return found
"#;
