//! Builds the pure crates for WebAssembly, which has no files, threads or clocks: the modules of
//! the JavaScript package, whole and basic, and checks their sizes.

use crate::command::{Outcome, Run, program, root, target};
use std::path::{Path, PathBuf};

const TARGET: &str = "wasm32-unknown-unknown";
pub(crate) const MANIFEST: &str = "js/wasm/Cargo.toml";
/// The modules, each with its profile, further arguments of cargo, and its maximum size in bytes
/// and after `gzip -9`. The last is built last, so that later checks use the same features.
const MODULES: [(&str, &[&str], [usize; 2]); 2] = [
    ("basic", &["--no-default-features"], [1_086_000, 431_500]),
    ("release", &[], [3_563_000, 1_404_000]),
];
/// Disables alternative decoders of zstd: a third of its code.
const C_FLAGS: &str = "-msimd128 -DHUF_FORCE_DECOMPRESS_X1 -DZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT";
/// Debian's packages of a C compiler for WebAssembly, used for zstd if the system has none.
const PACKAGES: [&str; 5] =
    ["clang-19", "libclang-cpp19", "libllvm19", "libclang-common-19-dev", "llvm-19"];

/// `cargo xtask wasm`.
pub(crate) fn wasm(_args: &[String]) -> Outcome {
    let Some(_) = build()? else { return Ok(()) };
    let folder = target().join("wasm");
    let Some(tools) = compiler(&folder)? else { return Ok(()) };
    // The whole module includes the basic one, and unused code was a warning in its build.
    let (profile, features, _) = MODULES[MODULES.len() - 1];
    let lint = cargo("clippy", profile, &folder, &tools).args(features);
    lint.args(["--", "-D", "warnings"]).run()
}

/// Builds the modules, if the required tools are available: the whole one, and the basic one.
pub(crate) fn build() -> Result<Option<[PathBuf; 2]>, String> {
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
    let tools = (clang, ar);
    let [basic, whole] = MODULES.map(|(profile, features, most)| {
        cargo("build", profile, &folder, &tools).args(["--quiet"]).args(features).silent()?;
        let module = folder.join(TARGET).join(profile).join("holdall_wasm.wasm");
        measure(&module, most)?;
        Ok::<_, String>(module)
    });
    Ok(Some([whole?, basic?]))
}

/// Returns a cargo task for a module.
fn cargo(task: &str, profile: &str, folder: &Path, (clang, ar): &(PathBuf, PathBuf)) -> Run {
    crate::command::cargo([task, "--profile", profile, "--locked", "--target", TARGET])
        .args(["--manifest-path", MANIFEST])
        .env("CARGO_TARGET_DIR", folder)
        .env("CC_wasm32_unknown_unknown", clang)
        .env("AR_wasm32_unknown_unknown", ar)
        .env("CFLAGS_wasm32_unknown_unknown", C_FLAGS)
        .env("CARGO_ENCODED_RUSTFLAGS", rust_flags().join("\x1f"))
}

/// Returns compiler flags: every supported runtime has 128-bit SIMD, and paths are removed so
/// that the module has the same bytes wherever it is built.
fn rust_flags() -> Vec<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let folders = [Some(root().to_owned()), home.map(|home| home.join("registry/src"))];
    let hidden = folders.into_iter().flatten();
    let hidden = hidden.map(|folder| format!("--remap-path-prefix={}/=", folder.display()));
    ["-C", "target-feature=+simd128"].map(str::to_owned).into_iter().chain(hidden).collect()
}

/// Fails if a module is too large.
fn measure(module: &Path, most: [usize; 2]) -> Outcome {
    let read = |path: &Path| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
    let packed = module.with_extension("wasm.gz");
    let len = read(module)?.len();
    program("gzip").args(["-9", "--keep", "--force"]).args([module]).run()?;
    let sizes = [len, read(&packed)?.len()];
    eprintln!("{}: {} bytes, {} gzipped", module.display(), sizes[0], sizes[1]);
    match sizes[0] <= most[0] && sizes[1] <= most[1] {
        true => Ok(()),
        false => Err(format!("the module may have {} bytes, and {} gzipped", most[0], most[1])),
    }
}

/// Returns clang and an archiver: the system's, or those of Debian's packages, unpacked below
/// `folder`.
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
        // The libraries are in a non-standard folder.
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
