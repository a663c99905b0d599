//! Changed bytes, and what must hold whatever they are.

use crate::command::{Outcome, built, program};

/// `cargo xtask fuzz-smoke`: the arguments go to the fuzzer, whose own words are in `fuzz/`.
pub(crate) fn smoke(args: &[String]) -> Outcome {
    // Parquet and Arrow files take a minute to build, and have a stage of their own in `cargo xtask test`.
    let with_columns = args.iter().any(|arg| arg.split(',').any(|target| target == "columns"));
    let columns: &[&str] = if with_columns { &["--features", "holdall-fuzz/parquet"] } else { &[] };
    program(built("fuzz-smoke", columns)?).args(args).run()
}
