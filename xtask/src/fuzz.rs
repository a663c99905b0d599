//! Changed bytes, and what must hold whatever they are.

use crate::command::Outcome;
use crate::test::optimised;

/// `cargo xtask fuzz-smoke`: the arguments go to the fuzzer, whose own words are in `fuzz/`.
pub(crate) fn smoke(args: &[String]) -> Outcome {
    optimised(&["run", "--quiet", "--package", "holdall-fuzz", "--bin", "fuzz-smoke"], true)
        .args(["--"])
        .args(args)
        .run()
}
