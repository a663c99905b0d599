//! A dataset of texts, images and labels: written, sampled, filtered by a column, migrated to another schema.
//!
//! ```text
//! cargo run --release -p holdall --example dataset -- 1000000
//! ```
//!
//! A test runs it, and compares the snippets of `docs/rust.md` with these functions.
#![allow(dead_code)] // The test that includes this file calls `run` itself.

use holdall::records::{Build, Conversion, Migration};
use holdall::schema::{Converters, Document, Reading, ResolveOptions, SchemaLimits, by_value};
use holdall::{TensorRecords as _, WriteOptions};
use serde_json::{Value, json};
use std::path::Path;

/// Pixels of an image: 8 × 8.
const PIXELS: usize = 64;

fn main() -> holdall::Result<()> {
    let count = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1000);
    run(&std::env::temp_dir(), count)
}

/// Writes a dataset of `count` records into `folder`, then the records of one label, then all of them under a
/// new schema.
pub(crate) fn run(folder: &Path, count: u64) -> holdall::Result<()> {
    let (path, dogs, new) = ("dataset.mt", "dataset-dogs.mt", "dataset-new.zt");
    let (path, dogs, new) = (folder.join(path), folder.join(dogs), folder.join(new));
    build(&path, count)?;
    sample(&path)?;
    filter(&path, &dogs)?;
    ask(&path)?;
    migrate(&path, &new)?;
    read(&path)
}

/// Returns the kind of a record.
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

fn build(path: &Path, count: u64) -> holdall::Result<()> {
    let mut build = Build::create(path, &WriteOptions::new().with_overwrite(true))?;

    // One record at a time, from JSON values or text.
    let mut train = build.dataset_with_schema("train", &kind())?.with_dedup();
    for i in 0..count - 100 {
        train.value(&json!({
            "caption": format!("a picture of class {}", i % 3),
            "pixels": {"data": vec![i % 256; PIXELS]},
            "label": i % 3,
            "score": i as f32 / count as f32
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
    let mut words = build.blob_with_content("words", holdall::schema::Content::Utf8)?;
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

    // Any order costs the same: a record is found by its index.
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
    let mut chosen = build.dataset_with_schema("train", &kind())?;
    for (i, _) in (0..).zip(&labels).filter(|(_, label)| **label == 1) {
        chosen.copy(&records.record(i)?)?;
    }
    build.add(chosen)?;
    build.finish()?;
    Ok(())
}

fn ask(path: &Path) -> holdall::Result<()> {
    let records = holdall::open(path)?.tensor("train")?.records()?;
    let query = records.query().with_condition("label in (1, 2) and score>=0.5")?;
    println!("{} of {}", query.count()?, records.len());
    for group in query.groups(&["label"], &["mean(score)"])? {
        println!("{:?}: {}, {:?}", group.values, group.count, group.aggregates);
    }
    for record in query.with_order(&["-score"])?.with_sample(3, 1).run()? {
        println!("{}", record?.to_json()?);
    }
    Ok(())
}

/// Returns the later kind of a record: labels are wider, there are stars, and the caption is a title.
fn new_kind() -> Value {
    let mut kind = kind();
    kind["TypeDef:Struct"] = json!(["title", "pixels", "label", "score", "stars"]);
    kind["required"] = json!(["title", "pixels", "label", "stars"]);
    let members = kind["properties"].as_object_mut().expect("an object");
    members.remove("caption");
    members.insert("title".to_owned(), json!({"type": "string", "TypeDef:String": true}));
    members.insert("label".to_owned(), json!({"type": "integer", "TypeDef:Int64": true}));
    members.insert("stars".to_owned(), json!({"TypeDef:Uint8": true, "default": 3}));
    kind
}

fn migrate(path: &Path, new: &Path) -> holdall::Result<()> {
    let records = holdall::open(path)?.tensor("train")?.records()?;
    let mut build = Build::create(new, &WriteOptions::new().with_overwrite(true))?;
    let mut train = build.dataset_with_schema("train", &new_kind())?;

    // The title is the caption with a capital letter.
    let options = ResolveOptions::default()
        .with_rename("title".parse()?, "caption".parse()?)
        .with_converter("title".parse()?, "capital");
    let resolution = train.resolve(&records, &options)?;
    resolution.keeps_all()?;
    let (old_schema, new_schema) = (records.schema(), train.schema().clone());
    let capital = by_value(old_schema, &new_schema, SchemaLimits::default(), |value| {
        let text = value.as_str().unwrap_or_default();
        let (first, rest) = text.split_at(text.len().min(1));
        Ok(format!("{}{rest}", first.to_uppercase()).into())
    });
    let converters = Converters::new().with("capital", capital);
    train.migrate(&records, 0..records.len(), &resolution, &converters)?;
    build.add(train)?;
    build.finish()?;

    let migrated = holdall::open(new)?.tensor("train")?.records()?;
    assert_eq!(migrated.len(), records.len());
    let first = migrated.record(0)?.to_value()?;
    assert_eq!((&first["title"], &first["stars"]), (&json!("A picture of class 0"), &json!(3)));
    Ok(())
}

/// Reads the dataset under the schema of a program that needs 16-bit numbers, and no captions.
fn read(path: &Path) -> holdall::Result<()> {
    let schema = json!({
        "TypeDef:Struct": ["label", "score", "source"],
        "required": ["label", "score", "source"],
        "properties": {
            "label": {"TypeDef:Uint8": true},
            "score": {"TypeDef:BFloat16": true, "default": 0},
            "source": {"TypeDef:String": true, "default": "made up"}
        }
    });

    let new = Document::new(schema, "new", Reading::Record, &SchemaLimits::default())?;
    let migration = Migration::new(new)
        .with_converter("label", "cast".parse::<Conversion>()?)
        .with_converter("score", "scale(10)|cast".parse::<Conversion>()?)
        .with_drop();
    for step in migration.plan(&holdall::open(path)?)?.steps {
        println!("{step}");
    }
    let view = migration.view(&holdall::open(path)?)?;
    println!("{}", view.tensor("train")?.records()?.record(7)?.to_json()?);
    Ok(())
}
