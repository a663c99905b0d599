//! Tests of reading and writing files on an emulated big-endian processor (s390x, by QEMU).

use crate::command::{Outcome, Run, program, root, target};
use std::path::{Path, PathBuf};

const TARGET: &str = "s390x-unknown-linux-gnu";
/// Debian's packages: a linker, its libraries, a C compiler for zstd, and the emulator.
const PACKAGES: [&str; 11] = [
    "binutils-s390x-linux-gnu",
    "cpp-12-s390x-linux-gnu",
    "gcc-12-s390x-linux-gnu",
    "libc6-dev-s390x-cross",
    "libc6-s390x-cross",
    "libcapstone4",
    "libgcc-12-dev-s390x-cross",
    "libgcc-s1-s390x-cross",
    "libstdc++6-s390x-cross",
    "linux-libc-dev-s390x-cross",
    "qemu-user",
];
/// Tests of the program `library` that read and write files of every format and convert their
/// elements.
const TESTS: [&str; 4] = ["forms::", "verify::", "views::", "write::"];

/// `cargo xtask big-endian`.
pub(crate) fn big_endian(_args: &[String]) -> Outcome {
    let folder = target().join("big-endian");
    if !program("rustup").args(["target", "add", TARGET]).succeeds() {
        return Err("rustup has no such target here".to_owned());
    }
    let tools = tools(&folder)?;
    let shown = |path: PathBuf| path.display().to_string();
    let (bin, lib) = (shown(tools.join("usr/bin")), shown(tools.join("usr/lib/x86_64-linux-gnu")));
    let (all, libc) = (shown(tools.clone()), shown(tools.join("usr/s390x-linux-gnu")));
    // The unpacked programs need their own libraries.
    let script = |name: &str, call: String| {
        let path = folder.join(name);
        let around = format!("export PATH={bin}:$PATH LD_LIBRARY_PATH={lib}");
        write_script(&path, &format!("#!/bin/sh\n{around}\nexec {call} \"$@\"\n"))?;
        Ok::<_, String>(path)
    };
    let gcc = script(
        "gcc",
        format!(
            "s390x-linux-gnu-gcc-12 --sysroot={all} -B{all}/usr/lib/gcc-cross/s390x-linux-gnu/12/ \
             -B{bin}/s390x-linux-gnu-"
        ),
    )?;
    let ar = script("ar", "s390x-linux-gnu-ar".to_owned())?;
    let runner = script("run", format!("qemu-s390x -L {libc}"))?;
    let test = |name: &str| {
        cargo(&folder, &gcc, &runner).env("AR_s390x_unknown_linux_gnu", &ar).args([
            "--package",
            "holdall",
            "--test",
            name,
        ])
    };
    test("corpus").run()?;
    test("library").args(["--"]).args(TESTS).run()
}

fn cargo(folder: &Path, gcc: &Path, runner: &Path) -> Run {
    crate::command::cargo(["test", "--locked", "--no-fail-fast", "--target", TARGET])
        .env("CARGO_TARGET_DIR", folder)
        .env("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER", gcc)
        .env("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER", runner)
        .env("CC_s390x_unknown_linux_gnu", gcc)
}

/// Unpacks the packages below `folder`.
fn tools(folder: &Path) -> Result<PathBuf, String> {
    let (packed, tools) = (root().join(folder).join("packages"), root().join(folder).join("tools"));
    if tools.join("usr/bin/qemu-s390x").is_file() {
        return Ok(tools);
    }
    std::fs::create_dir_all(&packed).map_err(|e| format!("{}: {e}", packed.display()))?;
    program("apt-get").args(["download"]).args(PACKAGES).within(&packed).run()?;
    let entries = packed.read_dir().map_err(|e| format!("{}: {e}", packed.display()))?;
    for entry in entries.filter_map(Result::ok) {
        program("dpkg").args(["-x"]).args([entry.path(), tools.clone()]).run()?;
    }
    Ok(tools)
}

fn write_script(path: &Path, text: &str) -> Outcome {
    use std::os::unix::fs::PermissionsExt as _;
    let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::write(path, text).map_err(wrong)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).map_err(wrong)
}
