//! Every rule of safetensors has bytes that break it, here and in `corpus/reject/safetensors`.
//!
//! A file of the corpus is named after the code it breaks: `safetensors.hole.start.safetensors` breaks
//! `safetensors/hole`. `HOLDALL_BLESS=1` writes the corpus anew from the table here.

use holdall_core::formats::{self, safetensors::FORMAT};
use holdall_core::{Bytes, Error, Limits, Stop, Window};
use safetensors::SafeTensors;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A broken file.
struct Reject {
    /// `area.what.case`, which is the file's name in the corpus.
    name: &'static str,
    bytes: Vec<u8>,
    /// Whether the reference reads it: where we are stricter, as its README asks.
    reference: bool,
}

/// A file of this header and so many bytes of data.
fn file(header: &[u8], data: usize) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(header);
    out.resize(out.len() + data, 7);
    out
}

fn rejects() -> Vec<Reject> {
    let new = |name, bytes| Reject { name, bytes, reference: false };
    let header = |name, header: &str, data| new(name, file(header.as_bytes(), data));
    // A file of one tensor of four bytes: this dtype, shape and offsets.
    let tensor = |name, dtype: &str, shape: &str, offsets: &str| {
        let entry = format!(r#""dtype":{dtype},"shape":{shape},"data_offsets":{offsets}"#);
        header(name, &format!(r#"{{"w":{{{entry}}}}}"#), 4)
    };
    let entry = |name, entry: &str| header(name, &format!(r#"{{"w":{{{entry}}}}}"#), 4);
    // Two tensors of bytes: shapes and offsets.
    let two = |name, [a, b]: [(&str, &str); 2], data| {
        let entry = |(shape, offsets): (&str, &str)| {
            format!(r#"{{"dtype":"U8","shape":[{shape}],"data_offsets":[{offsets}]}}"#)
        };
        header(name, &format!(r#"{{"a":{},"b":{}}}"#, entry(a), entry(b)), data)
    };
    let sound = r#""dtype":"U8","shape":[4],"data_offsets":[0,4]"#;
    let with_len = |len: u64, rest: &[u8]| [&len.to_le_bytes()[..], rest].concat();
    let deep = format!(r#"{{"w":{{"x":{}"#, "[".repeat(100));
    let stricter = |reject: Reject| Reject { reference: true, ..reject };
    vec![
        new("format.empty.file", Vec::new()),
        new("format.unknown.length-only", with_len(2, b"")),
        new("safetensors.header-bounds.one-more", with_len(3, b"{}")),
        new("safetensors.header-bounds.terabyte", with_len(1 << 40, b"{}")),
        new("safetensors.header-bounds.most", with_len(u64::MAX, b"{}")),
        new("safetensors.header-object.spaces", with_len(8, b"        ")),
        new("safetensors.header-object.array", with_len(8, b" [{},1] ")),
        header("json.truncated.object", "{", 0),
        header("json.truncated.entry", &format!(r#"{{"w":{{{sound}"#), 4),
        header("json.truncated.string", r#"{"w"#, 0),
        header("json.trailing.text", "{} x", 0),
        header("json.trailing.second", "{}{}", 0),
        header("json.trailing.nul-padding", "{}\0\0", 0),
        header("json.syntax.trailing-comma", &format!(r#"{{"w":{{{sound}}},}}"#), 4),
        header("json.syntax.no-colon", r#"{"w" {}}"#, 0),
        header("json.syntax.bare-key", r#"{ w:{}}"#, 0),
        header("json.string.control", "{\"w\n\":{}}", 0),
        header("json.string.escape", r#"{"\x":{}}"#, 0),
        header("json.surrogate.name", r#"{"\ud800":{}}"#, 0),
        new("json.utf8.name", file(b"{\"\xff\":{}}", 0)),
        header("json.depth.unknown-field", &deep, 0),
        header("json.type.entry", r#"{"w":1}"#, 0),
        tensor("json.type.dtype", "8", "[4]", "[0,4]"),
        tensor("json.type.shape", r#""U8""#, "4", "[0,4]"),
        tensor("json.type.dimension", r#""U8""#, r#"["4"]"#, "[0,4]"),
        tensor("json.type.offsets", r#""U8""#, "[4]", r#"{"start":0}"#),
        stricter(header("json.type.entry-array", r#"{"w":["U8",[4],[0,4]]}"#, 4)),
        tensor("json.integer.negative-offset", r#""U8""#, "[4]", "[-1,3]"),
        tensor("json.integer.fraction", r#""U8""#, "[4.0]", "[0,4]"),
        tensor("json.integer.exponent", r#""U8""#, "[4e0]", "[0,4]"),
        tensor("json.integer.wide", r#""U8""#, "[18446744073709551616]", "[0,4]"),
        tensor("json.number.leading-zero", r#""U8""#, "[04]", "[0,4]"),
        entry("json.number.unknown-field", r#""x":1.,"dtype":"U8""#),
        header("safetensors.metadata.number", r#"{"__metadata__":1}"#, 0),
        header("safetensors.metadata.number-value", r#"{"__metadata__":{"a":1}}"#, 0),
        header("safetensors.metadata.null-value", r#"{"__metadata__":{"a":null}}"#, 0),
        header("safetensors.duplicate-key.metadata", r#"{"__metadata__":{},"__metadata__":{}}"#, 0),
        stricter(header(
            "safetensors.duplicate-key.in-metadata",
            r#"{"__metadata__":{"a":"1","a":"1"}}"#,
            0,
        )),
        entry("safetensors.duplicate-key.dtype", &format!(r#"{sound},"dtype":"U8""#)),
        entry("safetensors.duplicate-key.shape", &format!(r#"{sound},"shape":[4]"#)),
        entry("safetensors.duplicate-key.offsets", &format!(r#"{sound},"data_offsets":[0,4]"#)),
        stricter(header(
            "index.duplicate-name.same",
            r#"{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#,
            0,
        )),
        header(
            "index.duplicate-name.escaped",
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#,
            2,
        ),
        entry("safetensors.missing-field.dtype", r#""shape":[4],"data_offsets":[0,4]"#),
        entry("safetensors.missing-field.shape", r#""dtype":"U8","data_offsets":[0,4]"#),
        entry("safetensors.missing-field.offsets", r#""dtype":"U8","shape":[4]"#),
        tensor("safetensors.dtype.lower-case", r#""u8""#, "[4]", "[0,4]"),
        tensor("safetensors.dtype.unknown", r#""F128""#, "[4]", "[0,4]"),
        tensor("safetensors.offsets.swapped", r#""U8""#, "[4]", "[4,0]"),
        tensor("safetensors.offsets.one", r#""U8""#, "[4]", "[0]"),
        tensor("safetensors.offsets.three", r#""U8""#, "[4]", "[0,4,4]"),
        tensor(
            "safetensors.offsets.wrapping",
            r#""U8""#,
            "[0]",
            "[18446744073709551615,18446744073709551615]",
        ),
        tensor("safetensors.hole.start", r#""U8""#, "[3]", "[1,4]"),
        two("safetensors.hole.between", [("4", "0,4"), ("1", "5,6")], 6),
        two("safetensors.hole.empty-past-end", [("4", "0,4"), ("0", "5,5")], 4),
        two("safetensors.overlap.part", [("4", "0,4"), ("4", "2,6")], 6),
        two("safetensors.overlap.same", [("4", "0,4"), ("4", "0,4")], 4),
        two("safetensors.overlap.out-of-order", [("4", "2,6"), ("4", "0,4")], 6),
        two("safetensors.overlap.empty-inside", [("4", "0,4"), ("0", "2,2")], 4),
        two("safetensors.truncated.one-byte", [("4", "0,4"), ("4", "4,8")], 7),
        two("safetensors.truncated.empty-last", [("4", "0,4"), ("0", "4,4")], 3),
        tensor(
            "safetensors.truncated.exabytes",
            r#""U8""#,
            "[2305843009213693951]",
            "[0,2305843009213693951]",
        ),
        two("safetensors.trailing-data.one-byte", [("2", "0,2"), ("2", "2,4")], 5),
        header("safetensors.trailing-data.no-tensors", "{}", 1),
        tensor("index.size.one-more", r#""U8""#, "[3]", "[0,4]"),
        tensor("index.size.one-less", r#""U8""#, "[5]", "[0,4]"),
        tensor("index.size.dtype", r#""F16""#, "[4]", "[0,4]"),
        tensor("index.rank.65", r#""U8""#, &format!("[4{}]", ",1".repeat(64)), "[0,4]"),
        tensor("index.shape-overflow.half-byte", r#""F4""#, "[7]", "[0,4]"),
        tensor("index.shape-overflow.six-bits", r#""F6_E2M3""#, "[5]", "[0,4]"),
        tensor("index.shape-overflow.product", r#""U8""#, "[4294967296,4294967296]", "[0,4]"),
        tensor("index.shape-overflow.bits", r#""U64""#, "[2305843009213693952]", "[0,4]"),
        tensor("index.shape-overflow.before-zero", r#""U8""#, "[4294967296,4294967296,0]", "[0,4]"),
    ]
}

fn decode(window: &Window) -> Result<(), Error> {
    match formats::decode(window, &Limits::default()) {
        Ok(_) => Ok(()),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole file lacks {range:?}"),
    }
}

/// The code that a file of the corpus is named after.
fn code_of(name: &str) -> String {
    let mut parts = name.split('.');
    format!("{}/{}", parts.next().unwrap(), parts.next().unwrap())
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/reject/safetensors")
}

#[test]
fn broken_files_fail_with_their_code() {
    for Reject { name, bytes, reference } in rejects() {
        let e = decode(&Window::whole(bytes.clone().into())).expect_err(name);
        assert_eq!(e.code(), code_of(name), "{name}: {e}");
        // The rank is a limit of ours alone.
        let reference = reference || e.code() == "index/rank";
        assert_eq!(SafeTensors::deserialize(&bytes).is_ok(), reference, "{name}");
        // Fetching only what is asked for ends the same way.
        let mut window = Window::new(bytes.len() as u64);
        let windowed = loop {
            match formats::decode(&window, &Limits::default()) {
                Err(Stop::Need(range)) => {
                    let found = &bytes[range.start as usize..range.end as usize];
                    window.add(range.start, Bytes::copy_from_slice(found));
                }
                Err(Stop::Fail(e)) => break e,
                Ok(_) => panic!("{name} decodes piece by piece"),
            }
        };
        assert_eq!(windowed.to_string(), e.to_string(), "{name}");
    }
}

#[test]
fn errors_say_where() {
    for Reject { name, bytes, .. } in rejects() {
        let e = decode(&Window::whole(bytes.clone().into())).unwrap_err();
        let tensor = match name.split('.').nth(1).unwrap() {
            "dtype" | "offsets" | "hole" | "overlap" | "missing-field" | "size" | "rank"
            | "integer" | "shape-overflow" | "duplicate-name" => true,
            "truncated" | "trailing-data" => continue,
            _ => false,
        };
        assert!(!tensor || matches!(e.tensor(), Some("w" | "a" | "b")), "{name}: {e}");
        let has_range = !matches!(code_of(name).as_str(), "format/empty" | "format/unknown");
        let of_name = matches!(e.code(), "index/duplicate-name" | "index/shape-overflow");
        assert!(!has_range || of_name || e.range().is_some(), "{name}: {e}");
    }
}

#[test]
fn every_rule_is_broken_somewhere() {
    let broken: BTreeSet<String> = rejects().iter().map(|r| code_of(r.name)).collect();
    // Broken in `safetensors.rs`: below a limit or a length that detection asks for, and in writing.
    let elsewhere = [
        "safetensors/too-short",
        "safetensors/header-limit",
        "safetensors/layout",
        "safetensors/components",
        "safetensors/logical-type",
        "safetensors/reserved-name",
        "safetensors/alias",
        "safetensors/encoding",
        "safetensors/align",
        "safetensors/declared",
        // Broken in `json.rs`.
        "json/duplicate-key",
        "json/lossless",
    ];
    for rule in FORMAT.rules.iter().chain(holdall_core::wire::json::RULES) {
        let has = broken.contains(rule.code) || elsewhere.contains(&rule.code);
        assert!(has, "nothing breaks {}", rule.code);
    }
    let rules: BTreeSet<&str> = formats::rules().map(|r| r.code).collect();
    assert_eq!(rules.len(), formats::rules().count(), "a code stands twice in the tables");
    for code in &broken {
        assert!(rules.contains(code.as_str()), "{code} is in no table");
    }
}

#[test]
fn the_corpus_holds_these_files_and_no_others() {
    let bless = std::env::var_os("HOLDALL_BLESS").is_some();
    let mut names = BTreeSet::new();
    for Reject { name, bytes, .. } in rejects() {
        let path = corpus().join(format!("{name}.safetensors"));
        if bless {
            std::fs::create_dir_all(corpus()).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert!(std::fs::read(&path).is_ok_and(|found| found == bytes), "{path:?}");
        assert!(names.insert(format!("{name}.safetensors")), "{name} stands twice");
    }
    for entry in std::fs::read_dir(corpus()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "{name} breaks no rule of the table");
    }
}
