//! Compares the scan for pickles with CPython: the scan must list every import of an unpickler,
//! or report that it could not follow everything.

use crate::command::{Outcome, below, program, root, target};
use crate::interop::skipped;
use crate::python::{pip, with_packages};
use std::path::PathBuf;

/// Packages that write and read containers that Python itself does not support, and that write
/// benign files.
const PACKAGES: [&str; 6] =
    ["zstandard==0.25.0", "numpy>=2", "pandas>=2", "scikit-learn>=1.5", "joblib>=1.4", "lz4>=4"];
/// torch, without its packages for accelerators.
const TORCH: [&str; 3] = ["--index-url", "https://download.pytorch.org/whl/cpu", "torch"];
/// Other scanners, only used for comparison.
const OTHERS: [&str; 4] =
    ["picklescan==1.0.5", "modelscan==0.8.8", "fickling==0.1.12", "typing_extensions>=4"];
/// Packages that pickle functions by value, or store such functions in files.
const BY_VALUE: [&str; 6] =
    ["cloudpickle>=3", "dill>=0.4", "keras>=3", "jax", "joblib>=1.4", "numpy>=2"];
/// The number of files that `cargo xtask test` compares, always the same ones.
const SOME: &str = "10000";
/// The number of files in the complete task.
const ALL: &str = "1000000";

/// `cargo xtask scan-differential`: compares a million files, or the number given with `--count`;
/// then files that are known to be benign, and prints a table of the results of other scanners.
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
    // A separate environment, only used for this comparison.
    let by_value = with_packages(&target().join("scan-functions"), &BY_VALUE)?;
    { program(&by_value).args([root().join("interop/scan/functions.py")]) }
        .args([&scanner])
        .run()?;
    // The script knows which benign files are not rated so.
    let benign = folder.join("benign");
    if benign.exists() {
        std::fs::remove_dir_all(&benign).map_err(|e| format!("{}: {e}", benign.display()))?;
    }
    // A similar environment without torch, whose files are too large for the other scanners.
    let others = with_packages(&target().join("scan-others"), &[&PACKAGES[..], &OTHERS].concat())?;
    { script("benign.py").args(["--packages"]).args([packages(&others)?]) }
        .args(["--keep"])
        .args([&benign])
        .run()?;
    { program(&others).args([root().join("interop/scan/compare.py"), scanner, benign]) }.run()
}

/// A stage of `cargo xtask test`: compares some files, with the modules of Python itself.
pub(crate) fn some(_args: &[String]) -> Outcome {
    if !program("python3").args(["--version"]).succeeds() {
        skipped("the scan against CPython, for there is no python3");
        return Ok(());
    }
    let script = root().join("interop/scan/differential.py");
    program("python3").args([script, scanner()?]).args(["--count", SOME]).run()
}

/// Builds the program that scans many files at once, and returns its path.
fn scanner() -> Result<PathBuf, String> {
    below("build", ["holdall-formats"]).args(["--example", "scan_many"]).run()?;
    Ok(target().join("debug/examples/scan_many"))
}

/// Returns the folder of an interpreter's packages.
fn packages(python: &std::path::Path) -> Result<PathBuf, String> {
    let code = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let folder = program(python).args(["-c", code]).output()?;
    Ok(PathBuf::from(folder.trim()))
}
