//! Datasets and blobs as tensors of zTensor files, encoded by hand.
#![allow(dead_code)] // Each test takes what it needs.

use holdall::schema::{Encoder, Entry, Heap, Schema, SchemaLimits};
use holdall::{
    Attributes, ComponentSpec, DType, File, Io, Layout, OpenOptions, Role, TensorSpec, Value,
    WriteOptions, Writer,
};
use serde_json::json;

/// Returns the kind of a record with members of every sort.
pub(crate) fn sample() -> serde_json::Value {
    json!({
        "type": "object",
        "TypeDef:Struct": ["id", "x", "half", "label", "flag", "text", "tags", "box", "shape", "meta", "mask"],
        "required": ["id", "x", "half", "label", "text", "tags", "box", "shape", "meta", "mask"],
        "properties": {
            "id": {"type": "integer", "TypeDef:Uint64": true},
            "x": {"type": "number", "TypeDef:Float32": true},
            "half": {"type": "number", "TypeDef:Float16": true},
            "label": {"enum": ["cat", "dog"], "TypeDef:Enum": true},
            "flag": {"type": "boolean", "TypeDef:Boolean": true},
            "text": {"type": "string", "TypeDef:String": true},
            "tags": {"type": "array", "TypeDef:Array": true, "items": {
                "type": "object", "TypeDef:Struct": ["name", "at"], "required": ["name", "at"],
                "properties": {
                    "name": {"type": "string", "TypeDef:String": true},
                    "at": {"type": "integer", "TypeDef:Int32": true}
                }
            }},
            "box": {"type": "array", "TypeDef:Array": true, "minItems": 4, "maxItems": 4,
                "items": {"type": "integer", "TypeDef:Int16": true}},
            "shape": {"TypeDef:Union": {"discriminator": "kind"}, "mapping": {
                "circle": {"type": "object", "TypeDef:Struct": ["r"], "required": ["r"],
                    "properties": {"r": {"type": "number", "TypeDef:Float64": true}}},
                "named": {"type": "object", "TypeDef:Struct": ["name"], "required": ["name"],
                    "properties": {"name": {"type": "string", "TypeDef:String": true}}}
            }},
            "meta": {"type": "object", "additionalProperties": true, "TypeDef:Record": true},
            "mask": {"type": "array", "TypeDef:Array": true,
                "items": {"type": "integer", "TypeDef:Uint16": true}}
        }
    })
}

/// Returns the value of record `i`.
pub(crate) fn value(i: u64) -> serde_json::Value {
    let mut value = json!({
        "id": i,
        "x": i as f64 / 4.0,
        "half": 0.5,
        "label": if i.is_multiple_of(3) { "cat" } else { "dog" },
        "text": format!("record {i} — ünïcode"),
        "tags": (0..i % 3).map(|t| json!({"name": format!("tag{t}"), "at": t})).collect::<Vec<_>>(),
        "box": [i % 100, -1, 2, 3],
        "shape": if i.is_multiple_of(2) { json!({"kind": "circle", "r": 1.5}) }
            else { json!({"kind": "named", "name": format!("n{i}")}) },
        "meta": {"n": i},
        "mask": (0..i % 5).collect::<Vec<u64>>(),
    });
    if i.is_multiple_of(4) {
        value["flag"] = json!(i.is_multiple_of(8));
    }
    value
}

/// Returns records and their heap as bytes.
pub(crate) fn encode(
    kind: &serde_json::Value,
    values: impl Iterator<Item = serde_json::Value>,
) -> (Vec<u8>, Vec<u8>) {
    let limits = SchemaLimits::default();
    let schema = Schema::compile_record(kind, &limits).unwrap();
    let mut encoder = Encoder::new(&schema, schema.record().unwrap(), &limits).unwrap();
    let stride = schema.extent(schema.record().unwrap()).unwrap().stride as usize;
    let (mut records, mut heap) = (Vec::new(), Vec::new());
    for value in values {
        let start = records.len();
        records.resize(start + stride, 0);
        let size = encoder.size();
        encoder.value(&value, &mut records[start..start + size], &mut heap).unwrap();
    }
    (records, heap)
}

/// A tensor and its components' bytes.
pub(crate) struct Made {
    pub(crate) spec: TensorSpec,
    pub(crate) bytes: Vec<Vec<u8>>,
}

pub(crate) fn made(
    layout: &str,
    kind: &str,
    count: u64,
    parts: Vec<(&str, DType, Vec<u8>)>,
) -> Made {
    let components = parts
        .iter()
        .map(|(role, dtype, b)| ComponentSpec::new(Role::from_name(role), *dtype, b.len() as u64))
        .collect();
    let attributes =
        Attributes::from_iter([("metatensor.kind".to_owned(), Value::Text(kind.to_owned()))]);
    let layout = Layout::from_name(layout);
    let spec =
        TensorSpec { name: "set".into(), shape: vec![count], layout, attributes, components };
    Made { spec, bytes: parts.into_iter().map(|(_, _, b)| b).collect() }
}

/// Returns a dataset of `count` records of [`sample`].
pub(crate) fn dataset(count: u64) -> Made {
    let (records, heap) = encode(&sample(), (0..count).map(value));
    let parts = vec![("data", DType::U8, records), ("blob_data", DType::U8, heap)];
    made("records", &sample().to_string(), count, parts)
}

/// Returns a blob of these runs.
pub(crate) fn blob(content: &str, runs: &[&[u8]], align: u32) -> Made {
    let (mut entries, mut heap) = (Vec::new(), Vec::new());
    for run in runs {
        let offset = if run.is_empty() { 0 } else { Heap::append(&mut heap, run, align).unwrap() };
        entries.extend(Entry { offset, len: run.len() as u64 }.to_bytes());
    }
    let kind = json!({"TypeDef:Blob": {"content": content}}).to_string();
    let parts = vec![("entries", DType::U64, entries), ("blob_data", DType::U8, heap)];
    made("blob", &kind, runs.len() as u64, parts)
}

/// Writes a file with that tensor.
pub(crate) fn write(made: &Made, options: &WriteOptions) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".zt").tempfile().unwrap();
    let options = options.clone().with_overwrite(true);
    let mut writer = Writer::create(file.path(), &options).unwrap();
    let bytes: Vec<&[u8]> = made.bytes.iter().map(Vec::as_slice).collect();
    writer.add(made.spec.clone(), &bytes).unwrap();
    writer.finish().unwrap();
    file
}

pub(crate) fn open(file: &tempfile::NamedTempFile, io: Io) -> File {
    OpenOptions::new().with_io(io).open(file.path()).unwrap()
}
