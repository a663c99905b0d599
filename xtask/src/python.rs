//! The Python package: built into a wheel, installed into a fresh environment, tested there.

use crate::check::others_target;
use crate::command::{Outcome, Run, program, root, target};
use crate::interop::{model, skipped};
use std::path::{Path, PathBuf};

/// The packages that build the Python package.
const BUILD: [&str; 1] = ["maturin==1.16.0"];
/// The packages for tests. The Python package itself only needs NumPy.
const TESTS: [&str; 22] = [
    "numpy>=2.3",
    "ml_dtypes==0.6.0",
    "safetensors==0.8.0",
    "gguf==0.19.0",
    "ipython>=9",
    "h5py==3.16.0",
    "tables==3.11.1",
    "onnx==1.23.2",
    "pytest==9.2.0",
    "scipy>=1.16",
    "mypy==2.4.1",
    "tqdm>=4.67",
    "pandas>=2.3",
    "pyarrow>=21",
    "polars>=1.30",
    "duckdb>=1.3",
    "wgpu==0.32.0",
    "fsspec>=2025.3",
    "obstore>=0.8",
    "jsonschema>=4.23",
    "zstandard>=0.23",
    "xxhash>=3.5",
];

/// `cargo xtask python`: `--release` builds as for a release, other arguments go to pytest.
pub(crate) fn python(args: &[String]) -> Outcome {
    if !program("python3").args(["--version"]).succeeds() {
        eprintln!(
            "\n!!! SKIPPED: the Python package, for there is no python3. Nothing was found out.\n"
        );
        return Ok(());
    }
    let (release, rest): (Vec<_>, Vec<_>) = args.iter().partition(|a| *a == "--release");
    let venv = environment(&target().join("python-package/venv"))?;
    install(&venv, &wheel(&venv, !release.is_empty())?)?;
    let tests = root().join("crates/holdall-py/tests");
    program(&venv).args(["-m", "pytest", "--quiet"]).args(rest).args([&tests]).run()
}

/// `cargo xtask ecosystem`: tests libraries that use safetensors, Arrow and the like with our
/// package. They are large, so they have a separate environment; each is fetched by itself, and
/// unavailable ones are reported. Arguments go to pytest.
pub(crate) fn ecosystem(args: &[String]) -> Outcome {
    if !program("python3").args(["--version"]).succeeds() {
        skipped("what libraries for Python do with ours, for there is no python3");
        return Ok(());
    }
    let builder = environment(&target().join("python-package/venv"))?;
    let wheel = wheel(&builder, false)?;
    let folder = target().join("ecosystem");
    let python = made(&folder.join("venv"))?;
    let tests = root().join("interop/ecosystem");
    let wanted = tests.join("requirements.txt");
    let wanted =
        std::fs::read_to_string(&wanted).map_err(|e| format!("{}: {e}", wanted.display()))?;
    let done = folder.join("installed.txt");
    if std::fs::read_to_string(&done).ok().as_ref() != Some(&wanted) {
        let mut is_all = true;
        for line in wanted.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if pip(&python).args(line.split_whitespace()).run().is_err() {
                skipped(&format!("what `{line}` does with ours, for it cannot be had here"));
                is_all = false;
            }
        }
        if is_all {
            std::fs::write(&done, wanted).map_err(|e| format!("{}: {e}", done.display()))?;
        }
    }
    install(&python, &wheel)?;
    let own = root().join("crates/holdall-py/tests");
    let torch = ["torch", "dropin", "dropin_torch", "pickle", "batches"]
        .map(|what| own.join(format!("test_{what}.py")));
    program(&python).args(["-m", "pytest", "--quiet", "-rs"]).args(args).args(torch).run()?;
    let model = model(&python, &others_target());
    if model.is_none() {
        skipped("what transformers does with a real model, for it cannot be had here");
    }
    // Some of the libraries crash if another one is loaded, so each has a separate process.
    let runs = "transformers libraries engines million thousands flax mlx paddle tensorflow keras";
    for only in runs.split(' ') {
        let mut run = program(&python).args(["-m", "pytest", "--quiet", "-rs", "-k", only]);
        if let Some(model) = &model {
            run = run.env("HOLDALL_MODEL", model);
        }
        run.args(args).args([&tests]).run()?;
    }
    Ok(())
}

/// Builds the package and returns the wheel.
fn wheel(venv: &Path, release: bool) -> Result<PathBuf, String> {
    let wheels = target().join("python-package/wheels");
    if wheels.is_dir() {
        std::fs::remove_dir_all(&wheels).map_err(|e| format!("{}: {e}", wheels.display()))?;
    }
    let manifest = root().join("crates/holdall-py/Cargo.toml");
    let mut build = program(venv).args(["-m", "maturin", "build", "--quiet", "--locked"]);
    build = build.args(["--manifest-path"]).args([&manifest]).args(["--out"]).args([&wheels]);
    build = match release {
        true => build.args(["--release"]),
        false => build.args(["--profile", "dev"]),
    };
    build.run()?;
    only_wheel(&wheels)
}

/// Builds the package in the environment for builds, and returns the wheel.
pub(crate) fn wheel_for() -> Result<PathBuf, String> {
    wheel(&environment(&target().join("python-package/venv"))?, false)
}

/// Installs a wheel, replacing the previous one.
pub(crate) fn install(python: &Path, wheel: &Path) -> Outcome {
    pip(python).args(["--force-reinstall", "--no-deps"]).args([wheel]).run()
}

/// Returns a pip command that installs the packages named in its further arguments. Modules are
/// compiled on import, since most are never imported here.
pub(crate) fn pip(python: &Path) -> Run {
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"];
    program(python).args(pip)
}

/// Returns the interpreter of an environment with the packages for builds and tests, created at
/// the first call.
fn environment(venv: &Path) -> Result<PathBuf, String> {
    with_packages(venv, &BUILD.into_iter().chain(TESTS).collect::<Vec<_>>())
}

/// Returns the interpreter of an environment with these packages, which are installed if others
/// are there.
pub(crate) fn with_packages(venv: &Path, wanted: &[&str]) -> Result<PathBuf, String> {
    let python = made(venv)?;
    let done = venv.join("installed.txt");
    if std::fs::read_to_string(&done).ok().as_deref() != Some(&wanted.join("\n")) {
        pip(&python).args(wanted).run()?;
        std::fs::write(&done, wanted.join("\n")).map_err(|e| format!("{}: {e}", done.display()))?;
    }
    Ok(python)
}

/// Returns the interpreter of an environment, created at the first call.
pub(crate) fn made(venv: &Path) -> Result<PathBuf, String> {
    let python = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !python.exists() {
        program("python3").args(["-m", "venv"]).args([venv]).run()?;
    }
    Ok(python)
}

fn only_wheel(folder: &Path) -> Result<PathBuf, String> {
    let entries = folder.read_dir().map_err(|e| format!("{}: {e}", folder.display()))?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|e| e == "whl");
    let found = entries.flatten().map(|e| e.path()).find(is_wheel);
    found.ok_or_else(|| format!("{}: maturin built no wheel", folder.display()))
}
