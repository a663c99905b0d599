//! The workload files of records, texts and references: their contents, and how each is written.
//!
//! Files that are only opened consist of a header written by Holdall and a hole. Arrow files are written by the `arrow`
//! crate.

use crate::files::Workload::{self, *};
use crate::peers::arrow;
use crate::workload::{ALL_LAYERS, XorShift, llama};
use anyhow::{Result, bail};
use holdall::records::Build;
use holdall::schema::Content;
use holdall::{Durability, WriteOptions, formats};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The name of the dataset in files that have one.
pub const SAMPLES: &str = "samples";
/// The name of the blob in files that have one.
pub const TEXTS: &str = "texts";

/// A record of the file [`Samples`] as a Rust program would declare it. Its record type in the schema is
/// [`sample_kind`].
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub id: u64,
    pub score: f32,
    pub label: i32,
    pub corners: [f32; 4],
    pub weights: [f32; 8],
}

/// Writes the workload file.
pub fn write(file: Workload, path: &Path, quick: bool) -> Result<()> {
    match file {
        Holes10G => write_holes(path),
        Header100k => write_listed(path, references(quick)),
        Header100kNamed => write_named(path, references(quick)),
        Samples => write_samples(path, samples(quick)),
        Texts => write_texts(path, &texts(quick)),
        TextRecords => write_text_records(path, &texts(quick)),
        TextsArrow => arrow::write(path, &texts(quick)),
        TextsArrowLarge => arrow::write_large(path, &texts(quick)),
        Lines => write_lines(path, lines(quick)),
        other => bail!("{other:?} is not written by this module"),
    }
}

fn references(quick: bool) -> u64 {
    if quick { 2_000 } else { 100_000 }
}

fn samples(quick: bool) -> u64 {
    if quick { 10_000 } else { 1_000_000 }
}

fn lines(quick: bool) -> u64 {
    if quick { 20_000 } else { 1_000_000 }
}

/// Returns texts of 20 to 60 letters, 40 on average.
fn texts(quick: bool) -> Vec<String> {
    let mut random = XorShift(0x7e47);
    (0..if quick { 20_000 } else { 1_000_000 }).map(|_| text(&mut random)).collect()
}

fn text(random: &mut XorShift) -> String {
    let len = 20 + random.next() % 41;
    let letter = |_| char::from(b" etaoinshrdlucmf"[(random.next() >> 60) as usize]);
    (0..len).map(letter).collect()
}

/// Returns the schema of [`Sample`].
fn sample_kind() -> Value {
    let floats = |count| fixed(json!({"TypeDef:Float32": true}), count);
    json!({
        "type": "object",
        "TypeDef:Struct": ["id", "score", "label", "corners", "weights"],
        "required": ["id", "score", "label", "corners", "weights"],
        "properties": {
            "id": {"TypeDef:Uint64": true},
            "score": {"TypeDef:Float32": true},
            "label": {"TypeDef:Int32": true},
            "corners": floats(4),
            "weights": floats(8),
        }
    })
}

/// Returns the schema of an array of `count` items.
fn fixed(items: Value, count: u64) -> Value {
    json!({
        "type": "array", "TypeDef:Array": true, "items": items, "minItems": count, "maxItems": count,
    })
}

/// Returns the schema of a line of [`Lines`].
pub fn line_kind() -> Value {
    json!({
        "type": "object",
        "TypeDef:Struct": ["id", "text", "score", "label", "position", "source"],
        "required": ["id", "text", "score", "label", "position", "source"],
        "properties": {
            "id": {"TypeDef:Int64": true},
            "text": {"TypeDef:String": true},
            "score": {"TypeDef:Float32": true},
            "label": {"TypeDef:Int32": true},
            "position": fixed(json!({"TypeDef:Float64": true}), 3),
            "source": {"TypeDef:String": true},
        }
    })
}

fn write_lines(path: &Path, count: u64) -> Result<()> {
    let mut random = XorShift(0x11e5);
    let mut out = BufWriter::new(File::create(path)?);
    for id in 0..count {
        let (text, label) = (text(&mut random), random.next() % 1000);
        let mut number = |scale: f64| (random.next() >> 40) as f64 / scale;
        let (score, position) = (number(1e8), [number(1e4), -number(1e5), number(1e6)]);
        let source =
            format!("https://example.org/{:06x}", id.wrapping_mul(0x9e37_79b1) & 0xff_ffff);
        let line = json!({
            "id": id, "text": text, "score": score, "label": label, "position": position,
            "source": source,
        });
        writeln!(out, "{line}")?;
    }
    Ok(out.into_inner()?.sync_all()?)
}

/// Returns the options for writing datasets.
pub fn options() -> WriteOptions {
    let options = WriteOptions::new().with_overwrite(true).with_durability(Durability::System);
    match formats::by_name("metatensor") {
        Some(format) => options.with_format(format),
        None => options,
    }
}

fn write_samples(path: &Path, count: u64) -> Result<()> {
    let mut random = XorShift(0x5a3b);
    let mut build = Build::create(path, &options())?;
    let mut samples = build.dataset_with_schema(SAMPLES, &sample_kind())?;
    for id in 0..count {
        let mut record = Vec::with_capacity(size_of::<Sample>());
        record.extend(id.to_le_bytes());
        for _ in 0..14 {
            record.extend(((random.next() >> 40) as f32).to_le_bytes());
        }
        samples.raw(&record, &[])?;
    }
    build.add(samples)?;
    build.finish()?;
    Ok(())
}

fn write_texts(path: &Path, texts: &[String]) -> Result<()> {
    let mut build = Build::create(path, &options())?;
    let mut blob = build.blob_with_content(TEXTS, Content::Utf8)?;
    for text in texts {
        blob.text(text)?;
    }
    build.add(blob)?;
    build.finish()?;
    Ok(())
}

