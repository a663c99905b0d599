//! The Python package: a wheel for each target, for every Python from 3.11 on, and its source.

use super::graph::graph;
use super::targets::{System, Target};
use super::{Release, binary, bytes, commands, licences, name, sbom, tools, write};
use crate::command::{Outcome, program, root, target};
use crate::python;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "crates/holdall-py/Cargo.toml";
/// Where the licences of others are put for the build; wheels take them along.
const LICENCES: &str = "crates/holdall-py/THIRD-PARTY-LICENSES.txt";

/// The newest versions of glibc and musl that wheels may need.
const GLIBC: (u32, u32) = (2, 17);
const MUSL: (u32, u32) = (1, 2);

/// Makes the wheels; returns the failures.
pub(super) fn wheels(release: &Release) -> Result<Vec<String>, String> {
    let failed = release.for_targets(|target| wheel(release, target));
    let _ = std::fs::remove_file(root().join(LICENCES));
    Ok(failed)
}

fn wheel(release: &Release, target: &Target) -> Outcome {
    let crates = graph("Cargo.toml", "holdall-py", target.triple)?;
    write(&root().join(LICENCES), licences::of_others(&crates)?)?;
    let folder = empty(&crate::command::target().join("dist-wheel"))?;
    let python = tools::python()?;
    let profile = if release.is_trial { release.profile() } else { "release" };
    let mut run = program(&python).args(["-m", "maturin", "build", "--locked"]);
    run = run.args(["--manifest-path", MANIFEST, "--target", target.triple]);
    run = run.args(["--profile", profile, "--out"]).args([&folder]);
    if target.needs_zig() && target.system != System::Windows {
        run = run.args(["--zig"]);
    }
    if let Some(tag) = target.wheel {
        run = run.args(["--compatibility", tag]);
    }
    tools::building(release, target, run)?.run()?;
    let wheel = only(&folder, "whl")?;
    check(target, &python, &wheel)?;
    let to = release.out.join(name(&wheel));
    std::fs::copy(&wheel, &to).map_err(|e| format!("{}: {e}", to.display()))?;
    let about = sbom::About {
        kind: "library",
        url: format!("pkg:pypi/holdall@{}?file_name={}", release.version, name(&wheel)),
        lock: "Cargo.lock",
        needs: &[("numpy", "pkg:pypi/numpy")],
    };
    sbom::add(release, &to, &crates, &about).map(|_| ())
}

/// Fails unless the wheel has the module for its target and nothing that its tag does not allow.
fn check(target: &Target, python: &Path, wheel: &Path) -> Outcome {
    let run = |args: &[&str]| program(python).args(["-m"]).args(args).args([wheel]);
    run(&["twine", "check", "--strict"]).run()?;
    run(&["abi3audit", "--strict", "--verbose"]).env("PATH", tools::path(python)?).run()?;
    if let Some(tag) = target.wheel {
        let shown = run(&["auditwheel", "show"]).output()?;
        let found = version(&shown).ok_or_else(|| format!("auditwheel names no tag:\n{shown}"))?;
        let most = if target.system == System::Musl { MUSL } else { GLIBC };
        if found > most {
            return Err(format!("it is not {tag}, auditwheel says:\n{shown}"));
        }
    }
    let folder = empty(&crate::command::target().join("dist-wheel-unpacked"))?;
    let unpack = ["-m", "zipfile", "-e"];
    program(python).args(unpack).args([wheel, folder.as_path()]).quiet()?;
    let module = if target.system == System::Windows { "pyd" } else { "so" };
    let module = only(&folder.join("holdall"), module)?;
    let content = bytes(&module)?;
    binary::check(target, &content)?;
    commands::has_page(&content)?;
    let about = only(&folder, "dist-info")?.join("licenses");
    for text in ["LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES.txt"] {
        if !about.join(text).is_file() {
            return Err(format!("{text} is not in the wheel"));
        }
    }
    // A wheel for musl is not for the Python here.
    match target.runs_here() && target.system != System::Musl {
        true => try_here(wheel),
        false => {
            eprintln!("{}: for another system: built and looked at, not run", name(wheel));
            Ok(())
        }
    }
}

/// Returns the version of the system's C library that a wheel needs: `(2, 17)` for `manylinux_2_17_x86_64`.
fn version(shown: &str) -> Option<(u32, u32)> {
    let (_, tag) = shown.split_once("linux_")?;
    let mut numbers = tag.split('_').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Installs the wheel into an environment with NumPy alone; reads a file, and runs the command.
fn try_here(wheel: &Path) -> Outcome {
    const SCRIPT: &str = "\
import sys, holdall
weights = holdall.load(sys.argv[1])
assert len(weights) == 34, len(weights)
";
    let python = python::with_packages(&target().join("dist-try"), &["numpy>=1.24"])?;
    python::install(&python, wheel)?;
    let file = root().join("examples/tiny.zt");
    program(&python).args(["-c", SCRIPT]).args([&file]).quiet()?;
    commands::try_command(&python, &["-m", "holdall"])
}

/// Makes the source distribution, which contains the page; returns no failures.
pub(super) fn source(release: &Release) -> Result<Vec<String>, String> {
    let python = tools::python()?;
    let folder = empty(&target().join("dist-source"))?;
    let run = program(&python).args(["-m", "maturin", "sdist", "--manifest-path", MANIFEST]);
    run.args(["--out"]).args([&folder]).run()?;
    let packed = only(&folder, "gz")?;
    program(&python).args(["-m", "twine", "check", "--strict"]).args([&packed]).run()?;
    let listed = program("tar").args(["-tzf"]).args([&packed]).output()?;
    let top = format!("holdall-{}", release.version);
    for path in ["PKG-INFO", "pyproject.toml", "Cargo.lock", "crates/holdall-cli/viewer/core.js.gz"]
    {
        if !listed.lines().any(|line| line == format!("{top}/{path}")) {
            return Err(format!("{path} is not in the source distribution"));
        }
    }
    let to = release.out.join(name(&packed));
    std::fs::copy(&packed, &to).map_err(|e| format!("{}: {e}", to.display()))?;
    let about = sbom::About {
        kind: "library",
        url: format!("pkg:pypi/holdall@{}?file_name={}", release.version, name(&packed)),
        lock: "Cargo.lock",
        needs: &[("numpy", "pkg:pypi/numpy")],
    };
    sbom::add(release, &to, &graph("Cargo.toml", "holdall-py", "all")?, &about)?;
    Ok(Vec::new())
}

/// Creates a folder, or empties it.
fn empty(folder: &Path) -> Result<PathBuf, String> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder.to_owned())
}

/// Returns the only entry of a folder whose name ends so.
fn only(folder: &Path, extension: &str) -> Result<PathBuf, String> {
    let entries = folder.read_dir().map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut all = entries.flatten().map(|entry| entry.path());
    let found = all.find(|path| path.extension().is_some_and(|own| own == extension));
    found.ok_or_else(|| format!("{}: nothing with .{extension}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn the_needed_version_is_read_from_the_tag() {
        let shown =
            "x.whl is consistent with\nthe following platform tag: \"manylinux_2_17_x86_64\".";
        assert_eq!(version(shown), Some((2, 17)));
        assert_eq!(version("tag: \"musllinux_1_2_aarch64\""), Some((1, 2)));
        assert_eq!(version("tag: \"linux_x86_64\""), None);
    }
}
