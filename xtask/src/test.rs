//! All that must pass before a change lands.

use crate::command::{Outcome, cargo};
use crate::{check, docs, fuzz, interop, python, sizes};

/// `cargo xtask test`: the quick checks first, the tests last.
pub(crate) fn all(_args: &[String]) -> Outcome {
    sizes::sizes(&[])?;
    docs::write(&["--check".to_owned()])?;
    check::check(&[])?;
    check::features(&[])?;
    hostile_as_released()?;
    a_million_records()?;
    fuzz::smoke(&[])?;
    interop::interop(&[])?;
    python::python(&[])?;
    cargo(["test", "--workspace"]).run()
}

/// What hostile bytes do must be the same where arithmetic is not checked for overflow.
fn hostile_as_released() -> Outcome {
    cargo(["test", "--profile", "hostile", "--package", "holdall-core"]).run()?;
    cargo(["test", "--profile", "hostile", "--package", "holdall"])
        .args(["--test", "corpus*", "--test", "truncate", "--test", "windowed"])
        .run()
}

/// Datasets of the size that people have, from the command and from the library.
fn a_million_records() -> Outcome {
    // Without the engine for ONNX, which takes minutes to build and has no part in it.
    cargo(["test", "--profile", "hostile", "--package", "holdall-cli", "--test", "million"])
        .args(["--no-default-features", "--features", "ztensor,metatensor,safetensors"])
        .args(["--", "--ignored"])
        .run()?;
    cargo(["run", "--profile", "hostile", "--package", "holdall", "--example", "dataset"])
        .args(["--", "1000000"])
        .run()
}
