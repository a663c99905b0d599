//! Runs the target of the feature `parquet` when that feature is enabled.

use std::process::Command;

#[test]
fn changed_bytes_of_columns() {
    let fuzzer = env!("CARGO_BIN_EXE_fuzz-smoke");
    let ended = Command::new(fuzzer).args(["--targets", "columns"]).status().unwrap();
    assert!(ended.success(), "{ended}");
}
