//! The target that the feature `parquet` brings, tried where that feature is built anyway.

use std::process::Command;

#[test]
fn changed_bytes_of_columns() {
    let fuzzer = env!("CARGO_BIN_EXE_fuzz-smoke");
    let ended = Command::new(fuzzer).args(["--targets", "columns"]).status().unwrap();
    assert!(ended.success(), "{ended}");
}
