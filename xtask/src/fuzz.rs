//! Changed bytes, and what must hold whatever they are.

use crate::command::Outcome;
use crate::test::optimised;

/// `cargo xtask fuzz-smoke`: the arguments go to the fuzzer, whose own words are in `fuzz/`.
pub(crate) fn smoke(args: &[String]) -> Outcome {
    // Parquet and Arrow files take a minute to build, and have a stage of their own in `cargo xtask test`.
    let with_columns = args.iter().any(|arg| arg.split(',').any(|target| target == "columns"));
    optimised(&["run", "--quiet", "--package", "holdall-fuzz", "--bin", "fuzz-smoke"], true)
        .args(with_columns.then_some(["--features", "parquet"]).into_iter().flatten())
        .args(["--"])
        .args(args)
        .run()
}
