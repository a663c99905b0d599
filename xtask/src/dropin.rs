//! safetensors' own tests, with our package in its place.

use crate::command::{Outcome, program, root, target};
use crate::interop::skipped;
use crate::python::{install, made, pip, wheel_for};
use std::path::Path;

/// The packages that the tests need; maturin names the version of a source distribution for pip.
const PACKAGES: [&str; 6] = [
    "pytest==9.2.0",
    "numpy>=2.3",
    "ml_dtypes==0.6.0",
    "packaging",
    "maturin==1.16.0",
    "torch==2.15.0",
];

/// The releases, and how many tests pass without CUDA.
const RELEASES: [(&str, usize); 2] = [("0.8.0", 66), ("0.9.0rc1", 74)];

/// The files of tests. The others need Flax, TensorFlow, Paddle or MLX.
const TESTS: [&str; 7] = [
    "simple",
    "pt_model",
    "pread_backend",
    "pt_comparison",
    "handle",
    "threadable",
    "multithreaded",
];

/// `cargo xtask safetensors`: fetches the source distributions in `interop/safetensors/sources.txt`
/// and runs their tests after `holdall.safetensors.install()`. Arguments go to pytest.
pub(crate) fn safetensors(args: &[String]) -> Outcome {
    if !program("python3").args(["--version"]).succeeds() {
        skipped("what safetensors' own tests say about ours, for there is no python3");
        return Ok(());
    }
    let wheel = wheel_for()?;
    let folder = target().join("safetensors");
    let python = made(&folder.join("venv"))?;
    let done = folder.join("installed.txt");
    let wanted = PACKAGES.join("\n");
    if std::fs::read_to_string(&done).ok().as_ref() != Some(&wanted) {
        for package in PACKAGES {
            if pip(&python).args([package]).run().is_err() {
                skipped(&format!("safetensors' own tests, for `{package}` cannot be had here"));
                return Ok(());
            }
        }
        std::fs::write(&done, wanted).map_err(|e| format!("{}: {e}", done.display()))?;
    }
    install(&python, &wheel)?;
    for (release, passing) in RELEASES {
        let sources = folder.join(format!("safetensors-{release}"));
        if !sources.is_dir() && fetch(&python, &folder, release).is_err() {
            skipped(&format!("the tests of safetensors {release}, for they cannot be had here"));
            continue;
        }
        let tests = TESTS.map(|name| format!("tests/test_{name}.py"));
        let run = root().join("interop/safetensors/run.py");
        // With arguments, fewer tests may run.
        let least = if args.is_empty() { passing } else { 0 };
        let run = program(&python).args([run.as_os_str()]).args([least.to_string()]).args(args);
        run.args(tests).within(&sources.join("bindings/python")).run()?;
    }
    Ok(())
}

/// Downloads the source distribution of a release, whose hash pip checks, and unpacks it.
fn fetch(python: &Path, folder: &Path, release: &str) -> Outcome {
    let list = root().join("interop/safetensors/sources.txt");
    let all = std::fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let pinned = format!("safetensors=={release} ");
    let line = all.lines().find(|line| line.starts_with(&pinned));
    let line = line.ok_or_else(|| format!("{}: there is no {release}", list.display()))?;
    let one = folder.join(format!("{release}.txt"));
    std::fs::write(&one, line).map_err(|e| format!("{}: {e}", one.display()))?;
    // Nothing is built: only the tests are used.
    let options = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"];
    let only = ["--no-build-isolation", "--no-binary", "safetensors", "--require-hashes"];
    let download = program(python).args(options).args(only);
    // pip asks maturin for the name and the version.
    let bin = python.parent().unwrap_or(Path::new("."));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path)))
            .map_err(|e| e.to_string())?;
    download.env("PATH", path).args(["--dest"]).args([folder]).args(["-r"]).args([&one]).run()?;
    let archive = folder.join(format!("safetensors-{release}.tar.gz"));
    program(python).args(["-m", "tarfile", "-e"]).args([&archive]).args([folder]).run()
}
