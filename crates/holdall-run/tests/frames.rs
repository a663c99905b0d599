//! Encoding and decoding of frames and values, and invalid frames.

use holdall::Bytes;
use holdall::carton::{TensorValue, ValueType};
use holdall_run::process::frame::{DATA_MAX, Frame, HEADER_MAX, Kind, PREFIX_LEN, Prefix};
use holdall_run::process::values;
use serde_json::{Value as Json, json};

fn prefix(kind: u8, zeros: [u8; 3], request: u32, header: u32, data: u32) -> [u8; PREFIX_LEN] {
    let mut out = [0; PREFIX_LEN];
    out[0] = kind;
    out[1..4].copy_from_slice(&zeros);
    out[4..8].copy_from_slice(&request.to_le_bytes());
    out[8..12].copy_from_slice(&header.to_le_bytes());
    out[12..].copy_from_slice(&data.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> holdall::Result<Frame> {
    let (head, rest) = bytes.split_first_chunk::<PREFIX_LEN>().unwrap();
    let prefix = Prefix::decode(head)?;
    let (header, data) = rest.split_at(prefix.header_len);
    assert_eq!(data.len(), prefix.data_len);
    prefix.frame(header, data.to_vec())
}

#[test]
fn frames_are_read_as_they_were_written() {
    for (at, kind) in Kind::ALL.into_iter().enumerate() {
        let header = json!({ "a": [1, "ü"], "b": null });
        let frame = Frame::new(kind, 7 + at as u32, header).with_data(vec![1, 2, 3]);
        let bytes = frame.encode().unwrap();
        assert_eq!(usize::from(bytes[0]), at + 1);
        assert_eq!(decode(&bytes).unwrap(), frame);
    }
}

#[test]
fn the_frame_in_the_specification_is_this() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/spec/runner.md");
    let page = std::fs::read_to_string(page).unwrap();
    let line = page.lines().find(|l| l.starts_with("01 00 00 00  ")).unwrap();
    let bytes: Vec<u8> =
        line.split_whitespace().map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
    assert_eq!(Frame::new(Kind::Hello, 1, json!({})).encode().unwrap(), bytes);
}

#[test]
fn garbage_is_no_frame() {
    for (bytes, code) in [
        (prefix(0, [0; 3], 1, 2, 0), "runner/frame"),
        (prefix(10, [0; 3], 1, 2, 0), "runner/frame"),
        (prefix(255, [0; 3], 1, 2, 0), "runner/frame"),
        (prefix(1, [0, 0, 1], 1, 2, 0), "runner/frame"),
        (*b"Traceback (most ", "runner/frame"),
        (prefix(1, [0; 3], 1, HEADER_MAX + 1, 0), "runner/frame-limit"),
        (prefix(1, [0; 3], 1, u32::MAX, u32::MAX), "runner/frame-limit"),
        (prefix(1, [0; 3], 1, 2, DATA_MAX + 1), "runner/frame-limit"),
    ] {
        assert_eq!(Prefix::decode(&bytes).unwrap_err().code(), code, "{bytes:?}");
    }
    let sound = Prefix::decode(&prefix(1, [0; 3], 1, 2, 0)).unwrap();
    for header in ["", "[]", "{", "{} x", "nul", "{\"a\":\u{1}}"] {
        let e = sound.frame(header.as_bytes(), Vec::new()).unwrap_err();
        assert_eq!(e.code(), "runner/frame", "{header}");
    }
    assert!(sound.frame(b"{\"\xff\":1}", Vec::new()).is_err());
    // Deep nesting causes an error, not a crash.
    let deep = "{\"a\":".repeat(100_000);
    assert!(sound.frame(deep.as_bytes(), Vec::new()).is_err());
}

/// Decoding never panics, whatever the bytes of the prefix.
#[test]
fn any_prefix_is_read_or_refused() {
    let mut state = 1u64;
    for _ in 0..20_000 {
        let mut bytes = [0; PREFIX_LEN];
        for byte in &mut bytes {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = if state >> 62 == 0 { (state >> 40) as u8 } else { 0 };
        }
        bytes[0] %= 12;
        if let Ok(p) = Prefix::decode(&bytes) {
            assert!(p.header_len as u64 <= u64::from(HEADER_MAX));
        }
    }
}

fn sample() -> Vec<(String, TensorValue)> {
    let big: Vec<f32> = (0..300_000).map(|n| n as f32).collect();
    let part = |n: u64| TensorValue::from_elements(vec![n], &vec![n as i16; n as usize]).unwrap();
    vec![
        ("x".to_owned(), TensorValue::from_elements(vec![2, 2], &[1u8, 2, 3, 4]).unwrap()),
        ("scalar".to_owned(), TensorValue::from_elements(vec![], &[-1.5f64]).unwrap()),
        ("none".to_owned(), TensorValue::from_elements(vec![0, 3], &[0u64; 0]).unwrap()),
        (
            "texts".to_owned(),
            TensorValue::strings(vec![2], vec!["ü\0".into(), String::new()]).unwrap(),
        ),
        ("big".to_owned(), TensorValue::from_elements(vec![300_000], &big).unwrap()),
        ("nested".to_owned(), TensorValue::nested(vec![part(3), part(1)]).unwrap()),
        ("empty".to_owned(), TensorValue::nested(Vec::new()).unwrap()),
    ]
}

#[test]
fn values_are_read_as_they_were_written() {
    let mut files: Vec<Vec<u8>> = Vec::new();
    let (rows, data) = values::pack(&sample(), values::SHARED_FROM, &mut |bytes| {
        files.push(bytes.to_vec());
        Ok(files.len() as u64 - 1)
    })
    .unwrap();
    assert_eq!(files.iter().map(Vec::len).collect::<Vec<_>>(), [1_200_000]);
    let header = json!({ "values": rows });
    let read = values::unpack(&header, data, &mut |file, len| {
        assert_eq!((file, len), (0, 1_200_000));
        Ok(Bytes::from(files[0].clone()))
    });
    assert_eq!(read.unwrap(), sample());
}

#[test]
fn many_small_values_do_not_make_a_long_frame() {
    let one = TensorValue::from_elements(vec![1 << 20], &vec![0u8; 1 << 20]).unwrap();
    let values: Vec<_> = (0..20).map(|n| (n.to_string(), one.clone())).collect();
    let mut shared = 0;
    let (_, data) = values::pack(&values, values::SHARED_FROM, &mut |_| {
        shared += 1;
        Ok(shared)
    })
    .unwrap();
    assert_eq!((data.len(), shared), (16 << 20, 4));
}

#[test]
fn mismatched_values_are_errors() {
    let number = |shape: Json, at: u64, len: u64| json!({ "name": "x", "dtype": "int16", "shape": shape, "at": at, "len": len });
    for row in [
        json!(1),
        json!({}),
        json!({ "name": 1 }),
        json!({ "name": "x" }),
        json!({ "name": "x", "dtype": "int16" }),
        json!({ "name": "x", "dtype": "bool", "shape": [1], "at": 0, "len": 1 }),
        json!({ "name": "x", "dtype": "int16", "shape": [1] }),
        json!({ "name": "x", "dtype": "int16", "shape": [1], "len": 2 }),
        json!({ "name": "x", "dtype": "int16", "shape": [1], "len": 2, "at": 0, "file": 0 }),
        number(json!([3]), 0, 4),
        number(json!([-1]), 0, 2),
        number(json!([1.5]), 0, 2),
        number(json!("2"), 0, 4),
        number(json!([u64::MAX, u64::MAX]), 0, 2),
        number(json!(vec![1; 65]), 0, 2),
        number(json!([2]), 1, 4),
        number(json!([2]), u64::MAX, 4),
        number(json!([u64::MAX]), 0, u64::MAX),
        json!({ "name": "x", "dtype": "string", "shape": [2], "strings": ["a"] }),
        json!({ "name": "x", "dtype": "string", "shape": [1], "strings": [1] }),
        json!({ "name": "x", "dtype": "string", "shape": [1] }),
        json!({ "name": "x", "nested": 1 }),
        json!({ "name": "x", "nested": [{ "nested": [] }] }),
        json!({ "name": "x", "nested": [number(json!([2]), 0, 4), number(json!([1, 1]), 0, 2)] }),
    ] {
        let header = json!({ "values": [row] });
        let read = values::unpack(&header, vec![0; 4], &mut |_, _| panic!("no file is requested"));
        assert_eq!(read.unwrap_err().code(), "runner/frame", "{header}");
    }
    let none = values::unpack(&json!({}), Vec::new(), &mut |_, _| unreachable!());
    assert_eq!(none.unwrap_err().code(), "runner/frame");
    // A file that is shorter than announced, and one that is as long.
    let header =
        json!({ "values": [{ "name": "x", "dtype": "int16", "shape": [2], "len": 4, "file": 3 }] });
    let short = values::unpack(&header, Vec::new(), &mut |_, _| Ok(Bytes::from_static(b"12")));
    assert_eq!(short.unwrap_err().code(), "runner/frame");
    assert_eq!(ValueType::by_name("bool"), None);
}
