//! Linux on other processors, by QEMU, and Linux without a C library of its own.

use super::{folder, has_programs, has_target, tests, zigbuild, zigbuilt};
use crate::command::{Outcome, program, root};
use crate::interop::skipped;
use std::path::Path;

const AARCH64: &str = "aarch64-unknown-linux-gnu";
const AARCH64_GCC: &str = "aarch64-linux-gnu-gcc";
const AARCH64_PACKAGES: [&str; 3] = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user"];
/// The emulator, and where it finds the C library.
const QEMU: &str = "qemu-aarch64 -L /usr/aarch64-linux-gnu";

/// Tests that cannot pass in an emulator of a processor: those of the memory that a process uses, of address space limits, of
/// commands that a shell starts by their name, and of processes that start themselves again by their path.
const NOT_EMULATED: [&str; 14] = [
    "a_call_with_a_time_limit_is_ended",
    "address_space",
    "convert_memory::",
    "coverage::",
    "docs::",
    "extract::a_range_of_a_huge",
    "few_threads::",
    "kills::",
    "memory::",
    "models::",
    "nginx::",
    "owners::",
    "runners::",
    "serve_many::",
];

/// `cargo xtask platform aarch64`.
pub(super) fn aarch64() -> Outcome {
    if !has_target(AARCH64) || !has_programs(&[AARCH64_GCC, "qemu-aarch64"], &AARCH64_PACKAGES) {
        return Ok(());
    }
    let run = tests(AARCH64, AARCH64_GCC)
        .env("AR_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-ar")
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", QEMU)
        .env("HOLDALL_TEST_EMULATOR", QEMU)
        .args(["--"]);
    run.args(NOT_EMULATED.iter().flat_map(|name| ["--skip", name])).run()
}

/// `cargo xtask platform musl`: the command as one file, for both processors.
pub(super) fn musl() -> Outcome {
    for (triple, emulator) in
        [("x86_64-unknown-linux-musl", None), ("aarch64-unknown-linux-musl", Some("qemu-aarch64"))]
    {
        if !has_target(triple) {
            continue;
        }
        let Some(build) = zigbuild("zigbuild", triple) else { return Ok(()) };
        build.run()?;
        let command = zigbuilt(triple);
        // A program with an interpreter needs a dynamic linker, and so the system's C library.
        let parts = program("readelf").args(["--program-headers"]).args([&command]).output()?;
        if parts.contains("INTERP") {
            return Err(format!("{} is not static", command.display()));
        }
        match emulator {
            Some(qemu) if !program(qemu).args(["--version"]).succeeds() => {
                skipped(&format!("running {triple}, for there is no `{qemu}`"));
            }
            Some(qemu) => smoke(&[qemu], &command)?,
            None => smoke(&[], &command)?,
        }
    }
    Ok(())
}

/// Runs the command on files of the repository: reads, converts, edits, packs, checks and tests.
pub(super) fn smoke(emulator: &[&str], command: &Path) -> Outcome {
    let out = folder().join("smoke");
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let line = |args: &[&str]| {
        let (first, rest) = match emulator {
            [] => (command.as_os_str(), &[][..]),
            [first, rest @ ..] => (first.as_ref(), rest),
        };
        let all = program(first).args(rest);
        let all = if emulator.is_empty() { all } else { all.args([command]) };
        all.args(args).within(&out).run()
    };
    let example = root().join("examples/tiny.zt");
    let (example, xor) = (example.display().to_string(), root().join("examples/xor"));
    line(&["inspect", &example])?;
    line(&["verify", &example])?;
    line(&["convert", &example, "a.safetensors", "--dense"])?;
    line(&["edit", "a.safetensors", "set", "license=none"])?;
    line(&["edit", "a.safetensors", "set", "license=some"])?;
    line(&["edit", "a.safetensors", "remove", "router.weight"])?;
    line(&["verify", "a.safetensors"])?;
    line(&["pack", &xor.display().to_string(), "-o", "xor.carton"])?;
    line(&["test", "xor.carton"])?;
    // In a process of its own, which an emulator of a processor cannot start.
    if emulator.first().is_none_or(|first| !first.starts_with("qemu")) {
        line(&["test", "xor.carton", "--timeout", "60"])?;
    }
    line(&["unpack", "xor.carton", "-o", "xor"])?;
    line(&["verify", "xor"])
}
