//! Changed bytes, and what must hold whatever they are.

use crate::command::{Outcome, cargo};

/// `cargo xtask fuzz-smoke`: the arguments go to the fuzzer, whose own words are in `fuzz/`.
pub(crate) fn smoke(args: &[String]) -> Outcome {
    cargo(["run", "--quiet", "--profile", "fuzz", "--package", "holdall-fuzz", "--bin"])
        .args(["fuzz-smoke", "--"])
        .args(args)
        .run()
}
