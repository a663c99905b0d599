//! safetensors: the reference's files in, ours out, and everything it refuses.

use holdall_core::{
    Attributes, Bytes, ComponentRef, ComponentSpec, DType, EncodeOptions, Encoding, Error,
    ErrorKind, Index, Layout, Limits, LogicalType, Remedy, Role, Stop, Stored, TensorSpec, Value,
    Window,
};
use holdall_formats::safetensors::FORMAT;
use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use std::collections::HashMap;
use std::path::PathBuf;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/safetensors")
}

/// Detects and decodes bytes that are all available.
fn decode(bytes: &[u8]) -> Result<Index, Error> {
    done(holdall_formats::decode(&Window::whole(Bytes::copy_from_slice(bytes)), &Limits::default()))
}

fn done(result: Result<Index, Stop>) -> Result<Index, Error> {
    let index = result.map_err(|stop| match stop {
        Stop::Fail(e) => e,
        Stop::Need(range) => panic!("a whole file lacks {range:?}"),
    })?;
    index.sound()
}

/// A file with this header and this number of bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(header.as_bytes());
    out.resize(out.len() + data, 7);
    out
}

/// What the reference says about bytes.
fn reference_accepts(bytes: &[u8]) -> bool {
    SafeTensors::deserialize(bytes).is_ok()
}

