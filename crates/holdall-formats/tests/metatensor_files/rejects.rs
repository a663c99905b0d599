//! Files that break a rule each.

use super::*;

/// A broken file.
pub(crate) struct Reject {
    /// `area.what.case`, which is the file's name in the corpus.
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    /// Whether it is opened, and broken only when its bytes are looked at.
    pub(crate) opens: bool,
}

const ANY: &str = r#"{"type":"object","TypeDef:Tensor":{}}"#;

pub(crate) fn rejects() -> Vec<Reject> {
    let mut all = keys();
    all.extend(references());
    all.extend(ranges());
    all.extend(schemas());
    all.extend(bytes());
    all
}

fn new(name: &'static str, bytes: Vec<u8>) -> Reject {
    Reject { name, bytes, opens: false }
}

fn text(name: &'static str, header: &str) -> Reject {
    new(name, file(header, &[]))
}

/// The header's own keys.
fn keys() -> Vec<Reject> {
    let key = |name, from: &str, to: &str| text(name, &header(TENSORS, "{}").replace(from, to));
    let with_len = |len: u64, rest: &[u8]| [&len.to_le_bytes()[..], rest].concat();
    let start = br#"{"metatensor":"1.0","#;
    let unpadded = header(TENSORS, "{}");
    let value = |name, value: &str| text(name, &with(TENSORS, "{}", &format!(r#","x":{value}"#)));
    vec![
        new("metatensor.header-bounds.long", with_len(1 << 40, start)),
        new("metatensor.header-bounds.spaces", with_len(100, b"  { \"metatensor\" : \"")),
        new("metatensor.header-bounds.one", {
            let whole = file(&unpadded, &[]);
            with_len(whole.len() as u64 - 7, &whole[8..])
        }),
        new("metatensor.header-bounds.cut", {
            let whole = file(&unpadded, &[]);
            whole[..whole.len() - 1].to_vec()
        }),
        new("metatensor.header-bounds.format-limit", with_len(100_000_000, start)),
        new("json.truncated.empty-key", with_len(start.len() as u64, start)),
        key("metatensor.version.two", "1.0", "2.0"),
        key("metatensor.version.one", "1.0", "1"),
        key("metatensor.version.letter", "1.0", "1.0b"),
        key("metatensor.endian.big", "little", "big"),
        key("metatensor.endian.capital", "little", "Little"),
        key("metatensor.data-align.small", ":64", ":32"),
        key("metatensor.data-align.odd", ":64", ":96"),
        key("metatensor.data-align.large", ":64", ":131072"),
        key("metatensor.data-align.fraction", ":64", ":64.0"),
        key("metatensor.header.data-align", ":64", r#":"64""#),
        key("metatensor.header.no-endian", r#""endian":"little","#, ""),
        key("metatensor.header.endian", r#""little""#, "1"),
        key("metatensor.header.no-schema", r#""schema""#, r#""other""#),
        key("metatensor.header.schema", TENSORS, "7"),
        key("metatensor.header.no-tensors", r#""tensors""#, r#""other""#),
        text("metatensor.header.metadata", &with(TENSORS, "{}", r#","metadata":[]"#)),
        new("metatensor.padding.none", with_len(unpadded.len() as u64, unpadded.as_bytes())),
        new("metatensor.padding.data-align", file(&unpadded.replace(":64", ":4096"), &[])),
        text("json.duplicate-key.header", &with(TENSORS, "{}", r#","tensors":{}"#)),
        text("json.duplicate-key.unknown", &with(TENSORS, "{}", r#","x":1,"x":1"#)),
        text("json.duplicate-key.metadata", &with(TENSORS, "{}", r#","metadata":{"a":1,"a":1}"#)),
        text(
            "json.duplicate-key.in-metadata",
            &with(TENSORS, "{}", r#","metadata":{"a":{"$ref":1,"x":{"b":1,"b":2}}}"#),
        ),
        key("json.duplicate-key.schema", r#"{"type":"#, r#"{"type":"object","type":"#),
        value("json.syntax.value", "[1,]"),
        value("json.number.value", "01"),
        value("json.string.value", "\"\t\""),
        value("json.surrogate.value", r#""\udc00""#),
        text("json.trailing.text", &(header(TENSORS, "{}") + " {}")),
        text("json.truncated.object", &unpadded[..unpadded.len() - 1]),
        value("json.depth.value", &"[".repeat(600)),
        text(
            "json.depth.schema",
            &header(&("{\"not\":".repeat(200) + "{}" + &"}".repeat(200)), "{}"),
        ),
        text("json.depth.tensors", &header("{}", &("[".repeat(200) + &"]".repeat(200)))),
        new("json.utf8.value", {
            let mut bytes = file(&with(TENSORS, "{}", r#","x":"?""#), &[]);
            let at = bytes.iter().position(|b| *b == b'?').unwrap();
            bytes[at] = 0xff;
            bytes
        }),
    ]
}

/// What stands in `tensors`.
fn references() -> Vec<Reject> {
    let case = |name, schema: &str, tensors: &str, len: usize| {
        new(name, file(&header(schema, tensors), &vec![0; len]))
    };
    let w = |name, schema: &str, reference: &str, len| {
        case(name, &object(&[("w", schema)]), &format!(r#"{{"w":{reference}}}"#), len)
    };
    let number = r#"{"type":"integer","TypeDef:Uint32":true}"#;
    let strings = record(&[("name", STRING)], 1);
    let closed = r#"{"type":"object","properties":{"w":{"TypeDef:Tensor":{}}},"additionalProperties":false}"#;
    let symbol = r#"{"TypeDef:Tensor":{"dtype":"U8","shape":["n"]}}"#;
    let two = object(&[("a", symbol), ("b", symbol)]);
    let list = r#"{"type":"array","items":{"TypeDef:Tensor":{}},"minItems":1,"maxItems":2}"#;
    let limits = |min: u64, max: u64| {
        format!(r#"{{"items":{number},"minItems":{min},"maxItems":{max},"TypeDef:Array":true}}"#)
    };
    let twice = format!(r#"{{"w":{0},"w":{0}}}"#, flat("U8", "0", 0, 0));
    let small = flat("U8", "1", 0, 1);
    // Sixty levels of two each.
    let doubling = |keyword: &str| {
        let level = |n: usize| {
            let next = format!(r##"{{"$ref":"#/$defs/{}"}}"##, n + 1);
            format!(r#""{n}":{{"{keyword}":[{next},{next}]}},"#)
        };
        let levels: String = (0..60).map(level).collect();
        format!(
            r##"{{"$defs":{{{levels}"60":{{"type":"integer"}}}},"properties":{{"w":{ANY},"x":{{"$ref":"#/$defs/0"}}}}}}"##
        )
    };
    vec![
        w("metatensor.reference.number", ANY, "1", 0),
        w("metatensor.reference.no-dtype", ANY, r#"{"shape":[1],"data_offsets":[0,1]}"#, 1),
        w("metatensor.reference.no-shape", ANY, r#"{"dtype":"U8","data_offsets":[0,1]}"#, 1),
        w("metatensor.reference.no-offsets", ANY, r#"{"dtype":"U8","shape":[1]}"#, 1),
        w("metatensor.reference.dtype", ANY, &flat("U8", "1", 0, 1).replace(r#""U8""#, "8"), 1),
        w("metatensor.reference.shape", ANY, &flat("U8", r#""1""#, 0, 1), 1),
        w("metatensor.reference.negative", ANY, &flat("U8", "-1", 0, 1), 1),
        w("metatensor.reference.fraction", ANY, &flat("U8", "1.0", 0, 1), 1),
        w("metatensor.reference.no-count", &array(number), r#"{"data_offsets":[0,4]}"#, 4),
        w("metatensor.reference.no-heap", &array(&strings), &dataset(1, 16, None), 16),
        w("metatensor.reference.heap", &array(number), &dataset(1, 4, Some(1)), 5),
        w("metatensor.reference.no-entries", &blob_with_content("bytes"), r#"{"blob_data":{}}"#, 0),
        w(
            "metatensor.reference.no-blob-data",
            &blob_with_content("bytes"),
            r#"{"entries":{"count":0,"data_offsets":[0,0]}}"#,
            0,
        ),
        case("metatensor.reference.object", TENSORS, "[]", 0),
        case("metatensor.reference.list", list, "{}", 0),
        w(
            "json.duplicate-key.field",
            ANY,
            &flat("U8", "1", 0, 1).replace('{', r#"{"dtype":"U8","#),
            1,
        ),
        case("json.duplicate-key.member", &object(&[("w", ANY)]), &twice, 0),
        case("json.duplicate-key.additional", TENSORS, &twice, 0),
        case(
            "json.duplicate-key.plain",
            &object(&[("w", ANY)]),
            &format!(r#"{{"w":{small},"x":{{"a":1,"a":2}}}}"#),
            1,
        ),
        case(
            "metatensor.value.minimum",
            &object(&[("w", ANY), ("x", r#"{"type":"integer","minimum":1}"#)]),
            &format!(r#"{{"w":{small},"x":0}}"#),
            1,
        ),
        case(
            "metatensor.value.kind",
            &object(&[("w", ANY), ("x", UINT8)]),
            &format!(r#"{{"w":{small},"x":256}}"#),
            1,
        ),
        case("schema.too-large.alternatives", &doubling("anyOf"), r#"{"x":"no"}"#, 0),
        case("schema.too-large.all", &doubling("allOf"), r#"{"x":1}"#, 0),
        case(
            "schema.invalid.minimum",
            &object(&[("w", ANY), ("x", r#"{"minimum":"1"}"#)]),
            &format!(r#"{{"w":{small},"x":0}}"#),
            1,
        ),
        case("metatensor.members.missing", &object(&[("w", ANY)]), "{}", 0),
        case(
            "metatensor.members.missing-other",
            r#"{"type":"object","additionalProperties":{"TypeDef:Tensor":{}},"required":["w"]}"#,
            "{}",
            0,
        ),
        case("metatensor.members.forbidden", closed, r#"{"x":1}"#, 0),
        case(
            "metatensor.members.struct",
            &record(&[("w", ANY)], 0),
            &format!(r#"{{"w":{small},"x":1}}"#),
            1,
        ),
        w("metatensor.dtype.schema", &tensor("I8", "1"), &small, 1),
        w("metatensor.dtype.unknown", ANY, &flat("F128", "1", 0, 16), 16),
        w("metatensor.dtype.heap", &blob_with_content("bytes"), &blob(0, 1).replace("U8", "I8"), 1),
        w("metatensor.shape.schema", &tensor("U8", "2"), &small, 1),
        w("metatensor.shape.rank", &tensor("U8", "1,1"), &small, 1),
        w(
            "metatensor.shape.heap",
            &blob_with_content("bytes"),
            &blob(0, 1).replace("[1]", "[1,1]"),
            1,
        ),
        case(
            "metatensor.symbol.two",
            &two,
            &format!(r#"{{"a":{small},"b":{}}}"#, flat("U8", "2", 1, 3)),
            3,
        ),
        w("metatensor.size.less", ANY, &flat("U8", "2", 0, 1), 1),
        w("metatensor.size.more", ANY, &flat("U8", "1", 0, 2), 2),
        w("metatensor.size.dataset", &array(number), &dataset(2, 4, None), 4),
        w(
            "metatensor.size.overflow",
            &array(number),
            r#"{"count":4611686018427387904,"data_offsets":[0,0]}"#,
            0,
        ),
        w(
            "metatensor.size.blob",
            &blob_with_content("bytes"),
            &blob(1, 0).replace(r#""count":1"#, r#""count":2"#),
            16,
        ),
        w(
            "metatensor.size.blob-overflow",
            &blob_with_content("bytes"),
            &blob(0, 0).replace(r#""count":0"#, r#""count":1152921504606846976"#),
            0,
        ),
        w("metatensor.size.none", ANY, &flat("U8", "1", 0, 0), 0),
        w("metatensor.size.zero", ANY, &flat("U8", "0", 0, 1), 1),
        w(
            "metatensor.size.heap",
            &blob_with_content("bytes"),
            &blob(0, 2).replace("[2]", "[1]"),
            2,
        ),
        w("metatensor.count.few", &limits(2, 4), &dataset(1, 4, None), 4),
        w("metatensor.count.many", &limits(0, 1), &dataset(2, 8, None), 8),
        w("metatensor.count.fixed", &limits(3, 3), &dataset(2, 8, None), 8),
        w("metatensor.count.huge", &limits(1 << 60, u64::MAX), &dataset(1, 4, None), 4),
        case("metatensor.count.list-few", list, "[]", 0),
        case("metatensor.count.list-huge", &list.replace(":1,", ":18446744073709551615,"), "[]", 0),
        case(
            "metatensor.count.list-many",
            list,
            &format!("[{0},{0},{0}]", flat("U8", "0", 0, 0)),
            0,
        ),
        w("index.shape-overflow.product", ANY, &flat("U8", "4294967296,4294967296", 0, 1), 1),
        w("index.shape-overflow.bits", ANY, &flat("C64", "2305843009213693952", 0, 1), 1),
        w("index.shape-overflow.half-byte", ANY, &flat("F4", "3", 0, 2), 2),
        w("index.rank.65", ANY, &flat("U8", &format!("1{}", ",1".repeat(64)), 0, 1), 1),
        new(
            "index.duplicate-name.restored",
            file(
                &with(
                    TENSORS,
                    &format!(r#"{{"a":{0},"b":{0}}}"#, flat("U8", "0", 0, 0)),
                    r#","metadata":{"holdall.names":{"b":"a"}}"#,
                ),
                &[],
            ),
        ),
    ]
}

/// Where ranges lie.
fn ranges() -> Vec<Reject> {
    let case = |name, tensors: &[String], len: usize| {
        let all: Vec<String> =
            tensors.iter().enumerate().map(|(at, t)| format!(r#""t{at}":{t}"#)).collect();
        new(name, file(&header(TENSORS, &format!("{{{}}}", all.join(","))), &vec![0; len]))
    };
    let u8s = |start: usize, end: usize| flat("U8", &(end - start).to_string(), start, end);
    let pair = |pair: &str| format!(r#"{{"dtype":"U8","shape":[0],"data_offsets":{pair}}}"#);
    let aligned = |name, schema: &str, reference: &str, len: usize| {
        let tensors = format!(r#"{{"a":{},"w":{reference}}}"#, u8s(0, 4));
        let schema = object(&[("a", ANY), ("w", schema)]);
        new(name, file(&header(&schema, &tensors), &vec![0; len]))
    };
    let text = record(&[("x", STRING)], 1);
    let heap =
        format!(r#"{{"count":1,"data_offsets":[16,32],"blob_data":{}}}"#, flat("U8", "8", 36, 44));
    vec![
        case("metatensor.offsets.swapped", &[pair("[1,0]")], 1),
        case("metatensor.offsets.one", &[pair("[0]")], 0),
        case("metatensor.offsets.three", &[pair("[0,0,0]")], 0),
        case("metatensor.bounds.most", &[pair("[18446744073709551615,18446744073709551615]")], 0),
        case("metatensor.bounds.last", &[pair("[9223372036854775807,9223372036854775807]")], 0),
        case("metatensor.reference.half", &[pair("[0,0.5]")], 0),
        case("metatensor.bounds.half", &[pair("[9223372036854775800,9223372036854775800]")], 0),
        case("metatensor.align.tensor", &[u8s(0, 2), flat("F32", "1", 2, 6)], 6),
        aligned(
            "metatensor.align.keyword",
            r#"{"TypeDef:Tensor":{},"align":32}"#,
            &flat("U8", "4", 4, 8),
            8,
        ),
        aligned(
            "metatensor.align.records",
            &array(&text),
            &dataset(1, 16, Some(0)).replace("0,16", "4,20").replace("16,16", "20,20"),
            20,
        ),
        aligned(
            "metatensor.align.entries",
            &blob_with_content("bytes"),
            r#"{"entries":{"count":1,"data_offsets":[4,20]},"blob_data":{"dtype":"U8","shape":[0],"data_offsets":[20,20]}}"#,
            20,
        ),
        aligned(
            "metatensor.align.heap",
            &array(&array(r#"{"type":"integer","TypeDef:Int64":true}"#)),
            &heap,
            44,
        ),
        case("metatensor.gap.start", &[u8s(1, 2)], 2),
        case("metatensor.gap.between", &[u8s(0, 1), flat("F32", "1", 8, 12)], 12),
        case("metatensor.gap.empty", &[u8s(0, 1), u8s(2, 2)], 2),
        case("metatensor.trailing-data.one", &[u8s(0, 2)], 3),
        case("metatensor.trailing-data.nothing", &[], 1),
        case("metatensor.truncated.one", &[u8s(0, 2), u8s(2, 4)], 3),
        case("metatensor.truncated.all", &[u8s(0, 2)], 0),
        case("metatensor.truncated.exabytes", &[u8s(0, 1 << 60)], 3),
        case("index.overlap.one", &[u8s(0, 4), u8s(3, 7)], 7),
        case("index.overlap.longer", &[u8s(0, 4), u8s(0, 5)], 5),
        case("index.overlap.part", &[u8s(0, 4), u8s(2, 6)], 6),
        case("index.overlap.inside", &[u8s(0, 4), u8s(1, 2)], 4),
        case("index.overlap.out-of-order", &[u8s(2, 6), u8s(0, 4)], 6),
    ]
}

/// Invalid schemas, in files without tensors or with the tensors that they need.
fn schemas() -> Vec<Reject> {
    let schema = |name, schema: &str| text(name, &header(schema, "{}"));
    let w = |name, own: &str| schema(name, &object(&[("w", own)]));
    let item = |name, own: &str| w(name, &array(own));
    let drafted = |name, draft: &str, own: &str| {
        schema(name, &format!(r#"{{"$schema":"http://json-schema.org/{draft}",{own}}}"#))
    };
    let deep = {
        let (open, close) = (r#"{"items":"#.repeat(60), "}".repeat(60));
        // Many short chains, one after the other: each is shallow, but their targets are not.
        let link = |n: usize| format!(r##""d{n}":{open}{{"$ref":"#/$defs/d{}"}}{close}"##, n + 1);
        format!(
            r##"{{"$defs":{{{},{},"d2":{open}{{"TypeDef:Tensor":{{}}}}{close}}},"$ref":"#/$defs/d0"}}"##,
            link(0),
            link(1)
        )
    };
    let open = r#"{"TypeDef:Tensor":{"dtype":"U8","shape":["n"]}}"#;
    let half = r#"{"TypeDef:Tensor":{"dtype":"U8","shape":[4611686018427387904]}}"#;
    // Arrays of a thousand arrays: small as text, and larger than anything as bytes.
    let thousand = |items: &str| {
        format!(r#"{{"items":{items},"minItems":1000,"maxItems":1000,"TypeDef:Array":true}}"#)
    };
    let bomb = (0..8).fold(UINT8.to_owned(), |items, _| thousand(&items));
    vec![
        w("schema.kind.two", r#"{"TypeDef:Int8":true,"TypeDef:Int16":true}"#),
        w("schema.kind.unknown", r#"{"TypeDef:Int12":true}"#),
        w("schema.keyword.type", r#"{"type":"string","TypeDef:Tensor":{}}"#),
        drafted("schema.draft.const", "draft-04/schema#", r#""properties":{"a":{"const":1}}"#),
        drafted("schema.draft.condition", "draft-06/schema", r#""if":{},"then":{}"#),
        drafted(
            "schema.draft.default",
            "draft-07/schema#",
            r##""$defs":{"w":{"TypeDef:Int8":true}},"properties":{"w":{"$ref":"#/$defs/w","default":1}}"##,
        ),
        drafted(
            "schema.draft.recursive",
            "draft/2019-09/schema",
            r##""properties":{"a":{"$recursiveRef":"#"}}"##,
        ),
        drafted("schema.draft.unknown", "draft-03/schema#", r#""type":"object""#),
        drafted(
            "schema.draft.inside",
            "draft-07/schema#",
            r#""properties":{"a":{"$schema":"http://json-schema.org/draft-04/schema#"}}"#,
        ),
        w("schema.align.three", r#"{"TypeDef:Tensor":{},"align":3}"#),
        w("schema.remote-ref.url", r#"{"$ref":"https://example.org/schema"}"#),
        w("schema.remote-ref.file", r##"{"$ref":"other.json#/$defs/a"}"##),
        w("schema.remote-ref.anchor", r##"{"$ref":"#a"}"##),
        w("schema.remote-ref.root", r##"{"$ref":"#"}"##),
        w("schema.missing-ref.name", r##"{"$ref":"#/$defs/none"}"##),
        schema(
            "schema.ref-siblings.type",
            r##"{"$defs":{"a":{"TypeDef:Tensor":{}}},"properties":{"w":{"$ref":"#/$defs/a","type":"object"}}}"##,
        ),
        schema("schema.cycle.ref", r##"{"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##),
        schema(
            "schema.cycle.references",
            r##"{"$defs":{"a":{"properties":{"a":{"$ref":"#/$defs/a"},"w":{"TypeDef:Tensor":{}}}}},"$ref":"#/$defs/a"}"##,
        ),
        schema(
            "schema.cycle.two",
            r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
        ),
        schema(
            "schema.cycle.record",
            &format!(
                r##"{{"$defs":{{"a":{}}},"properties":{{"w":{}}}}}"##,
                record(&[("x", &array(r##"{"$ref":"#/$defs/a"}"##))], 1),
                array(r##"{"$ref":"#/$defs/a"}"##)
            ),
        ),
        item("schema.size-overflow.bomb", &bomb),
        item(
            "schema.size-overflow.shape",
            r#"{"TypeDef:Tensor":{"dtype":"U8","shape":[4294967296,4294967296]}}"#,
        ),
        item(
            "schema.size-overflow.shape-most",
            r#"{"TypeDef:Tensor":{"dtype":"C64","shape":[18446744073709551615]}}"#,
        ),
        item(
            "schema.size-overflow.struct",
            &record(&[("a", half), ("b", half)], 2).replacen('{', r#"{"align":1,"#, 1),
        ),
        item(
            "schema.size-overflow.array",
            r#"{"items":{"TypeDef:Int64":true},"minItems":4611686018427387904,"maxItems":4611686018427387904,"TypeDef:Array":true}"#,
        ),
        schema("schema.depth.refs", &deep),
        schema("schema.invalid.defs", r#"{"$defs":[]}"#),
        schema("schema.invalid.node", r#"{"properties":{"a":1}}"#),
        item("schema.enum.twice", r#"{"enum":["a","a"],"TypeDef:Enum":true}"#),
        item("schema.items.plain", r#"{"type":"array","items":{},"TypeDef:Array":true}"#),
        item("schema.zero-size.struct", r#"{"TypeDef:Struct":[]}"#),
        item("schema.struct.missing", r#"{"TypeDef:Struct":["a"]}"#),
        item("schema.union.empty", r#"{"TypeDef:Union":{"discriminator":"k"},"mapping":{}}"#),
        w("schema.tensor.dtype", r#"{"TypeDef:Tensor":{"dtype":"f32"}}"#),
        item("schema.open-shape.null", r#"{"TypeDef:Tensor":{"dtype":"U8","shape":[null]}}"#),
        text(
            "schema.open-shape.symbol",
            &header(
                &object(&[("w", &array(&record(&[("x", open)], 1)))]),
                r#"{"w":{"count":0,"data_offsets":[0,0]}}"#,
            ),
        ),
        w("schema.blob.content", r#"{"TypeDef:Blob":{"content":"F4"}}"#),
        item("schema.kind-place.blob", r#"{"TypeDef:Blob":{"content":"utf-8"}}"#),
        schema(
            "schema.reference-keyword.one-of",
            r#"{"oneOf":[{"TypeDef:Tensor":{}},{"type":"null"}]}"#,
        ),
    ]
}

/// Errors that are found only in the data.
fn bytes() -> Vec<Reject> {
    let opened = |name, bytes| Reject { name, bytes, opens: true };
    let w = |name, schema: &str, reference: &str, data: &[u8]| {
        let schema = object(&[("w", schema)]);
        opened(name, file(&header(&schema, &format!(r#"{{"w":{reference}}}"#)), data))
    };
    let strings = |name, schema: &str, all: &[(u64, u64)], heap: &[u8]| {
        let data = [&entries(all)[..], heap].concat();
        w(name, &array(schema), &dataset(all.len(), 16 * all.len(), Some(heap.len())), &data)
    };
    let blobs = |name, content: &str, all: &[(u64, u64)], heap: &[u8]| {
        let data = [&entries(all)[..], heap].concat();
        w(name, &blob_with_content(content), &blob(all.len(), heap.len()), &data)
    };
    let one = |name, schema: &str, data: &[u8]| {
        w(name, &array(schema), &dataset(1, data.len(), None), data)
    };
    let packed = |members: &[(&str, &str)], required| {
        record(members, required).replacen('{', r#"{"align":1,"#, 1)
    };
    let gap = {
        let schema = object(&[("a", ANY), ("b", ANY)]);
        let tensors =
            format!(r#"{{"a":{},"b":{}}}"#, flat("U8", "1", 0, 1), flat("F32", "1", 4, 8));
        file(&header(&schema, &tensors), &[1, 0, 9, 0, 0, 0, 0, 0])
    };
    let union = format!(
        r#"{{"TypeDef:Union":{{"discriminator":"k"}},"mapping":{{"a":{},"b":{}}}}}"#,
        packed(&[("x", UINT8)], 1),
        packed(&[("x", UINT8), ("y", UINT8)], 2)
    );
    let object = r#"{"type":"object","additionalProperties":{},"TypeDef:Record":true}"#;
    let color = r#"{"enum":["red","green"],"TypeDef:Enum":true}"#;
    let far = u64::MAX;
    vec![
        opened("metatensor.gap-bytes.one", gap),
        w("layout.bool-byte.two", ANY, &flat("BOOL", "2", 0, 2), &[1, 2]),
        one("record.bool-byte.two", BOOLEAN, &[2]),
        one("record.bool-byte.most", BOOLEAN, &[255]),
        one("record.enum-index.two", color, &[2]),
        one("record.enum-index.most", color, &[255]),
        one("record.union-tag.most", &union, &[255, 0, 0]),
        one("record.presence.bit", &packed(&[("a", UINT8), ("b", UINT8)], 1), &[2, 1, 0]),
        one("record.presence.absent", &packed(&[("a", UINT8), ("b", UINT8)], 1), &[0, 1, 9]),
        one("record.union-tag.two", &union, &[2, 0, 0]),
        one("record.union-padding.one", &union, &[0, 1, 1]),
        strings("record.entry-bounds.end", STRING, &[(0, 3)], b"ab"),
        strings("record.entry-bounds.wraps", STRING, &[(far, 2)], b"ab"),
        strings("record.entry-bounds.behind", STRING, &[(2, 1)], b"ab"),
        strings("record.entry-bounds.no-heap", STRING, &[(0, 1)], b""),
        strings("record.entry-bounds.most", &array(FLOAT32), &[(0, far - 3)], &[0; 8]),
        strings("record.entry-empty.offset", STRING, &[(1, 0)], b"ab"),
        strings("record.entry-length.part", &array(FLOAT32), &[(0, 6)], &[0; 8]),
        strings("record.entry-align.one", &array(FLOAT32), &[(1, 4)], &[0; 8]),
        strings("record.utf8.one", STRING, &[(0, 1)], b"\xff"),
        // Two halves of one letter: the whole heap is text, each entry is not.
        strings("record.utf8.half", STRING, &[(0, 1), (1, 1)], "\u{e9}".as_bytes()),
        strings("record.utf8.surrogate", STRING, &[(0, 3)], b"\xed\xa0\x80"),
        strings("record.json.array", object, &[(0, 2)], b"[]"),
        strings("record.json.twice", object, &[(0, 13)], br#"{"a":1,"a":2}"#),
        blobs("record.entry-bounds.blob", "bytes", &[(2, 1)], b"ab"),
        blobs("record.entry-bounds.blob-most", "utf-8", &[(0, far)], b"ab"),
        blobs("record.entry-empty.blob", "utf-8", &[(1, 0)], b"ab"),
        blobs("record.entry-length.blob", "F32", &[(0, 6)], &[0; 8]),
        blobs("record.entry-align.blob", "F32", &[(2, 4)], &[0; 8]),
        blobs("record.utf8.blob", "utf-8", &[(0, 1)], b"\xff"),
        blobs("record.json.blob", "json", &[(0, 2)], b"1]"),
        blobs("record.json.blob-twice", "json", &[(0, 13)], br#"{"a":1,"a":2}"#),
        blobs("record.json.blob-empty", "json", &[(0, 0)], b""),
    ]
}
