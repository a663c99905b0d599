//! Formatting, lints and docs of every workspace; the layering of the crates; the library with
//! each format alone.

use crate::command::{Outcome, Run, cargo, target};
use crate::interop;
use crate::public_api::MANIFEST as PUBLIC_API;
use crate::wasm::MANIFEST as WASM;
use std::path::PathBuf;

const BENCHES: &str = "benches/Cargo.toml";

/// `cargo xtask check`.
pub(crate) fn check(args: &[String]) -> Outcome {
    formatting(args)?;
    workspace(args)?;
    others(args)
}

/// Checks the formatting of every workspace.
pub(crate) fn formatting(_args: &[String]) -> Outcome {
    cargo(["fmt", "--all", "--check"]).run()?;
    let beside = [BENCHES, WASM, PUBLIC_API, "fuzz/libfuzzer/Cargo.toml"].map(PathBuf::from);
    let check = |path| cargo(["fmt", "--check", "--manifest-path"]).args([path]).run();
    beside.into_iter().chain(interop::manifests()).try_for_each(check)
}

/// Checks lints and docs of the main workspace.
pub(crate) fn workspace(_args: &[String]) -> Outcome {
    let clippy = looks("clippy").args(["--workspace", "--all-targets"]);
    clippy.args(["--", "-D", "warnings"]).run()?;
    // The example enables the features that tests need; dependencies are not checked again.
    let doc = looks("doc").args(["--workspace", "--no-deps", "--lib", "--example", "make_example"]);
    doc.env("RUSTDOCFLAGS", "-D warnings").run()
}

/// Checks the other workspaces. The peers are built, since tests need them; their manifests turn
/// compiler warnings into errors.
pub(crate) fn others(_args: &[String]) -> Outcome {
    let clippy = looks("clippy").args(["--all-targets", "--manifest-path", BENCHES]);
    clippy.args(["--", "-D", "warnings"]).run()?;
    interop::build()
}

/// Returns a `cargo` task that checks code without building programs: in a separate target
/// folder, so that it need not wait for builds, and with a profile without optimisation.
pub(crate) fn looks(task: &str) -> Run {
    cargo([task, "--profile", "looked-at"]).env("CARGO_TARGET_DIR", target().join("looked-at"))
}

/// Returns the target folder of the peers, shared because they have common dependencies.
pub(crate) fn others_target() -> PathBuf {
    target().join("interop")
}

/// `cargo xtask features`.
pub(crate) fn features(_args: &[String]) -> Outcome {
    for set in [""].into_iter().chain(holdall_formats::families()) {
        compile(&["holdall-formats"], set)?;
    }
    // The rest of the workspace is built with all of them. Each large feature is left out once.
    compile(&["holdall", "holdall-cli"], "")?;
    compile(&["holdall", "holdall-cli"], "http,parquet,metatensor,safetensors")?;
    // With the second engine for ONNX, without the first.
    compile(&["holdall", "holdall-run", "holdall-cli"], "stores,quic,run-onnxruntime")?;
    compile(&["holdall-net"], "")
}

/// Checks that packages compile with only these features and without warnings about unused code.
/// Clippy, which takes twice as long, has checked the same lines with all features.
fn compile(packages: &[&str], features: &str) -> Outcome {
    looks("check")
        .args(["--quiet", "--no-default-features", "--features", features])
        .args(packages.iter().flat_map(|package| ["--package", *package]))
        .silent()
}
