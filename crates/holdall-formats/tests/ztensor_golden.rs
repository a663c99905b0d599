//! Files of the reference implementations decode to the values in their descriptions, whole or range by
//! range; cut anywhere, they are refused.

use holdall_core::{Bytes, Component, Error, Index, Limits, Stop, TensorInfo, Window};
use holdall_formats::FORMATS;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

#[test]
fn golden_files_decode_to_their_expectations() {
    for (path, expect) in golden() {
        let index =
            decode(&std::fs::read(&path).unwrap()).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let found = describe(&index);
        assert_eq!(found, expected(&expect), "{path:?}");
        assert!(index.warnings().is_empty(), "{path:?}: {:?}", index.warnings());
    }
}

#[test]
fn one_range_at_a_time_gives_the_same_index() {
    for (path, _) in golden() {
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let (index, ranges) = decode_windowed(&bytes);
        let index = index.unwrap_or_else(|e| panic!("{path:?}: {e}"));
        assert_eq!(describe(&index), describe(&decode(&bytes).unwrap()), "{path:?}");
        // The first 8 bytes, the last 16 and the manifest.
        assert!(ranges <= 3, "{path:?} took {ranges} ranges");
    }
}

/// A cut never gives an index: each generation keeps its manifest's length at the very end. The one
/// cut that looks whole (a 1.2 file less its last 8 bytes is a perfect 1.0 container) is recognized.
#[test]
fn every_prefix_is_refused() {
    for (path, _) in golden() {
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        for len in 0..bytes.len() {
            let cut = bytes.slice(..len);
            let whole = decode(&cut).expect_err("a cut file decodes");
            let (windowed, _) = decode_windowed(&cut);
            assert_eq!(windowed.unwrap_err().code(), whole.code(), "{path:?} cut to {len}");
        }
        let is_1_1 = bytes.ends_with(b"ZTEN1000");
        if is_1_1 {
            let code = decode(&bytes.slice(..bytes.len() - 8)).unwrap_err().code();
            assert_eq!(code, "ztensor/container", "{path:?}");
        }
    }
}

/// Bytes of the magic numbers and the manifest changed one at a time never make the decoder panic.
#[test]
fn every_changed_byte_is_survived() {
    for (path, _) in golden() {
        let bytes = std::fs::read(&path).unwrap();
        let data = decode(&bytes).unwrap().data_range();
        for at in (0..bytes.len()).filter(|&at| !data.contains(&(at as u64))) {
            for change in [0xff, 0x80, 0x01, bytes[at]] {
                let mut bytes = bytes.clone();
                bytes[at] ^= change;
                let _ = decode(&bytes);
            }
        }
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

/// Files and their expectations.
fn golden() -> Vec<(PathBuf, Json)> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(corpus().join("accept/ztensor")).unwrap() {
        let file = entry.unwrap().path();
        let expect = std::fs::read(format!("{}.expect.json", file.display()));
        if let Ok(expect) = expect {
            out.push((file, serde_json::from_slice(&expect).unwrap()));
        }
    }
    assert!(out.len() >= 12, "{} golden files", out.len());
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

fn decode(bytes: &[u8]) -> Result<Index, Error> {
    match holdall_formats::decode(&Window::whole(Bytes::copy_from_slice(bytes)), &Limits::default())
    {
        Ok(index) => index.sound(),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole window lacks {range:?}"),
    }
}

/// Decodes with only the requested ranges in the window; returns the number of ranges.
fn decode_windowed(bytes: &Bytes) -> (Result<Index, Error>, usize) {
    let mut window = Window::new(bytes.len() as u64);
    for ranges in 0..10 {
        match holdall_formats::decode(&window, &Limits::default()) {
            Ok(index) => return (index.sound(), ranges),
            Err(Stop::Fail(e)) => return (Err(e), ranges),
            Err(Stop::Need(ranges)) => {
                for range in ranges {
                    let part = bytes.slice(range.start as usize..range.end as usize);
                    window.add(range.start, part);
                }
            }
        }
    }
    panic!("no end of ranges");
}

/// What an index says, in the words of the expectations.
fn describe(index: &Index) -> Json {
    assert!(FORMATS.iter().any(|f| f.id == index.format()));
    let tensors: Vec<Json> = index.tensors().map(|t| describe_tensor(&t)).collect();
    serde_json::json!({
        "version": index.version(),
        "attributes": serde_json::from_str::<Json>(&index.attributes().to_json()).unwrap(),
        "tensors": tensors,
    })
}

fn describe_tensor(t: &TensorInfo) -> Json {
    let components: serde_json::Map<String, Json> =
        t.components().map(|c| (c.role.to_string(), describe_component(&c))).collect();
    serde_json::json!({
        "name": t.name(),
        "shape": t.shape(),
        "layout": t.layout().as_str(),
        "attributes": serde_json::from_str::<Json>(&t.attributes().to_json()).unwrap(),
        "components": components,
    })
}

fn describe_component(c: &Component) -> Json {
    serde_json::json!({
        "dtype": c.dtype.as_str(),
        "type": c.logical_type.as_ref().map(|t| t.as_str()),
        "encoding": c.encoding.as_str(),
        "offset": c.stored.start,
        "stored_length": c.stored_len(),
        "decoded_length": c.decoded_len,
        "digest": c.digest.as_ref().map(|d| d.to_string()),
    })
}

/// What an index should say. Decoded lengths that only decoding can tell are null.
fn expected(expect: &Json) -> Json {
    // 0.1 states no version; its document is of 0.1.0.
    let version = expect["manifest_version"].as_str().unwrap_or("0.1.0");
    let tensors: Vec<Json> = expect["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| {
            let layout = t["format"].as_str().unwrap();
            let components: serde_json::Map<String, Json> = t["components"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(role, c)| (role.clone(), expected_component(c, layout, role)))
                .collect();
            let attributes = [&t["attributes"], &t["custom"]]
                .into_iter()
                .find(|a| a.is_object())
                .cloned()
                .unwrap_or_else(|| serde_json::json!({}));
            serde_json::json!({
                "name": t["name"],
                "shape": t["shape"],
                "layout": layout,
                "attributes": attributes,
                "components": components,
            })
        })
        .collect();
    let attributes = &expect["attributes"];
    serde_json::json!({
        "version": version,
        "attributes": if attributes.is_object() { attributes.clone() } else { serde_json::json!({}) },
        "tensors": tensors,
    })
}

fn expected_component(c: &Json, layout: &str, role: &str) -> Json {
    let declared = c["declared_uncompressed_length"].is_u64();
    let follows = layout == "dense" || role == "indptr" || c["encoding"] == "raw";
    let decoded = if declared || follows { c["decoded_length"].clone() } else { Json::Null };
    serde_json::json!({
        "dtype": c["dtype"],
        "type": c["type"],
        "encoding": c["encoding"],
        "offset": c["offset"],
        "stored_length": c["stored_length"],
        "decoded_length": decoded,
        "digest": c["digest"],
    })
}
