//! Records as Rust structs: the snippets of `docs/rust.md` about them.
//!
//! ```text
//! cargo run -p holdall --features derive --example mirror
//! ```
#![allow(dead_code)] // The test that includes this file calls `run` itself.

use bytemuck::AnyBitPattern;
use holdall::records::{Build, Record};
use holdall::{TensorRecords as _, WriteOptions};
use serde_json::json;
use std::path::Path;

fn main() -> holdall::Result<()> {
    run(&std::env::temp_dir().join("mirror.zt"))
}

// The mirror of a struct with "align": "natural".
#[derive(Clone, Copy, Record, AnyBitPattern)]
#[repr(C)]
struct Point {
    x: f32,
    y: f32,
    label: i32,
}

/// Writes points to `path` and reads them as structs.
pub(crate) fn run(path: &Path) -> holdall::Result<()> {
    let number = |kind: &str| json!({ kind: true });
    let kind = json!({
        "TypeDef:Struct": ["x", "y", "label"],
        "align": "natural",
        "required": ["x", "y", "label"],
        "properties": {
            "x": number("TypeDef:Float32"),
            "y": number("TypeDef:Float32"),
            "label": number("TypeDef:Int32")
        }
    });
    let mut build = Build::create(path, &WriteOptions::new().with_overwrite(true))?;
    let mut points = build.dataset_with_schema("points", &kind)?;
    for i in 0..1000 {
        points.value(&json!({"x": i, "y": 0.5, "label": i % 10}))?;
    }
    build.add(points)?;
    build.finish()?;

    let records = holdall::open(path)?.tensor("points")?.records()?;
    let points = records.structs::<Point>()?;
    let third: Point = points.get(3)?;
    assert_eq!((third.x, third.label), (3.0, 3));

    // Borrowed from the map, without a copy.
    let all: &[Point] = points.slice().unwrap_or_default();
    assert_eq!(all.iter().map(|p| p.y).sum::<f32>(), 500.0);
    Ok(())
}
