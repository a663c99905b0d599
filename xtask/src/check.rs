//! Formatting, lints and docs of every workspace; what keeps the crates apart; the library with each format alone.

use crate::command::{Outcome, cargo, root, target};
use holdall::FORMATS;
use std::path::PathBuf;

/// `cargo xtask check`.
pub(crate) fn check(_args: &[String]) -> Outcome {
    crate::layers::layers(&[])?;
    cargo(["fmt", "--all", "--check"]).run()?;
    cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()?;
    cargo(["doc", "--workspace", "--no-deps", "--lib"]).env("RUSTDOCFLAGS", "-D warnings").run()?;
    for manifest in other_workspaces()? {
        let path = ["--manifest-path".into(), manifest];
        cargo(["fmt", "--check"]).args(&path).run()?;
        cargo(["clippy", "--all-targets"])
            .args(&path)
            .env("CARGO_TARGET_DIR", others_target())
            .args(["--", "-D", "warnings"])
            .run()?;
    }
    Ok(())
}

/// Where the workspaces beside the main one are built, all in one place because they share crates.
pub(crate) fn others_target() -> PathBuf {
    target().join("interop")
}

/// The manifests of the workspaces beside the main one, which cannot build under one lock file with it.
/// The libFuzzer wrappers are not among them: their bodies are in the main workspace, and they need a
/// nightly compiler.
fn other_workspaces() -> Result<Vec<PathBuf>, String> {
    let mut all = vec![PathBuf::from("benches/Cargo.toml")];
    let peers = root().join("interop/peers");
    if peers.is_dir() {
        let entries = peers.read_dir().map_err(|e| format!("{}: {e}", peers.display()))?;
        let mut own: Vec<_> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
        own.sort();
        all.extend(own.into_iter().map(|p| p.join("Cargo.toml")).filter(|p| p.is_file()));
    }
    Ok(all)
}

/// `cargo xtask features`.
pub(crate) fn features(_args: &[String]) -> Outcome {
    let ids: Vec<&str> = FORMATS.iter().map(|f| f.id).collect();
    let mut sets: Vec<String> = vec![String::new(), ids.join(",")];
    sets.extend(ids.iter().map(|id| (*id).to_owned()));
    for package in ["holdall-core", "holdall", "holdall-cli"] {
        if !root().join("crates").join(package).is_dir() {
            continue;
        }
        let mut sets = sets.clone();
        if package != "holdall-core" {
            sets.extend(["http".to_owned(), format!("{},http", ids.join(","))]);
        }
        for set in &sets {
            cargo(["clippy", "--package", package, "--no-default-features", "--features", set])
                .args(["--", "-D", "warnings"])
                .run()?;
        }
    }
    // The second engine for ONNX, without the first.
    cargo(["clippy", "--package", "holdall-cli", "--package", "holdall-run"])
        .args(["--no-default-features", "--features", "onnxruntime", "--", "-D", "warnings"])
        .run()?;
    Ok(())
}
