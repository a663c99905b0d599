//! The Python package: built into a wheel, installed into a fresh environment, tested there.

use crate::command::{Outcome, program, root, target};
use std::path::{Path, PathBuf};

/// What builds the package.
const BUILD: [&str; 1] = ["maturin==1.16.0"];
/// What the tests use. The package itself needs NumPy alone.
const TESTS: [&str; 8] = [
    "numpy>=2.3",
    "ml_dtypes==0.6.0",
    "safetensors==0.8.0",
    "pytest==9.2.0",
    "scipy>=1.16",
    "mypy==2.4.1",
    "tqdm>=4.67",
    "pandas>=2.3",
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
    let folder = target().join("python-package");
    let venv = environment(&folder.join("venv"))?;
    let wheels = folder.join("wheels");
    if wheels.is_dir() {
        std::fs::remove_dir_all(&wheels).map_err(|e| format!("{}: {e}", wheels.display()))?;
    }
    let manifest = root().join("crates/holdall-py/Cargo.toml");
    let mut build = program(&venv).args(["-m", "maturin", "build", "--quiet", "--locked"]);
    build = build.args(["--manifest-path"]).args([&manifest]).args(["--out"]).args([&wheels]);
    if release.is_empty() {
        build = build.args(["--profile", "dev"]);
    } else {
        build = build.args(["--release"]);
    }
    build.run()?;
    let wheel = only_wheel(&wheels)?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    program(&venv).args(pip).args(["--force-reinstall", "--no-deps"]).args([&wheel]).run()?;
    let tests = root().join("crates/holdall-py/tests");
    program(&venv).args(["-m", "pytest", "--quiet"]).args(rest).args([&tests]).run()
}

/// The interpreter of an environment that has what is needed, made at the first call.
fn environment(venv: &Path) -> Result<PathBuf, String> {
    let python = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !python.exists() {
        program("python3").args(["-m", "venv"]).args([venv]).run()?;
    }
    let wanted: Vec<&str> = BUILD.into_iter().chain(TESTS).collect();
    let done = venv.join("installed.txt");
    if std::fs::read_to_string(&done).ok().as_deref() != Some(&wanted.join("\n")) {
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        program(&python).args(pip).args(&wanted).run()?;
        std::fs::write(&done, wanted.join("\n")).map_err(|e| format!("{}: {e}", done.display()))?;
    }
    Ok(python)
}

fn only_wheel(folder: &Path) -> Result<PathBuf, String> {
    let entries = folder.read_dir().map_err(|e| format!("{}: {e}", folder.display()))?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|e| e == "whl");
    let found = entries.flatten().map(|e| e.path()).find(is_wheel);
    found.ok_or_else(|| format!("{}: maturin built no wheel", folder.display()))
}
