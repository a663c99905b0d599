//! Tests with mutated input, and the properties that must hold for any input.

use crate::command::{Outcome, built, program};

/// `cargo xtask fuzz-smoke`: the arguments are passed to the fuzzer in `fuzz/`, which documents
/// them.
pub(crate) fn smoke(args: &[String]) -> Outcome {
    // Parquet and Arrow take a minute to build, and are a separate stage of `cargo xtask test`.
    let with_columns = args.iter().any(|arg| arg.split(',').any(|target| target == "columns"));
    let columns: &[&str] = if with_columns { &["--features", "holdall-fuzz/parquet"] } else { &[] };
    program(built("fuzz-smoke", columns)?).args(args).run()
}
