//! A dataset of texts, images and labels: written, sampled, filtered by a column.
//!
//! ```text
//! cargo run -p holdall --example dataset
//! ```
//!
//! A test runs it, and compares the snippets of `docs/rust.md` with these functions.
#![allow(dead_code)] // The test that includes this file calls `run` itself.

use holdall::WriteOptions;
use holdall::records::Build;
use serde_json::{Value, json};
use std::path::Path;

/// Pixels of an image: 8 × 8.
const PIXELS: usize = 64;

fn main() -> holdall::Result<()> {
    let folder = std::env::temp_dir();
    run(&folder.join("dataset.zt"), &folder.join("dataset-dogs.zt"))
}

/// Writes a dataset to `path`, and what is of one label to `dogs`.
pub(crate) fn run(path: &Path, dogs: &Path) -> holdall::Result<()> {
    build(path)?;
    sample(path)?;
    filter(path, dogs)
}

/// What a record is made of.
fn kind() -> Value {
    json!({
        "type": "object",
        "TypeDef:Struct": ["caption", "pixels", "label", "score"],
        "required": ["caption", "pixels", "label"],
        "properties": {
            "caption": {"type": "string", "TypeDef:String": true},
            "pixels": {"TypeDef:Tensor": {"dtype": "U8", "shape": [8, 8]}},
            "label": {"type": "integer", "TypeDef:Int32": true},
            "score": {"type": "number", "TypeDef:Float32": true}
        }
    })
}

fn build(path: &Path) -> holdall::Result<()> {
    let mut build = Build::create(path, &WriteOptions::new().with_overwrite(true))?;

    // One record at a time, of JSON values or text.
    let mut train = build.dataset_of("train", &kind())?.with_dedup();
    for i in 0..900 {
        train.value(&json!({
            "caption": format!("a picture of class {}", i % 3),
            "pixels": {"data": vec![i % 256; PIXELS]},
            "label": i % 3,
            "score": i as f32 / 900.0
        }))?;
    }

    // A line each, encoded on all cores.
    let pixels = vec!["7"; PIXELS].join(",");
    let lines: String = (0..100)
        .map(|i| {
            format!("{{\"caption\": \"line {i}\", \"pixels\": {{\"data\": [{pixels}]}}, \"label\": 1}}\n")
        })
        .collect();
    assert_eq!(train.lines(lines.as_bytes())?, 100);
    build.add(train)?;

    // Texts that belong to no record.
    let mut words = build.blob_of("words", holdall::schema::Content::Utf8)?;
    for word in ["cat", "dog", "bird"] {
        words.text(word)?;
    }
    build.add(words)?;
    let report = build.finish()?;
    println!("{} tensors, {} bytes", report.tensors, report.target_len);
    Ok(())
}

fn sample(path: &Path) -> holdall::Result<()> {
    let file = holdall::open(path)?;
    let records = file.tensor("train")?.records()?;
    let (caption, pixels) = (records.accessor("caption")?, records.accessor("pixels")?);
    let score = records.typed::<f32>("score")?;

    // Any order costs the same: a record is found by its place.
    for i in (0..records.len()).map(|i| i * 617 % records.len()).take(8) {
        let record = records.record(i)?;
        let text = record.string(&caption)?.unwrap_or_default();
        let image: &[u8] = record.raw(&pixels)?.unwrap_or_default();
        println!("{i}: {text}, {} pixels, score {:?}", image.len(), record.get(&score)?);
        assert_eq!(image.len(), PIXELS);
    }

    let words = file.tensor("words")?.blob()?;
    assert_eq!(words.str(1)?, "dog");
    Ok(())
}

fn filter(path: &Path, dogs: &Path) -> holdall::Result<()> {
    let records = holdall::open(path)?.tensor("train")?.records()?;
    let labels: Vec<i32> = records.column("label")?.to_vec()?;

    let mut build = Build::create(dogs, &WriteOptions::new().with_overwrite(true))?;
    let mut chosen = build.dataset_of("train", &kind())?;
    for (i, _) in (0..).zip(&labels).filter(|(_, label)| **label == 1) {
        chosen.copy(&records.record(i)?)?;
    }
    assert_eq!(chosen.len(), 400);
    build.add(chosen)?;
    build.finish()?;
    Ok(())
}
