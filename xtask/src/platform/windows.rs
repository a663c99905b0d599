//! Windows, by wine.

use super::emulated::smoke;
use super::{folder, has_programs, has_target, tests};
use crate::command::{Outcome, Run, program, root, target};
use crate::interop::skipped;
use std::path::PathBuf;

const TARGET: &str = "x86_64-pc-windows-gnu";
const GCC: &str = "x86_64-w64-mingw32-gcc";
const PACKAGES: [&str; 2] = ["gcc-mingw-w64-x86-64", "wine64"];
/// Where Debian's package has the program, which is not in `PATH`.
const WINE: &str = "/usr/lib/wine/wine64";

/// Tests that cannot pass in wine, or that start programs of Unix.
const NOT_IN_WINE: [&str; 0] = [];

/// `cargo xtask platform windows`.
pub(super) fn windows() -> Outcome {
    if !has_target(TARGET) || !has_programs(&[GCC], &PACKAGES) {
        return Ok(());
    }
    if !PathBuf::from(WINE).is_file() && !has_programs(&[WINE], &PACKAGES) {
        skipped("running programs for Windows");
        return Ok(());
    }
    let library = library()?;
    let run = in_wine(tests(TARGET, GCC), &library);
    let skip = NOT_IN_WINE.iter().flat_map(|name| ["--skip", name]);
    run.args(["--"]).args(skip).run()?;
    let command = target().join(TARGET).join("debug/holdall.exe");
    let library = library.display().to_string();
    let prefix = prefix().display().to_string();
    let wine = [
        "env",
        "WINEDEBUG=-all",
        &format!("WINEPATH={library}"),
        &format!("WINEPREFIX={prefix}"),
        WINE,
    ];
    smoke(&wine, &command)
}

/// Sets the environment in which `cargo` runs programs in wine.
fn in_wine(run: Run, library: &std::path::Path) -> Run {
    run.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", WINE)
        .env("WINEPREFIX", prefix())
        .env("WINEPATH", library)
        .env("WINEDEBUG", "-all")
}

fn prefix() -> PathBuf {
    folder().join("wine")
}

/// Builds the library that Debian's wine lacks, and returns its folder.
fn library() -> Result<PathBuf, String> {
    let folder = folder().join("windows");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let source = root().join("xtask/src/platform/process_prng.c");
    let library = folder.join("bcryptprimitives.dll");
    program(GCC)
        .args(["-shared", "-O1", "-o"])
        .args([&library, &source])
        .args(["-ladvapi32"])
        .run()?;
    Ok(folder)
}
