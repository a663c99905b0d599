//! Converts records to Arrow batches and back: the snippets of `docs/rust.md` about them.
//!
//! ```text
//! cargo run -p holdall --features arrow --example arrow
//! ```
#![allow(dead_code)] // The test that includes this file calls `run` itself.

use holdall::records::Build;
use holdall::records::arrow::arrow_array::cast::AsArray as _;
use holdall::records::arrow::arrow_array::types::Float64Type;
use holdall::records::arrow::arrow_array::{Float64Array, Int64Array, RecordBatch};
use holdall::{TensorRecords as _, WriteOptions};
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&std::env::temp_dir().join("table.mt"))
}

/// Writes a table to `path` and reads it.
pub(crate) fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    write(path)?;
    read(path)
}

fn write(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let ids = Arc::new(Int64Array::from_iter_values(0..1000));
    let scores = Arc::new(Float64Array::from_iter((0..1000).map(|i| (i % 2 == 0).then_some(0.5))));
    let table = RecordBatch::try_from_iter([("id", ids as _), ("score", scores as _)])?;

    let mut build = Build::create(path, &WriteOptions::new().with_overwrite(true))?;
    let kind = holdall::records::arrow::row_schema(&table.schema())?;
    let mut set = build.dataset_with_schema("table", &kind)?;
    set.batch(&table)?;
    build.add(set)?;
    build.finish()?;
    Ok(())
}

fn read(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let records = holdall::open(path)?.tensor("table")?.records()?;
    let columns = records.arrow(&["score"])?;
    let found = records.query().with_condition("id<100")?;
    let mut sum = 0.0;
    for batch in columns.batches(found.run()?, 64) {
        sum += batch?["score"].as_primitive::<Float64Type>().iter().flatten().sum::<f64>();
    }
    assert_eq!(sum, 25.0);
    Ok(())
}
