//! Formatting, lints and docs of every workspace; what keeps the crates apart; the library with each format alone.

use crate::command::{Outcome, cargo, root, target};
use holdall::FORMATS;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// `cargo xtask check`.
pub(crate) fn check(_args: &[String]) -> Outcome {
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
    let alone: BTreeSet<&str> = FORMATS.iter().map(|f| feature_of(f.id)).collect();
    for set in [""].into_iter().chain(alone) {
        lint(&["holdall-core"], set)?;
    }
    // All of them is what the rest of the workspace is built with. Of what makes a build large, each is left out once.
    lint(&["holdall", "holdall-cli"], "")?;
    lint(&["holdall", "holdall-cli"], "http")?;
    lint(&["holdall"], "stores")?;
    lint(&["holdall"], "arrow,metatensor")?;
    lint(&["holdall", "holdall-cli"], "parquet,metatensor")?;
    lint(&["holdall-net"], "")?;
    lint(&["holdall", "holdall-cli"], "ztensor,metatensor,safetensors")?;
    // The second engine for ONNX, without the first.
    lint(&["holdall-run", "holdall-cli"], "onnxruntime")
}

/// The cargo feature that brings a format.
fn feature_of(format: &str) -> &str {
    match format {
        "keras" => "hdf5",
        "npy" | "npz" => "numpy",
        "onnx" => "onnx-file",
        own => own,
    }
}

/// Clippy for packages with some features and no others.
fn lint(packages: &[&str], features: &str) -> Outcome {
    cargo(["clippy", "--no-default-features", "--features", features])
        .args(packages.iter().flat_map(|package| ["--package", *package]))
        .args(["--", "-D", "warnings"])
        .run()
}
