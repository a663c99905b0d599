//! Changed bytes, and what must hold whatever they are.

use crate::command::{Outcome, optimised, program, target};

/// `cargo xtask fuzz-smoke`: the arguments go to the fuzzer, whose own words are in `fuzz/`.
pub(crate) fn smoke(args: &[String]) -> Outcome {
    // Parquet and Arrow files take a minute to build, and have a stage of their own in `cargo xtask test`.
    let with_columns = args.iter().any(|arg| arg.split(',').any(|target| target == "columns"));
    let columns = with_columns.then_some(["--features", "holdall-fuzz/parquet"]);
    let build = optimised("build").args(["--quiet", "--workspace", "--bin", "fuzz-smoke"]);
    build.args(columns.into_iter().flatten()).run()?;
    program(target().join("debug/fuzz-smoke")).args(args).run()
}
