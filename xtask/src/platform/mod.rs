//! Builds and tests for other systems than this one: see the table of systems in the README. A task fetches what it
//! needs, or says that it was skipped. None is part of `cargo xtask test`.

mod emulated;
mod macos;
mod windows;

use crate::big_endian::big_endian;
use crate::command::{Outcome, Run, cargo, install, optimised, program, target};
use crate::interop::skipped;
use crate::python::with_packages;
use std::path::PathBuf;

/// A system, by the name that the task has as its argument.
type System = (&'static str, fn() -> Outcome);

const SYSTEMS: [System; 5] = [
    ("aarch64", emulated::aarch64),
    ("musl", emulated::musl),
    ("windows", windows::windows),
    ("macos", macos::macos),
    ("s390x", || big_endian(&[])),
];

/// The linker for systems that have none here, as packages of Python.
const ZIG: [&str; 2] = ["ziglang==0.15.2", "cargo-zigbuild==0.24.1"];

/// The crates with code or tests that depend on the system, and the programs of tests of the others.
const TESTED: [&str; 17] = [
    "--package",
    "holdall-core",
    "--package",
    "holdall-io",
    "--package",
    "holdall-run",
    "--package",
    "holdall",
    "--package",
    "holdall-cli",
    "--lib",
    "--bins",
    "--test=core",
    "--test=library",
    "--test=corpus",
    "--test=cli",
    "--no-fail-fast",
];

/// `cargo xtask platform`: all systems, or the named ones.
pub(crate) fn platform(args: &[String]) -> Outcome {
    let names = || SYSTEMS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = args.iter().find(|arg| SYSTEMS.iter().all(|(name, _)| name != arg)) {
        return Err(format!("there is no system `{unknown}`; there are {}", names()));
    }
    let mut failed = Vec::new();
    for (name, run) in SYSTEMS {
        if !args.is_empty() && !args.iter().any(|arg| arg == name) {
            continue;
        }
        eprintln!("\n=== {name}");
        if let Err(e) = run() {
            eprintln!("\n{name}: {e}");
            failed.push(name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// Returns the folder of what the tasks fetch and make.
fn folder() -> PathBuf {
    target().join("platform")
}

/// Returns `true` if the toolchain has the target, which is fetched if needed.
fn has_target(triple: &str) -> bool {
    let has = program("rustup").args(["target", "add", triple]).succeeds();
    if !has {
        skipped(&format!("{triple}, for rustup has no such target here"));
    }
    has
}

/// Returns `true` if the programs can be run, for which packages of Debian are installed if needed.
fn has_programs(programs: &[&str], packages: &[&str]) -> bool {
    let has = || programs.iter().all(|name| program(name).args(["--version"]).succeeds());
    if has() || (install(packages) && has()) {
        return true;
    }
    let (programs, packages) = (programs.join("`, `"), packages.join(" "));
    skipped(&format!("`{programs}`, for Debian's packages {packages} cannot be installed"));
    false
}

/// The profile of programs that are only tried: nothing in it is optimised.
const PROFILE: &str = "looked-at";

/// Returns the program `cargo-zigbuild` with a subcommand of `cargo` that builds the command for a target. `None` if it
/// cannot be had.
fn zigbuild(subcommand: &str, triple: &str) -> Option<Run> {
    let Ok(python) = with_packages(&folder().join("zig"), &ZIG) else {
        skipped(&format!("linking by `{}`, which cannot be had", ZIG[0]));
        return None;
    };
    let bin = python.parent()?.to_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    let run = program(bin.join("cargo-zigbuild"))
        .args([subcommand, "--locked", "--profile", PROFILE, "--target", triple])
        .args(["--package", "holdall-cli", "--bin", "holdall"]);
    Some(run.env("PATH", format!("{}:{path}", bin.display())))
}

/// Returns the path of the command that [`zigbuild`] builds.
fn zigbuilt(triple: &str) -> PathBuf {
    target().join(triple).join(PROFILE).join("holdall")
}

/// Returns the tests for a target. `linker` is a C compiler for it.
fn tests(triple: &str, linker: &str) -> Run {
    let name = triple.replace('-', "_");
    optimised(cargo(["test", "--locked", "--target", triple]))
        .args(TESTED)
        .env(&format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), linker)
        .env(&format!("CC_{name}"), linker)
}
