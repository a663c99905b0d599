//! Files that break a rule each, found on opening them.
#![allow(dead_code)] // Each user takes some of it.

/// A broken file.
pub(crate) struct Reject {
    /// `area.what.case`, which is the file's name in the corpus.
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    /// Whether the reference reads it: where we are stricter, as its README asks.
    pub(crate) reference: bool,
}

/// A file with this header and this number of bytes of data.
pub(crate) fn file(header: &[u8], data: usize) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(header);
    out.resize(out.len() + data, 7);
    out
}

pub(crate) fn rejects() -> Vec<Reject> {
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
    let deep = format!(r#"{{"w":{{"x":{}"#, "[".repeat(200));
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

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/safetensors/{name}.safetensors");
    rejects().into_iter().map(|r| (path(r.name), r.bytes)).collect()
}