#[test]
fn files_of_the_reference_have_their_expected_contents() {
    let mut seen = 0;
    for entry in std::fs::read_dir(corpus()).unwrap() {
        let path = entry.unwrap().path();
        let expected = path.with_extension("safetensors.expect.json");
        if path.extension().is_none_or(|e| e != "safetensors") || !expected.exists() {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let index = decode(&bytes).unwrap();
        let expected: serde_json::Value =
            serde_json::from_slice(&std::fs::read(expected).unwrap()).unwrap();
        check_expected(&bytes, &index, &expected);
        seen += 1;
    }
    assert!(seen >= 2);
}

fn check_expected(bytes: &[u8], index: &Index, expected: &serde_json::Value) {
    assert_eq!((index.format(), index.version()), ("safetensors", ""));
    assert_eq!(index.warnings(), []);
    let names: Vec<&str> = index.names().collect();
    let order: Vec<&str> =
        expected["data_order"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    assert_eq!(names, order);
    for tensor in expected["tensors"].as_array().unwrap() {
        let info = index.get(tensor["name"].as_str().unwrap()).unwrap();
        let shape: Vec<u64> =
            tensor["shape"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap()).collect();
        assert_eq!(info.shape(), shape);
        let data = info.component(&Role::Data).unwrap();
        let meaning = data.logical_type.as_ref().map_or(data.dtype.as_str(), |t| t.as_str());
        assert_eq!(meaning, tensor["dtype"].as_str().unwrap());
        let wanted = &tensor["components"]["data"];
        assert_eq!(data.decoded_len, wanted["decoded_length"].as_u64());
        let stored = &bytes[data.stored.start as usize..data.stored.end as usize];
        let mut sha = holdall_core::model::Hasher::new(holdall_core::Algorithm::Sha256);
        sha.update(stored);
        assert!(sha.finish().to_string().ends_with(wanted["sha256"].as_str().unwrap()));
    }
}

#[test]
fn every_prefix_fails_cleanly() {
    for name in ["st_dense_all.safetensors", "st_fp8.safetensors"] {
        let bytes = std::fs::read(corpus().join(name)).unwrap();
        let header = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        for len in 0..bytes.len() {
            let e = decode(&bytes[..len]).unwrap_err();
            let code = match len {
                0 => "format/empty",
                // Too short to be recognised.
                1..=8 => "format/unknown",
                _ if len < header => "safetensors/header-bounds",
                _ => "safetensors/truncated",
            };
            assert_eq!(e.code(), code, "{name} cut to {len} bytes: {e}");
        }
        // By its name alone it is still one, and the error names the missing part.
        let e = done((FORMAT.decode)(
            &Window::whole(Bytes::copy_from_slice(&bytes[..5])),
            &Limits::default(),
        ));
        assert_eq!(e.unwrap_err().code(), "safetensors/too-short");
    }
}

/// Decodes by fetching only the requested ranges; also returns the numbers of fetches and bytes.
fn decode_windowed(bytes: &[u8]) -> (Result<Index, Error>, usize, u64) {
    let mut window = Window::new(bytes.len() as u64);
    let (mut fetches, mut fetched) = (0, 0);
    loop {
        match holdall_formats::decode(&window, &Limits::default()) {
            Err(Stop::Need(ranges)) => {
                for range in ranges {
                    assert!(
                        range.start < range.end && range.end <= bytes.len() as u64,
                        "{range:?}"
                    );
                    fetches += 1;
                    fetched += range.end - range.start;
                    assert!(fetches < 20, "asks for ever");
                    let wanted = &bytes[range.start as usize..range.end as usize];
                    window.add(range.start, Bytes::copy_from_slice(wanted));
                }
            }
            other => return (done(other), fetches, fetched),
        }
    }
}

/// All that an index says, as text.
fn describe(index: &Index) -> String {
    let tensors: Vec<_> =
        index.tensors().map(|t| (format!("{t:?}"), t.attributes().to_json())).collect();
    format!("{:?} {} {tensors:#?} {:?}", index.attributes(), index.source_len(), index.warnings())
}

#[test]
fn decoding_a_window_is_decoding_the_whole() {
    let name = corpus().join("st_dense_all.safetensors");
    let bytes = std::fs::read(name).unwrap();
    let (index, _, fetched) = decode_windowed(&bytes);
    assert_eq!(describe(&index.unwrap()), describe(&decode(&bytes).unwrap()));
    // No data is read.
    let header = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap());
    assert!(fetched < header + 100, "{fetched} of {}", bytes.len());
}

#[test]
fn odd_but_sound_files_are_read() {
    let empty = r#""e":{"dtype":"F64","shape":[2,0],"data_offsets"#;
    let four = r#""a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}"#;
    let cases: &[(String, usize)] = &[
        ("{}".into(), 0),
        ("{}   ".into(), 0),
        ("{}\r\n\t ".into(), 0),
        ("\t\n{}\r ".into(), 0),
        (r#"{"__metadata__":null}"#.into(), 0),
        (r#"{"__metadata__":{}}"#.into(), 0),
        (format!(r#"{{{four},"__metadata__":{{"k":"v"}}}}"#), 4),
        (format!(r#"{{{empty}":[0,0]}},{four}}}"#), 4),
        (format!(r#"{{{empty}":[4,4]}},{four}}}"#), 4),
        (r#"{"a":{"x":[[{"y":null}]],"dtype":"U8","data_offsets":[0,4],"shape":[4]}}"#.into(), 4),
        (r#"{"s":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}"#.into(), 4),
        (r#"{"":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,3]}}"#.into(), 3),
        (r#"{"\u0061\n":{"\u0064type":"C64","shape":[1],"data_offsets":[0,8]}}"#.into(), 8),
        (r#"{"z":{"dtype":"U8","shape":[0,18446744073709551615],"data_offsets":[0,0]}}"#.into(), 0),
        // Not in the order of their offsets.
        (r#"{"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#.into(), 6),
    ];
    for (header, data) in cases {
        let bytes = file(header, *data);
        assert!(reference_accepts(&bytes), "{header}");
        let index = decode(&bytes).unwrap_or_else(|e| panic!("{header}: {e}"));
        check_like_reference(&bytes, &index);
        assert_eq!(describe(&decode_windowed(&bytes).0.unwrap()), describe(&index));
    }
    let index = decode(&file(&cases.last().unwrap().0, 6)).unwrap();
    assert_eq!(index.names().collect::<Vec<_>>(), ["b", "a"]);
}

/// The same tensors and bytes as the reference finds.
fn check_like_reference(bytes: &[u8], index: &Index) {
    let theirs = SafeTensors::deserialize(bytes).unwrap();
    assert_eq!(index.len(), theirs.len());
    for (name, view) in theirs.iter() {
        let info = index.get(name).unwrap();
        let data = info.component(&Role::Data).unwrap();
        let shape: Vec<u64> = view.shape().iter().map(|&d| d as u64).collect();
        assert_eq!(info.shape(), shape);
        assert_eq!(&bytes[data.stored.start as usize..data.stored.end as usize], view.data());
        assert_eq!(meaning(view.dtype()), (data.dtype, data.logical_type));
    }
}

/// What a dtype of the reference is here, spelled out a second time.
fn meaning(dtype: Dtype) -> (DType, Option<LogicalType>) {
    let logical = |name: &str| (DType::U8, Some(LogicalType::from_name(name)));
    match dtype {
        Dtype::BOOL => (DType::Bool, None),
        Dtype::F4 => logical("f4_e2m1"),
        Dtype::F6_E2M3 => logical("f6_e2m3"),
        Dtype::F6_E3M2 => logical("f6_e3m2"),
        Dtype::F8_E5M2 => logical("f8_e5m2"),
        Dtype::F8_E4M3 => logical("f8_e4m3fn"),
        Dtype::F8_E8M0 => logical("f8_e8m0"),
        Dtype::F8_E4M3FNUZ => logical("f8_e4m3fnuz"),
        Dtype::F8_E5M2FNUZ => logical("f8_e5m2fnuz"),
        Dtype::C64 => (DType::F32, Some(LogicalType::Complex64)),
        plain => (DType::from_name(&plain.to_string().to_lowercase()).unwrap(), None),
    }
}

const DTYPES: [Dtype; 22] = [
    Dtype::BOOL,
    Dtype::F4,
    Dtype::F6_E2M3,
    Dtype::F6_E3M2,
    Dtype::U8,
    Dtype::I8,
    Dtype::F8_E5M2,
    Dtype::F8_E4M3,
    Dtype::F8_E8M0,
    Dtype::F8_E4M3FNUZ,
    Dtype::F8_E5M2FNUZ,
    Dtype::I16,
    Dtype::U16,
    Dtype::F16,
    Dtype::BF16,
    Dtype::I32,
    Dtype::U32,
    Dtype::F32,
    Dtype::C64,
    Dtype::F64,
    Dtype::I64,
    Dtype::U64,
];

#[test]
fn detection_claims_files_with_explainable_errors() {
    let claims =
        |bytes: &[u8]| (FORMAT.detect)(&Window::whole(Bytes::copy_from_slice(bytes))).unwrap();
    assert!(claims(&file("{}", 0)));
    assert!(claims(&file("  {}", 0)));
    assert!(claims(b"\xff\xff\xff\xff\xff\xff\xff\xff{\"a\":"));
    assert!(claims(b"\x02\0\0\0\0\0\0\0{"));
    assert!(claims(b"\0\0\0\0\0\0\0\x10{\"a"));
    assert!(!claims(b""));
    assert!(!claims(b"\x02\0\0\0\0\0\0\0"));
    assert!(!claims(b"\x02\0\0\0\0\0\0\0["));
    assert!(!claims(b"\x02\0\0\0\0\0\0\0{\0"));
    assert!(!claims(b"[ {}, 1,{\"a\":1}]"));
    assert!(!claims(b"ZTEN1000{\"a\"............"));
    let e = decode(b"\xff\xff\xff\xff\xff\xff\xff\xff{\"a\":").unwrap_err();
    assert_eq!(e.code(), "safetensors/header-bounds");
    let e = decode(b"\0\0\0\0\0\0\0\x10{\"a").unwrap_err();
    assert_eq!(e.code(), "safetensors/header-bounds");
}

#[test]
fn a_long_header_is_a_limit() {
    let mut limits = Limits::default();
    limits.header_len = 10;
    let window = Window::whole(file(&format!("{{}}{}", " ".repeat(9)), 0).into());
    let e = done((FORMAT.decode)(&window, &limits)).unwrap_err();
    assert_eq!((e.code(), e.kind()), ("safetensors/header-limit", ErrorKind::Limit));
}

#[test]
fn nested_unknown_fields_are_bounded() {
    let deep = format!(r#"{{"a":{{"x":{}"#, "[".repeat(100_000));
    assert_eq!(decode(&file(&deep, 0)).unwrap_err().code(), "json/depth");
}

/// One tensor to write: name, dtype of the reference, shape, bytes.
#[derive(Debug, Clone)]
struct Plain {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Plain {
    fn new(name: &str, dtype: Dtype, shape: &[usize], fill: u8) -> Plain {
        let len = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let bytes = (0..len).map(|i| fill.wrapping_mul(31).wrapping_add(i as u8) % 2).collect();
        Plain { name: name.into(), dtype, shape: shape.to_vec(), bytes }
    }

    fn spec(&self) -> TensorSpec {
        let (dtype, logical) = meaning(self.dtype);
        let shape: Vec<u64> = self.shape.iter().map(|&d| d as u64).collect();
        let mut spec = TensorSpec::dense(&self.name, dtype, shape);
        spec.components[0].logical_type = logical;
        spec.components[0].decoded_len = self.bytes.len() as u64;
        spec
    }
}

/// Writes as a caller of [`Encode`](holdall_core::Encode) does.
fn encode(
    attributes: &Attributes,
    tensors: &[(TensorSpec, Vec<u8>)],
    options: &EncodeOptions,
) -> Result<Vec<u8>, Error> {
    let mut encoder = (FORMAT.encode.unwrap())(options)?;
    assert!(encoder.header_first());
    let specs: Vec<TensorSpec> = tensors.iter().map(|(t, _)| t.clone()).collect();
    encoder.check_attributes(attributes)?;
    specs.iter().try_for_each(|t| encoder.check_tensor(t))?;
    let order = encoder.order(&specs);
    let declared: Vec<TensorSpec> = order.iter().map(|&at| specs[at].clone()).collect();
    let mut out = encoder.begin(attributes, &declared)?.to_vec();
    let mut ranges = HashMap::new();
    for &at in &order {
        let (spec, bytes) = &tensors[at];
        let range = match &spec.components[0].shares {
            Some(shared) => ranges.get(&shared.tensor).cloned().unwrap(),
            None => {
                let start = encoder.next_offset(out.len() as u64, spec, 0)?;
                out.resize(start as usize, 0);
                out.extend_from_slice(bytes);
                start..out.len() as u64
            }
        };
        ranges.insert(spec.name.clone(), range.clone());
        encoder.component_written(
            spec,
            0,
            Stored { range, encoding: Encoding::Raw, digest: None },
        )?;
    }
    out.extend_from_slice(&encoder.finish(out.len() as u64)?);
    Ok(out)
}

fn encode_plain(attributes: &Attributes, tensors: &[Plain]) -> Vec<u8> {
    let tensors: Vec<_> = tensors.iter().map(|t| (t.spec(), t.bytes.clone())).collect();
    encode(attributes, &tensors, &EncodeOptions::new()).unwrap()
}

fn encode_reference(metadata: Option<(&str, &str)>, tensors: &[Plain]) -> Vec<u8> {
    let views = tensors
        .iter()
        .map(|t| (t.name.as_str(), TensorView::new(t.dtype, t.shape.clone(), &t.bytes).unwrap()));
    let metadata = metadata.map(|(k, v)| HashMap::from([(k.to_owned(), v.to_owned())]));
    serialize(views.collect::<Vec<_>>(), metadata).unwrap()
}

#[test]
fn bytes_equal_those_of_the_reference() {
    let mut tensors: Vec<Plain> = DTYPES
        .iter()
        .enumerate()
        .flat_map(|(i, &dtype)| {
            let b = Plain::new(&format!("b{i}"), dtype, &[3, 4], i as u8);
            [b, Plain::new(&format!("a{i}"), dtype, &[0, 9], 0)]
        })
        .collect();
    tensors.push(Plain::new("é \"quoted\" \\ \u{8}\u{c}\n\u{1}\u{7f} / 😀", Dtype::F32, &[], 9));
    assert_eq!(encode_plain(&Attributes::new(), &tensors), encode_reference(None, &tensors));
    let attributes = Attributes::from_iter([("k\n".to_owned(), Value::Text("v\u{7f}".to_owned()))]);
    let ours = encode_plain(&attributes, &tensors);
    assert_eq!(ours, encode_reference(Some(("k\n", "v\u{7f}")), &tensors));
    let index = decode(&ours).unwrap();
    assert_eq!(index.attributes(), &attributes);
    check_like_reference(&ours, &index);
    assert_eq!(encode_plain(&Attributes::new(), &[]), encode_reference(None, &[]));
}

#[test]
fn golden_files_are_written_unchanged() {
    for name in ["st_dense_all.safetensors", "st_fp8.safetensors"] {
        let bytes = std::fs::read(corpus().join(name)).unwrap();
        let index = decode(&bytes).unwrap();
        let tensors: Vec<_> = index
            .tensors()
            .map(|t| {
                let stored = t.component(&Role::Data).unwrap().stored;
                let data = bytes[stored.start as usize..stored.end as usize].to_vec();
                (TensorSpec::from_info(&t).unwrap(), data)
            })
            .collect();
        assert_eq!(encode(index.attributes(), &tensors, &EncodeOptions::new()).unwrap(), bytes);
    }
}

fn alias(name: &str, of: &TensorSpec) -> (TensorSpec, Vec<u8>) {
    let mut spec = of.clone();
    spec.name = name.into();
    spec.attributes = Attributes::new();
    spec.components[0].shares = Some(ComponentRef { tensor: of.name.clone(), role: Role::Data });
    (spec, Vec::new())
}

#[test]
fn attributes_that_would_not_come_back_are_refused() {
    let twice = vec![(Value::Integer(1), Value::Null), (Value::Integer(1), Value::Bool(true))];
    let deep = |levels: usize| (0..levels).fold(Value::Null, |v, _| Value::Tag(1, Box::new(v)));
    let map = |levels: usize| {
        (0..levels).fold(Value::Null, |v, _| Value::Map(vec![(Value::Integer(1), v)]))
    };
    for bad in [
        Value::Map(twice.clone()),
        Value::Array(vec![Value::Map(twice)]),
        Value::Integer(1 << 64),
        Value::Integer(-(1 << 64) - 1),
        deep(61),
    ] {
        let attributes = Attributes::from_iter([("a".to_owned(), bad)]);
        let e = encode(&attributes, &[], &EncodeOptions::new()).unwrap_err();
        assert_eq!(e.code(), "json/not-json");
        let mut spec = Plain::new("t", Dtype::F32, &[1], 1).spec();
        spec.attributes = attributes;
        let e = encode(&Attributes::new(), &[(spec, vec![0; 4])], &EncodeOptions::new());
        let e = e.unwrap_err();
        assert_eq!((e.code(), e.tensor()), ("json/not-json", Some("t")));
    }
    let mut twice = Attributes::new();
    twice.push("a", Value::Null);
    twice.push("a", Value::Bool(true));
    let e = encode(&twice, &[], &EncodeOptions::new()).unwrap_err();
    assert_eq!(e.code(), "json/not-json");
    // The deepest, and the greatest, that do come back.
    let both = [deep(60), map(60), Value::Integer((1 << 64) - 1), Value::Integer(-(1 << 64))];
    let attributes = Attributes::from_iter([("a".to_owned(), Value::Array(Vec::new()))]);
    for good in both {
        let mut spec = Plain::new("t", Dtype::F32, &[1], 1).spec();
        spec.attributes.set("a", good.clone());
        let mut attributes = attributes.clone();
        attributes.set("a", good);
        let bytes = encode(&attributes, &[(spec, vec![0; 4])], &EncodeOptions::new()).unwrap();
        let index = decode(&bytes).unwrap();
        assert_eq!(index.attributes(), &attributes);
        assert_eq!(index.get("t").unwrap().attributes(), &attributes);
    }
}

#[test]
fn non_text_attributes_are_restored() {
    let mut head = Plain::new("head", Dtype::F32, &[2, 2], 1).spec();
    head.attributes.set("scale", Value::Float(0.5));
    let tail = Plain::new("tail", Dtype::F8_E4M3, &[8], 2).spec();
    let mut tied = alias("a tied", &head);
    tied.0.attributes.set("note", Value::Text("same".into()));
    let again = alias("z", &tied.0);
    let tensors = [tied, (head, vec![1; 16]), again, (tail, vec![2; 8])];
    let attributes = Attributes::from_iter([
        ("plain".to_owned(), Value::Text("text".into())),
        ("n".to_owned(), Value::Integer(5)),
        ("b".to_owned(), Value::Bytes(vec![0, 255])),
        ("$odd".to_owned(), Value::Float(f64::NEG_INFINITY)),
        ("holdall.aliases".to_owned(), Value::Text("not ours".into())),
        ("m".to_owned(), Value::Map(vec![(Value::Integer(1), Value::Null)])),
    ]);
    let bytes = encode(&attributes, &tensors, &EncodeOptions::new()).unwrap();
    assert!(reference_accepts(&bytes));
    let index = decode(&bytes).unwrap();
    assert_eq!(index.warnings(), []);
    assert_eq!(index.names().collect::<Vec<_>>(), ["head", "tail", "a tied", "z"]);
    assert_eq!(index.attributes().len(), attributes.len());
    for (key, value) in attributes.iter() {
        assert_eq!(index.attributes().get(key), Some(value), "{key}");
    }
    let at = |name: &str| index.get(name).unwrap();
    let stored = |name: &str| at(name).component(&Role::Data).unwrap().stored;
    assert_eq!(stored("head"), stored("a tied"));
    assert_eq!(stored("head"), stored("z"));
    assert_eq!(at("a tied").shape(), [2, 2]);
    assert_eq!(at("head").attributes().to_json(), r#"{"scale":0.5}"#);
    assert_eq!(at("a tied").attributes().to_json(), r#"{"note":"same"}"#);
    assert!(at("z").attributes().is_empty() && at("tail").attributes().is_empty());
    // The other way through the header: the metadata last.
    let text = std::str::from_utf8(&bytes[8..bytes.len() - 24]).unwrap().trim_end();
    let (metadata, entries) = text[1..text.len() - 1].split_at(text.find(",\"head\"").unwrap() - 1);
    let moved = file(&format!("{{{},{metadata}}}", &entries[1..]), 24);
    let again = decode(&moved).unwrap();
    assert_eq!(again.names().collect::<Vec<_>>(), ["head", "tail", "a tied", "z"]);
    assert_eq!(again.attributes(), index.attributes());
    assert_eq!(again.get("a tied").unwrap().attributes(), at("a tied").attributes());
}

#[test]
fn odd_text_under_our_keys_stays_text() {
    let tensor = r#""t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}"#;
    let cases: &[(&str, &str)] = &[
        ("holdall.attributes", "oops"),
        ("holdall.attributes", "[]"),
        ("holdall.attributes", r#"{"a":1,"a":2}"#),
        ("holdall.attributes", r#"{"other":1}"#),
        ("holdall.attributes", r#"{"a":{"$what":1}}"#),
        ("holdall.tensor_attributes", "1"),
        ("holdall.tensor_attributes", r#"{"t":1}"#),
        ("holdall.tensor_attributes", r#"{"t":{},"t":{}}"#),
        ("holdall.tensor_attributes", r#"{"missing":{"a":1}}"#),
        ("holdall.aliases", "{"),
        ("holdall.aliases", r#"{"u":1}"#),
        ("holdall.aliases", r#"{"u":"missing"}"#),
        ("holdall.aliases", r#"{"u":"v","v":"t"}"#),
        ("holdall.aliases", r#"{"t":"t"}"#),
        ("holdall.aliases", r#"{"u":"t","u":"t"}"#),
    ];
    for (key, text) in cases {
        let value = serde_json::to_string(text).unwrap();
        let metadata = format!(r#""__metadata__":{{"other":"x","{key}":{value}}}"#);
        for header in [format!("{{{metadata},{tensor}}}"), format!("{{{tensor},{metadata}}}")] {
            let index = decode(&file(&header, 4)).unwrap_or_else(|e| panic!("{header}: {e}"));
            assert_eq!(index.names().collect::<Vec<_>>(), ["t"], "{header}");
            assert_eq!(index.attributes().get(key), Some(&Value::Text((*text).into())), "{header}");
            assert_eq!(index.attributes().len(), 2);
            assert_eq!(index.warnings().len(), 1);
            assert_eq!(index.warnings()[0].code, "safetensors/restore");
        }
    }
    // Another key that merely looks like ours is plain text.
    let index = decode(&file(r#"{"__metadata__":{"holdall.x":"y"}}"#, 0)).unwrap();
    assert_eq!(index.warnings(), []);
    assert_eq!(index.attributes().get("holdall.x"), Some(&Value::Text("y".into())));
}

#[test]
fn unsupported_tensors_are_refused_with_a_remedy() {
    let plain = || Plain::new("w", Dtype::F32, &[2], 1).spec();
    let sparse = {
        let mut t = plain();
        t.layout = Layout::SparseCoo;
        t
    };
    let two = {
        let mut t = plain();
        t.components.push(ComponentSpec::new(Role::Scales, DType::F32, 4));
        t
    };
    let typed = |logical: LogicalType, dtype| {
        let mut t = TensorSpec::dense("w", dtype, [2]);
        t.components[0].logical_type = Some(logical);
        t
    };
    let named = Plain::new("__metadata__", Dtype::F32, &[2], 1).spec();
    let cases = [
        (sparse, "safetensors/layout", Remedy::MakeDense),
        (two, "safetensors/components", Remedy::LeaveOut),
        (
            typed(LogicalType::Complex128, DType::F64),
            "safetensors/logical-type",
            Remedy::DropLogicalTypes,
        ),
        (
            typed(LogicalType::Other("x".into()), DType::U8),
            "safetensors/logical-type",
            Remedy::DropLogicalTypes,
        ),
        (named, "safetensors/reserved-name", Remedy::RenameTensor),
    ];
    let mut encoder = (FORMAT.encode.unwrap())(&EncodeOptions::new()).unwrap();
    for (spec, code, remedy) in cases {
        for e in [
            encoder.check_tensor(&spec).unwrap_err(),
            encoder.begin(&Attributes::new(), std::slice::from_ref(&spec)).unwrap_err(),
        ] {
            assert_eq!((e.code(), e.kind()), (code, ErrorKind::Unsupported));
            assert!(e.remedies().contains(&remedy), "{e}");
            assert_eq!(e.tensor(), Some(spec.name.as_str()));
        }
    }
    let own = plain();
    let mut reshaped = alias("x", &own).0;
    reshaped.shape = vec![2, 1];
    let missing = alias("x", &TensorSpec { name: "gone".into(), ..own.clone() }).0;
    let mut ring = [alias("x", &own).0, alias("w", &own).0];
    ring[1].components[0].shares = Some(ComponentRef { tensor: "x".into(), role: Role::Data });
    for declared in [vec![own.clone(), reshaped], vec![own.clone(), missing], ring.to_vec()] {
        let e = encoder.begin(&Attributes::new(), &declared).unwrap_err();
        assert_eq!(e.code(), "safetensors/alias");
        assert_eq!(e.remedies(), [Remedy::CopyShared]);
    }
    assert!(!encoder.can_compress());
    let e = (FORMAT.encode.unwrap())(&EncodeOptions::new().with_version("1.0")).err().unwrap();
    assert_eq!(e.code(), "format/unknown-version");
    let e = (FORMAT.encode.unwrap())(&EncodeOptions::new().with_align(48)).err().unwrap();
    assert_eq!(e.code(), "safetensors/align");
}

#[test]
fn a_writer_must_follow_its_declaration() {
    let [a, b] = ["a", "b"].map(|name| Plain::new(name, Dtype::U8, &[4], 1).spec());
    let new = || {
        let mut e = (FORMAT.encode.unwrap())(&EncodeOptions::new()).unwrap();
        let head = e.begin(&Attributes::new(), &[a.clone(), b.clone()]).unwrap().len() as u64;
        (e, head)
    };
    let raw = |range| Stored { range, encoding: Encoding::Raw, digest: None };
    let code = |r: Result<(), Error>| r.unwrap_err().code();
    let (mut e, head) = new();
    assert_eq!(code(e.next_offset(head, &b, 0).map(drop)), "safetensors/declared");
    assert_eq!(code(e.next_offset(head, &a, 1).map(drop)), "safetensors/declared");
    assert_eq!(code(e.next_offset(head + 1, &a, 0).map(drop)), "safetensors/declared");
    assert_eq!(code(e.component_written(&a, 0, raw(head..head + 3))), "safetensors/declared");
    let zstd = Stored { encoding: Encoding::ZSTD, ..raw(head..head + 4) };
    assert_eq!(code(e.component_written(&a, 0, zstd)), "safetensors/encoding");
    assert_eq!(e.next_offset(head, &a, 0).unwrap(), head);
    e.component_written(&a, 0, raw(head..head + 4)).unwrap();
    assert_eq!(code(e.finish(head + 4).map(drop)), "safetensors/declared");
    assert_eq!(e.next_offset(head + 4, &b, 0).unwrap(), head + 4);
    e.component_written(&b, 0, raw(head + 4..head + 8)).unwrap();
    assert_eq!(code(e.component_written(&b, 0, raw(head + 4..head + 8))), "safetensors/declared");
    assert_eq!(code(e.finish(head + 9).map(drop)), "safetensors/declared");
    assert!(e.finish(head + 8).unwrap().is_empty());
    let twice = [a.clone(), a.clone()];
    assert_eq!(code(e.begin(&Attributes::new(), &twice).map(drop)), "safetensors/declared");
    let mut wrong = a.clone();
    wrong.components[0].decoded_len = 5;
    assert_eq!(code(e.check_tensor(&wrong)), "safetensors/declared");
}

#[test]
fn an_alignment_puts_whole_multiples_first() {
    let tensors: Vec<_> = [
        Plain::new("f64", Dtype::F64, &[3], 1),
        Plain::new("bytes", Dtype::U8, &[512], 2),
        Plain::new("f32", Dtype::F32, &[64], 3),
        Plain::new("bool", Dtype::BOOL, &[3], 4),
        Plain::new("f16", Dtype::F16, &[5], 5),
    ]
    .into_iter()
    .map(|t| (t.spec(), t.bytes))
    .collect();
    let bytes =
        encode(&Attributes::new(), &tensors, &EncodeOptions::new().with_align(256)).unwrap();
    assert!(reference_accepts(&bytes));
    let index = decode(&bytes).unwrap();
    assert_eq!(index.names().collect::<Vec<_>>(), ["f32", "bytes", "f64", "f16", "bool"]);
    for t in index.tensors() {
        let c = t.component(&Role::Data).unwrap();
        let align = if c.stored_len() % 256 == 0 { 256 } else { c.dtype.width() };
        assert_eq!(c.stored.start % align, 0, "{t:?}");
    }
    let align_4 = encode(&Attributes::new(), &tensors, &EncodeOptions::new().with_align(4));
    let align_8 = encode(&Attributes::new(), &tensors, &EncodeOptions::new());
    assert_eq!(align_4.unwrap(), align_8.unwrap());
}

fn any_plain() -> impl Strategy<Value = Plain> {
    let dtype = prop::sample::select(&DTYPES[..]);
    let shape = prop::collection::vec(0..5usize, 0..4);
    (".{0,12}", dtype, shape, any::<u8>()).prop_filter_map(
        "whole bytes",
        |(name, d, shape, fill)| {
            let bits = shape.iter().product::<usize>() * d.bitsize();
            (bits % 8 == 0 && name != "__metadata__").then(|| Plain::new(&name, d, &shape, fill))
        },
    )
}

fn any_tensors() -> impl Strategy<Value = Vec<Plain>> {
    prop::collection::vec(any_plain(), 0..8).prop_map(|mut all| {
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.dedup_by(|a, b| a.name == b.name);
        all
    })
}

fn any_attribute() -> impl Strategy<Value = (String, Value)> {
    let value = prop_oneof![
        ".{0,8}".prop_map(Value::Text),
        any::<i64>().prop_map(|i| Value::Integer(i.into())),
        Just(Value::Null),
        prop::collection::vec(any::<u8>(), 0..4).prop_map(Value::Bytes),
        prop::collection::vec(any::<bool>().prop_map(Value::Bool), 0..3).prop_map(Value::Array),
    ];
    let key = prop_oneof![".{0,6}", "holdall\\.[a-c]{0,2}", Just("holdall.aliases".to_owned())];
    (key, value)
}

/// Pieces of headers that may or may not fit together.
fn any_header() -> impl Strategy<Value = String> {
    let number = prop::sample::select(vec!["0", "1", "2", "4", "8", "12", "-1", "4.0", "01"]);
    let entry = (
        prop::sample::select(vec!["a", "b", "c"]),
        prop::sample::select(vec!["U8", "F32", "F4", "x"]),
        prop::collection::vec(number.clone(), 0..3),
        (number.clone(), number),
    )
        .prop_map(|(name, dtype, shape, (start, end))| {
            let shape = shape.join(",");
            format!(
                r#""{name}":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{start},{end}]}}"#
            )
        });
    prop::collection::vec(entry, 0..4).prop_map(|entries| format!("{{{}}}", entries.join(",")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn encoded_files_decode(
        tensors in any_tensors(), pairs in prop::collection::vec(any_attribute(), 0..5),
        with in prop::collection::vec(any_attribute(), 0..3), align in 0..12u32,
    ) {
        let attributes: Attributes = pairs.into_iter().collect();
        let mut specs: Vec<_> = tensors.iter().map(|t| (t.spec(), t.bytes.clone())).collect();
        if let Some((first, _)) = specs.first_mut() {
            first.attributes = with.into_iter().collect();
            let tied = alias("\u{1}tied", first);
            specs.push(tied);
        }
        let options = EncodeOptions::new().with_align(1 << align);
        let bytes = encode(&attributes, &specs, &options).unwrap();
        prop_assert!(reference_accepts(&bytes));
        let index = decode(&bytes).unwrap();
        prop_assert_eq!(index.warnings(), []);
        prop_assert_eq!(index.len(), specs.len());
        prop_assert_eq!(index.attributes().len(), attributes.len());
        for (key, value) in attributes.iter() {
            prop_assert_eq!(index.attributes().get(key), Some(value));
        }
        for (spec, data) in &specs {
            let info = index.get(&spec.name).unwrap();
            let back = TensorSpec::from_info(&info).unwrap();
            let mut own = spec.clone();
            let shares = own.components[0].shares.take();
            prop_assert_eq!(back, own);
            if shares.is_none() {
                let stored = info.component(&Role::Data).unwrap().stored;
                prop_assert_eq!(&bytes[stored.start as usize..stored.end as usize], &data[..]);
            }
        }
        prop_assert_eq!(describe(&decode_windowed(&bytes).0.unwrap()), describe(&index));
    }

    #[test]
    fn plain_files_equal_those_of_the_reference(tensors in any_tensors()) {
        let ours = encode_plain(&Attributes::new(), &tensors);
        prop_assert_eq!(&ours, &encode_reference(None, &tensors));
        check_like_reference(&ours, &decode(&ours).unwrap());
    }

    #[test]
    fn headers_fare_as_with_the_reference(header in any_header(), data in 0..16usize) {
        let bytes = file(&header, data);
        let ours = decode(&bytes);
        let stricter = ours.as_ref().is_err_and(|e| e.code() == "index/duplicate-name");
        // Of two entries with one name the reference forgets the first.
        let is_repeated = ["\"a\":", "\"b\":", "\"c\":"].iter().any(|n| header.matches(n).count() > 1);
        if stricter {
            prop_assert!(is_repeated);
        } else if !is_repeated {
            prop_assert_eq!(ours.is_ok(), reference_accepts(&bytes), "{}: {:?}", header, ours);
        }
    }

    #[test]
    fn changed_files_fare_as_with_the_reference(
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(&b"{}[]:,\"\\ 0123456789.-eUFI_\x00\x80\xffa"[..])),
            1..4,
        ),
        fp8 in any::<bool>(),
    ) {
        let name = if fp8 { "st_fp8.safetensors" } else { "st_dense_all.safetensors" };
        let mut bytes = std::fs::read(corpus().join(name)).unwrap();
        let header = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        for (at, byte) in changes {
            bytes[at.index(header)] = byte;
        }
        let ours = done((FORMAT.decode)(&Window::whole(bytes.clone().into()), &Limits::default()));
        if ours.as_ref().is_err_and(|e| e.code() == "index/duplicate-name") {
            return Ok(());
        }
        let shown = String::from_utf8_lossy(&bytes[..header]).into_owned();
        prop_assert_eq!(ours.is_ok(), reference_accepts(&bytes), "{}: {:?}", shown, ours);
        if let Ok(index) = ours {
            check_like_reference(&bytes, &index);
        }
    }

    #[test]
    fn any_bytes_are_survived(
        len in 0..80u64, text in "[\\{\\}\\[\\]:,\"a0-9 ]{0,60}", cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = len.to_le_bytes().to_vec();
        bytes.push(b'{');
        bytes.extend_from_slice(text.as_bytes());
        bytes.truncate(cut.index(bytes.len() + 1));
        let whole = decode(&bytes).map_err(|e| e.to_string()).map(|i| describe(&i));
        let windowed = decode_windowed(&bytes).0.map_err(|e| e.to_string()).map(|i| describe(&i));
        prop_assert_eq!(whole, windowed);
    }
}