fn write_text_records(path: &Path, texts: &[String]) -> Result<()> {
    let kind = json!({
        "type": "object",
        "TypeDef:Struct": ["text", "label"],
        "required": ["text", "label"],
        "properties": {"text": {"TypeDef:String": true}, "label": {"TypeDef:Int32": true}},
    });
    let mut build = Build::create(path, &options())?;
    let mut samples = build.dataset_with_schema(SAMPLES, &kind)?;
    for (label, text) in texts.iter().enumerate() {
        samples.value(&json!({"text": text, "label": label}))?;
    }
    build.add(samples)?;
    build.finish()?;
    Ok(())
}

/// Writes a file with a model, a dataset and a blob, 10 GB together, whose data is a hole.
fn write_holes(path: &Path) -> Result<()> {
    const RECORDS: u64 = 80_000_000;
    const RUNS: u64 = 20_000_000;
    let (mut tensors, mut properties) = (json!({}), json!({}));
    let mut data = Data::default();
    for spec in llama(ALL_LAYERS, false) {
        let shape = spec.shape_u64();
        put(&mut tensors, "", &spec.name, data.flat("BF16", &shape, spec.len() as u64));
        let tensor = json!({"type": "object", "TypeDef:Tensor": {"dtype": "BF16", "shape": shape}});
        put(&mut properties, "properties", &spec.name, tensor);
    }
    let offsets = data.take(RECORDS * size_of::<Sample>() as u64);
    tensors[SAMPLES] = json!({"count": RECORDS, "data_offsets": offsets});
    properties[SAMPLES] = json!({"type": "array", "TypeDef:Array": true, "items": sample_kind()});
    let entries = json!({"count": RUNS, "data_offsets": data.take(16 * RUNS)});
    let heap = RUNS * 105;
    tensors[TEXTS] = json!({"entries": entries, "blob_data": data.flat("U8", &[heap], heap)});
    properties[TEXTS] = json!({"type": "object", "TypeDef:Blob": {"content": "utf-8"}});
    data.write(path, json!({"type": "object", "properties": properties}), tensors)
}

/// Writes `count` small tensors in lists of a hundred, which the schema describes once.
fn write_listed(path: &Path, count: u64) -> Result<()> {
    let mut data = Data::default();
    let layers: Vec<Value> = (0..count / 100)
        .map(|_| {
            let experts = (0..100).map(|_| json!({"weight": data.flat("BF16", &[8, 4], 64)}));
            json!({ "experts": experts.collect::<Vec<_>>() })
        })
        .collect();
    let tensor = json!({"type": "object", "TypeDef:Tensor": {"dtype": "BF16", "shape": [8, 4]}});
    let list = |of: Value, key: &str| {
        let items = json!({"type": "object", "required": [key], "properties": {key: of}});
        json!({"type": "array", "items": items})
    };
    let layers_schema = list(list(tensor, "weight"), "experts");
    let schema = json!({"type": "object", "properties": {"layers": layers_schema}});
    data.write(path, schema, json!({ "layers": layers }))
}

/// Writes `count` small tensors, each with its own name and shape in the schema.
fn write_named(path: &Path, count: u64) -> Result<()> {
    let mut data = Data::default();
    let (mut tensors, mut properties) = (Map::new(), Map::new());
    for layer in 0..count / 100 {
        let (mut own, mut own_properties) = (Map::new(), Map::new());
        for expert in 0..100 {
            let (name, shape) = (format!("expert{expert:02}"), [1 + layer, 1 + expert]);
            let tensor =
                json!({"type": "object", "TypeDef:Tensor": {"dtype": "BF16", "shape": shape}});
            own.insert(name.clone(), data.flat("BF16", &shape, 2 * shape[0] * shape[1]));
            own_properties.insert(name, tensor);
        }
        let schema = json!({"type": "object", "properties": own_properties});
        tensors.insert(format!("layer{layer:04}"), own.into());
        properties.insert(format!("layer{layer:04}"), schema);
    }
    data.write(path, json!({"type": "object", "properties": properties}), tensors.into())
}

/// Sets `value` at a dotted name. Each intermediate object is the member `below` of the previous one.
fn put(root: &mut Value, below: &str, name: &str, value: Value) {
    let mut at = root;
    let (folders, last) = name.rsplit_once('.').unwrap_or(("", name));
    for folder in folders.split('.') {
        at = &mut at[folder];
        if !below.is_empty() {
            at["type"] = "object".into();
            at = &mut at[below];
        }
    }
    at[last] = value;
}

/// The ranges of a file's data, one after the other.
#[derive(Default)]
struct Data {
    end: u64,
}

impl Data {
    fn take(&mut self, len: u64) -> [u64; 2] {
        let start = self.end;
        self.end += len;
        [start, self.end]
    }

    fn flat(&mut self, dtype: &str, shape: &[u64], len: u64) -> Value {
        json!({"dtype": dtype, "shape": shape, "data_offsets": self.take(len)})
    }

    /// Writes the header, and a hole instead of the data.
    fn write(self, path: &Path, schema: Value, tensors: Value) -> Result<()> {
        const ALIGN: usize = 256;
        let mut header = serde_json::to_vec(&json!({
            "metatensor": "1.0", "endian": "little", "data_align": ALIGN, "schema": schema,
            "tensors": tensors,
        }))?;
        header.resize((header.len() + 8).next_multiple_of(ALIGN) - 8, b' ');
        let mut file = File::create(path)?;
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        Ok(file.set_len(8 + header.len() as u64 + self.end)?)
    }
}
