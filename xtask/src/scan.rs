//! The scan for pickles against CPython: whatever an unpickler would import, the scan lists, or it says that it did not follow everything.

use crate::command::{Outcome, below, program, root, target};
use crate::interop::skipped;
use crate::python::with_packages;
use std::path::PathBuf;

/// What writes and reads the containers that Python itself does not know, and what writes benign files.
const PACKAGES: [&str; 5] =
    ["zstandard==0.25.0", "numpy>=2", "pandas>=2", "scikit-learn>=1.5", "joblib>=1.4"];
/// Files that `cargo xtask test` compares, always the same ones.
const SOME: &str = "10000";
/// Files of the whole task.
const ALL: &str = "1000000";

/// `cargo xtask scan-differential`: a million files, or as many as `--count` says, and then files that are known to be benign.
pub(crate) fn whole(args: &[String]) -> Outcome {
    let scanner = scanner()?;
    let python = with_packages(&target().join("scan"), &PACKAGES)?;
    let script = |name: &str| {
        program(&python).args([root().join("interop/scan").join(name)]).args([&scanner])
    };
    script("differential.py").args(["--count", ALL]).args(args).run()?;
    // Those that are known not to be judged so are listed by the script.
    script("benign.py").args(["--packages"]).args([packages(&python)?]).run()
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
