//! The pure crates for WebAssembly, where there are no files, threads or clocks: the module that the JavaScript package
//! has them in builds, and is not too large.

use crate::command::{Outcome, Run, program, target};
use std::path::{Path, PathBuf};

const TARGET: &str = "wasm32-unknown-unknown";
const MANIFEST: &str = "js/wasm/Cargo.toml";
/// Bytes that the module has at most, and what `gzip -9` makes of it.
const MOST: [usize; 2] = [2_820_000, 1_123_000];
/// A compiler of C for WebAssembly, for zstd, where the system has none: Debian's packages.
const PACKAGES: [&str; 5] =
    ["clang-19", "libclang-cpp19", "libllvm19", "libclang-common-19-dev", "llvm-19"];

/// `cargo xtask wasm`.
pub(crate) fn wasm(_args: &[String]) -> Outcome {
    let Some(_) = build()? else { return Ok(()) };
    let folder = target().join("wasm");
    let Some(tools) = compiler(&folder)? else { return Ok(()) };
    crate::command::cargo(["fmt", "--check", "--manifest-path", MANIFEST]).run()?;
    cargo("clippy", &folder, &tools).args(["--", "-D", "warnings"]).run()
}

/// Builds the module, where what that needs is to be had.
pub(crate) fn build() -> Result<Option<PathBuf>, String> {
    let folder = target().join("wasm");
    let skipped = |why: &str| {
        eprintln!("\n!!! SKIPPED: WebAssembly, for {why}. Nothing was found out about it.\n");
        Ok(None)
    };
    if !program("rustup").args(["target", "add", TARGET]).succeeds() {
        return skipped("rustup has no such target here");
    }
    let Some((clang, ar)) = compiler(&folder)? else {
        return skipped("there is no clang, and no packages of Debian to get it from");
    };
    cargo("build", &folder, &(clang, ar)).run()?;
    let module = folder.join(TARGET).join("release/holdall_wasm.wasm");
    measure(&module)?;
    Ok(Some(module))
}

/// Cargo, about the module. Every runtime that the package is for has instructions on 16 bytes at once.
fn cargo(task: &str, folder: &Path, (clang, ar): &(PathBuf, PathBuf)) -> Run {
    crate::command::cargo([task, "--release", "--locked", "--target", TARGET])
        .args(["--manifest-path", MANIFEST])
        .env("CARGO_TARGET_DIR", folder)
        .env("CC_wasm32_unknown_unknown", clang)
        .env("AR_wasm32_unknown_unknown", ar)
        .env("CFLAGS_wasm32_unknown_unknown", "-msimd128")
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", "-C target-feature=+simd128")
}

/// Refuses a module that is too large.
fn measure(module: &Path) -> Outcome {
    let read = |path: &Path| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
    let packed = module.with_extension("wasm.gz");
    let len = read(module)?.len();
    program("gzip").args(["-9", "--keep", "--force"]).args([module]).run()?;
    let sizes = [len, read(&packed)?.len()];
    eprintln!("{}: {} bytes, {} gzipped", module.display(), sizes[0], sizes[1]);
    match sizes[0] <= MOST[0] && sizes[1] <= MOST[1] {
        true => Ok(()),
        false => Err(format!("the module may have {} bytes, and {} gzipped", MOST[0], MOST[1])),
    }
}

/// Clang and an archiver: the system's, or those of Debian's packages, unpacked below `folder`.
fn compiler(folder: &Path) -> Result<Option<(PathBuf, PathBuf)>, String> {
    let works = |clang: &Path| program(clang).args(["--target=wasm32", "--version"]).succeeds();
    let system = (PathBuf::from("clang"), PathBuf::from("llvm-ar"));
    if works(&system.0) && program(&system.1).args(["--version"]).succeeds() {
        return Ok(Some(system));
    }
    let own = folder.join("clang");
    let (bin, lib) = (own.join("usr/lib/llvm-19/bin"), own.join("usr/lib/x86_64-linux-gnu"));
    let [clang, ar] = ["clang", "llvm-ar"].map(|name| own.join(name));
    if !works(&clang) {
        std::fs::create_dir_all(&own).map_err(|e| format!("{}: {e}", own.display()))?;
        if !program("apt-get").args(["download"]).args(PACKAGES).within(&own).succeeds() {
            return Ok(None);
        }
        let unpack = "for f in *.deb; do dpkg -x \"$f\" . && rm \"$f\"; done";
        program("sh").args(["-e", "-c", unpack]).within(&own).run()?;
        // The libraries lie where no system looks for them.
        for (name, path) in [("clang", &clang), ("llvm-ar", &ar)] {
            let text = format!(
                "#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' \"$@\"\n",
                lib.display(),
                bin.join(name).display()
            );
            std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            program("chmod").args(["+x"]).args([path]).run()?;
        }
    }
    Ok(works(&clang).then_some((clang, ar)))
}
