//! Formatting, lints and docs of every workspace; what keeps the crates apart; the library with each format alone.

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

/// Formatting of every workspace.
pub(crate) fn formatting(_args: &[String]) -> Outcome {
    cargo(["fmt", "--all", "--check"]).run()?;
    let beside = [BENCHES, WASM, PUBLIC_API, "fuzz/libfuzzer/Cargo.toml"].map(PathBuf::from);
    let check = |path| cargo(["fmt", "--check", "--manifest-path"]).args([path]).run();
    beside.into_iter().chain(interop::manifests()).try_for_each(check)
}

/// Lints and docs of the main workspace.
pub(crate) fn workspace(_args: &[String]) -> Outcome {
    let clippy = looks("clippy").args(["--workspace", "--all-targets"]);
    clippy.args(["--", "-D", "warnings"]).run()?;
    // The example brings the features that tests have: nothing of others is looked at again.
    let doc = looks("doc").args(["--workspace", "--no-deps", "--lib", "--example", "make_example"]);
    doc.env("RUSTDOCFLAGS", "-D warnings").run()
}

/// Lints of the workspaces beside it. The peers are built, for tests need them; their manifests make errors of the
/// compiler's warnings.
pub(crate) fn others(_args: &[String]) -> Outcome {
    let clippy = looks("clippy").args(["--all-targets", "--manifest-path", BENCHES]);
    clippy.args(["--", "-D", "warnings"]).run()?;
    interop::build()
}

/// A task of `cargo` that looks at code and builds no programs: in a place of its own, so that it need not wait for what builds some, and
/// by a profile that optimises nothing.
pub(crate) fn looks(task: &str) -> Run {
    cargo([task, "--profile", "looked-at"]).env("CARGO_TARGET_DIR", target().join("looked-at"))
}

/// Where the peers are built, all in one place because they share crates.
pub(crate) fn others_target() -> PathBuf {
    target().join("interop")
}

/// `cargo xtask features`.
pub(crate) fn features(_args: &[String]) -> Outcome {
    for set in [""].into_iter().chain(holdall_formats::families()) {
        compile(&["holdall-formats"], set)?;
    }
    // All of them is what the rest of the workspace is built with. Of what makes a build large, each is left out once.
    compile(&["holdall", "holdall-cli"], "")?;
    compile(&["holdall", "holdall-cli"], "http,parquet,metatensor,safetensors")?;
    // With the second engine for ONNX, without the first.
    compile(&["holdall", "holdall-run", "holdall-cli"], "stores,quic,run-onnxruntime")?;
    compile(&["holdall-net"], "")
}

/// Checks that packages compile with some features and no others, without a warning: what is not used then is one. Clippy looked at the same
/// lines with all features, and takes twice as long.
fn compile(packages: &[&str], features: &str) -> Outcome {
    looks("check")
        .args(["--quiet", "--no-default-features", "--features", features])
        .args(packages.iter().flat_map(|package| ["--package", *package]))
        .silent()
}
