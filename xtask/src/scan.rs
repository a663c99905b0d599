//! The scan for pickles against CPython: whatever an unpickler would import, the scan lists, or it says that it did not follow everything.

use crate::command::{Outcome, below, program, root, target};
use crate::interop::skipped;
use crate::python::{pip, with_packages};
use std::path::PathBuf;

/// What writes and reads the containers that Python itself does not know, and what writes benign files.
const PACKAGES: [&str; 6] =
    ["zstandard==0.25.0", "numpy>=2", "pandas>=2", "scikit-learn>=1.5", "joblib>=1.4", "lz4>=4"];
/// torch, without what it needs for accelerators.
const TORCH: [&str; 3] = ["--index-url", "https://download.pytorch.org/whl/cpu", "torch"];
/// Other scanners, which are in no way used but to be compared.
const OTHERS: [&str; 4] =
    ["picklescan==1.0.5", "modelscan==0.8.8", "fickling==0.1.12", "typing_extensions>=4"];
/// What pickles functions by value, and what keeps them in files of its own.
const BY_VALUE: [&str; 6] =
    ["cloudpickle>=3", "dill>=0.4", "keras>=3", "jax", "joblib>=1.4", "numpy>=2"];
/// Files that `cargo xtask test` compares, always the same ones.
const SOME: &str = "10000";
/// Files of the whole task.
const ALL: &str = "1000000";

/// `cargo xtask scan-differential`: a million files, or as many as `--count` says; then files that are known to be benign, and a
/// table of what other scanners say about both.
pub(crate) fn whole(args: &[String]) -> Outcome {
    let scanner = scanner()?;
    let folder = target().join("scan");
    let python = with_packages(&folder, &PACKAGES)?;
    let torch = program(&python).args(["-c", "import torch"]);
    if !torch.succeeds() && pip(&python).args(TORCH).run().is_err() {
        skipped("files of torch, for it cannot be had here");
    }
    let script = |name: &str| {
        program(&python).args([root().join("interop/scan").join(name)]).args([&scanner])
    };
    script("differential.py").args(["--count", ALL]).args(args).run()?;
    program(&python).args([root().join("interop/scan/audit.py")]).run()?;
    // An environment of its own, which nothing else is compared in.
    let by_value = with_packages(&target().join("scan-functions"), &BY_VALUE)?;
    { program(&by_value).args([root().join("interop/scan/functions.py")]) }
        .args([&scanner])
        .run()?;
    // Those that are known not to be judged so are counted by the script.
    let benign = folder.join("benign");
    if benign.exists() {
        std::fs::remove_dir_all(&benign).map_err(|e| format!("{}: {e}", benign.display()))?;
    }
    // An environment of the same kind, for what is in one of torch is too much.
    let others = with_packages(&target().join("scan-others"), &[&PACKAGES[..], &OTHERS].concat())?;
    { script("benign.py").args(["--packages"]).args([packages(&others)?]) }
        .args(["--keep"])
        .args([&benign])
        .run()?;
    { program(&others).args([root().join("interop/scan/compare.py"), scanner, benign]) }.run()
}

/// A stage of `cargo xtask test`: some files, with what Python has by itself.
pub(crate) fn some(_args: &[String]) -> Outcome {
    if !program("python3").args(["--version"]).succeeds() {
        skipped("the scan against CPython, for there is no python3");
        return Ok(());
    }
    let script = root().join("interop/scan/differential.py");
    program("python3").args([script, scanner()?]).args(["--count", SOME]).run()
}

/// The program that scans many files at once.
fn scanner() -> Result<PathBuf, String> {
    below("build", ["holdall-formats"]).args(["--example", "scan_many"]).run()?;
    Ok(target().join("debug/examples/scan_many"))
}

/// Where an interpreter has its packages.
fn packages(python: &std::path::Path) -> Result<PathBuf, String> {
    let code = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let folder = program(python).args(["-c", code]).output()?;
    Ok(PathBuf::from(folder.trim()))
}
