//! The vectors of `corpus/vectors/metatensor/header.json`, which other implementations run too.

use holdall_core::{Bytes, Error, Index, Limits, Stop, Window, formats};
use serde_json::{Value, json};

/// What a file of this header and so many bytes of data contains.
fn decode(header: &str, data_len: u64) -> Result<Index, Error> {
    let start = 8 + header.len() as u64;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    let mut window = Window::new(start + data_len);
    window.add(0, bytes.into());
    loop {
        match formats::decode(&window, &Limits::default()) {
            Ok(index) => return Ok(index),
            Err(Stop::Fail(e)) => return Err(e),
            // Data is zeros, if anybody asks.
            Err(Stop::Need(range)) => {
                let zeros = vec![0; (range.end - range.start) as usize];
                window.add(range.start, Bytes::from(zeros));
            }
        }
    }
}

/// The index in the form of the vectors.
fn said(index: &Index) -> Value {
    let start = index.data_range().start;
    let tensors: Vec<Value> = index
        .tensors()
        .map(|t| {
            let components: serde_json::Map<String, Value> = t
                .components()
                .map(|c| {
                    let range = json!([c.stored.start - start, c.stored.end - start]);
                    (c.role.as_str().to_owned(), range)
                })
                .collect();
            json!({
                "name": t.name(),
                "layout": t.layout().as_str(),
                "shape": t.shape(),
                "ranges": components,
            })
        })
        .collect();
    let mut out = json!({ "tensors": tensors });
    if let Some(values) = index.attributes().get("metatensor.values").and_then(|v| v.as_text()) {
        out["values"] = serde_json::from_str(values).unwrap();
    }
    out
}

#[test]
fn headers() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/vectors/metatensor/header.json");
    let text = std::fs::read_to_string(path).unwrap();
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(vectors.len() >= 40, "{}", vectors.len());
    let mut wrong = Vec::new();
    for vector in &vectors {
        let header = vector["header"].as_str().unwrap();
        let found = decode(header, vector["data_len"].as_u64().unwrap());
        let found = match &found {
            Ok(index) => said(index),
            Err(e) => e.code().into(),
        };
        let wanted = vector.get("error").unwrap_or(&vector["expect"]);
        if found != *wanted {
            wrong.push(format!("{}\n  wanted {wanted}\n  found  {found}", vector["name"]));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}
