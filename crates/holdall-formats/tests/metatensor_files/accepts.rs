//! Files that are read.

use super::*;

/// A name and the bytes.
pub(crate) fn accepts() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = vec![
        ("flat", one_tensor()),
        ("empty", file(&header(TENSORS, "{}"), &[])),
        ("root", file(&header(&tensor("F32", "2"), &flat("F32", "2", 0, 8)), &floats(&[1.0, 2.0]))),
        ("nested", nested()),
        ("dtypes", dtypes()),
        ("tied", tied()),
        ("nothing", nothing()),
        ("symbols", symbols()),
        ("values", values()),
        ("paths", paths()),
        ("metadata", metadata()),
        ("unknown-key", file(&with(TENSORS, "{}", r#","later":[1,{"x":null}]"#), &[])),
        ("restored", restored()),
        ("scalars", scalars()),
        ("strings", strings()),
        ("ragged", ragged()),
        ("optional", optional()),
        ("union", union()),
        ("inline", inline()),
        ("any-order", any_order()),
        ("printed", printed()),
        ("draft-4", drafted(4)),
        ("draft-7", drafted(7)),
    ];
    all.extend(blobs());
    all
}

fn floats(all: &[f32]) -> Vec<u8> {
    all.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn one_tensor() -> Vec<u8> {
    let schema = object(&[("w", &tensor("F32", "2"))]);
    let tensors = format!(r#"{{"w":{}}}"#, flat("F32", "2", 0, 8));
    file(&header(&schema, &tensors), &floats(&[1.0, 2.0]))
}

/// A model and texts as the concept prints their schemas: without a keyword of ours.
fn printed() -> Vec<u8> {
    let number = r#"{"type":"number"}"#;
    let pair = format!(
        r#"{{"type":"array","items":[{number},{number}],"additionalItems":false,"minItems":2,"maxItems":2}}"#
    );
    let reference = |dtype: &str| {
        let shape = format!(r#"{{"type":"array","items":{number}}}"#);
        object(&[("dtype", dtype), ("shape", &shape), ("data_offsets", &pair)])
    };
    let tensor = reference(r#"{"type":"string","enum":["F32","I16","U8"]}"#);
    let layer = object(&[("weight", REF), ("bias", REF)]);
    let entry = object(&[("offset", number), ("length", number)]);
    let entries = format!(r#"{{"type":"array","items":{entry}}}"#);
    let heap = reference(r#"{"const":"U8","type":"string"}"#);
    let texts = object(&[("entries", &entries), ("blob_data", &heap)]);
    let root = object(&[("conv1", r##"{"$ref":"#/$defs/Layer"}"##), ("texts", &texts)]);
    let schema = format!(
        r##"{{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{{"TensorRef":{tensor},"Layer":{layer}}},"additionalProperties":false,{}"##,
        &root[1..]
    );
    let tensors = format!(
        r#"{{"conv1":{{"weight":{},"bias":{}}},"texts":{{"entries":{{"count":2,"data_offsets":[16,48]}},"blob_data":{}}}}}"#,
        flat("F32", "2,1", 0, 8),
        flat("I16", "4", 8, 16),
        flat("U8", "3", 48, 51)
    );
    let mut data = floats(&[1.0, 2.0]);
    data.extend([1, 0, 2, 0, 3, 0, 4, 0]);
    for n in [0u64, 2, 2, 1] {
        data.extend(n.to_le_bytes());
    }
    data.extend(b"hi!");
    file(&header(&schema, &tensors), &data)
}

/// What a `$ref` of [`printed`] is.
const REF: &str = r##"{"$ref":"#/$defs/TensorRef"}"##;

/// A tensor, and plain values in the words of an older draft.
fn drafted(draft: u8) -> Vec<u8> {
    let bound = match draft {
        4 => r#""minimum":0,"exclusiveMinimum":true"#,
        _ => r#""exclusiveMinimum":0"#,
    };
    let pair = format!(
        r#"{{"type":"array","items":[{{"type":"number",{bound}}},{{"type":"string"}}],"additionalItems":{{"type":"boolean"}}}}"#
    );
    let both = r#"{"type":"object","dependencies":{"a":["b"],"c":{"required":["a"]}}}"#;
    let root = object(&[("w", r##"{"$ref":"#/definitions/w"}"##), ("pair", &pair), ("both", both)]);
    let schema = format!(
        r##"{{"$schema":"http://json-schema.org/draft-0{draft}/schema#","definitions":{{"w":{}}},{}"##,
        tensor("F32", "2"),
        &root[1..]
    );
    let tensors = format!(
        r#"{{"w":{},"pair":[0.5,"x",true],"both":{{"a":1,"b":2}}}}"#,
        flat("F32", "2", 0, 8)
    );
    file(&header(&schema, &tensors), &floats(&[1.0, 2.0]))
}

/// Layers in an array, of one definition, the second tensor of each on a boundary of 32.
fn nested() -> Vec<u8> {
    let aligned = r#"{"type":"object","TypeDef:Tensor":{"dtype":"U8","shape":[3]},"align":32}"#;
    let layer = object(&[("b", aligned), ("w", &tensor("F32", "2"))]);
    let layers = r##"{"type":"array","items":{"$ref":"#/$defs/layer"},"minItems":1,"maxItems":9}"##;
    let root = object(&[("head", &tensor("U8", "1")), ("layers", layers)]);
    let schema = format!(r##"{{"$defs":{{"layer":{layer}}},{}"##, &root[1..]);
    let at = |w: usize, b: usize| {
        format!(r#"{{"w":{},"b":{}}}"#, flat("F32", "2", w, w + 8), flat("U8", "3", b, b + 3))
    };
    let tensors = format!(
        r#"{{"layers":[{},{}],"head":{}}}"#,
        at(0, 32),
        at(36, 64),
        flat("U8", "1", 67, 68)
    );
    let mut data = floats(&[1.0, 2.0]);
    data.resize(32, 0);
    data.extend([1, 2, 3, 0]);
    data.extend(floats(&[3.0, 4.0]));
    data.resize(64, 0);
    data.extend([4, 5, 6, 7]);
    file(&header(&schema, &tensors), &data)
}

/// One tensor of each dtype, of 16 elements.
fn dtypes() -> Vec<u8> {
    let (mut tensors, mut data) = (String::from("{"), Vec::new());
    for (dtype, bits) in [
        ("U64", 64),
        ("I64", 64),
        ("F64", 64),
        ("C64", 64),
        ("F32", 32),
        ("U32", 32),
        ("I32", 32),
        ("BF16", 16),
        ("F16", 16),
        ("U16", 16),
        ("I16", 16),
        ("F8_E5M2FNUZ", 8),
        ("F8_E4M3FNUZ", 8),
        ("F8_E8M0", 8),
        ("F8_E4M3", 8),
        ("F8_E5M2", 8),
        ("I8", 8),
        ("U8", 8),
        ("BOOL", 8),
        ("F6_E3M2", 6),
        ("F6_E2M3", 6),
        ("F4", 4),
    ] {
        let start = data.len();
        let byte = |i: usize| if dtype == "BOOL" { (i % 2) as u8 } else { (i * 7 + 3) as u8 };
        data.extend((0..bits * 2).map(byte));
        let comma = if start == 0 { "" } else { "," };
        tensors += &format!(r#"{comma}"t_{dtype}":{}"#, flat(dtype, "4,4", start, data.len()));
    }
    file(&header(TENSORS, &(tensors + "}")), &data)
}

/// Two tensors on one range, with different alignments.
fn tied() -> Vec<u8> {
    let aligned = r#"{"type":"object","TypeDef:Tensor":{"dtype":"F32"},"align":16}"#;
    let schema = object(&[("a", &tensor("U8", "3")), ("b", &tensor("F32", "2")), ("c", aligned)]);
    let tensors = format!(
        r#"{{"a":{},"b":{},"c":{}}}"#,
        flat("U8", "3", 0, 3),
        flat("F32", "2", 16, 24),
        flat("F32", "2", 16, 24)
    );
    let mut data = vec![1, 2, 3];
    data.resize(16, 0);
    data.extend(floats(&[1.0, -1.0]));
    file(&header(&schema, &tensors), &data)
}

/// Tensors, records and blobs of no bytes.
fn nothing() -> Vec<u8> {
    let schema = object(&[
        ("blob", &blob_with_content("json")),
        ("data", &array(UINT32)),
        ("end", &tensor("F64", "0")),
        ("none", &tensor("F32", "0,9223372036854775808,9223372036854775808")),
        ("one", &tensor("U8", "1")),
    ]);
    let tensors = format!(
        r#"{{"none":{},"one":{},"blob":{{"entries":{{"count":0,"data_offsets":[0,0]}},"blob_data":{}}},"data":{{"count":0,"data_offsets":[0,0]}},"end":{}}}"#,
        flat("F32", "0,9223372036854775808,9223372036854775808", 0, 0),
        flat("U8", "1", 0, 1),
        flat("U8", "0", 1, 1),
        flat("F64", "0", 8, 8)
    );
    file(&header(&schema, &tensors), &[9, 0, 0, 0, 0, 0, 0, 0])
}

/// A dataset whose records hold a tensor of a size that a later reference tells.
fn symbols() -> Vec<u8> {
    let item = record(&[("row", r#"{"TypeDef:Tensor":{"dtype":"U16","shape":["n"]}}"#)], 1);
    let any = r#"{"TypeDef:Tensor":{"dtype":"U8","shape":["n",null]}}"#;
    let schema = object(&[("all", &array(&item)), ("w", any)]);
    let tensors =
        format!(r#"{{"all":{},"w":{}}}"#, dataset(2, 32, None), flat("U8", "3,1", 32, 35));
    let mut data = vec![1, 0, 2, 0, 3, 0];
    data.resize(16, 0);
    data.extend([4, 0, 5, 0, 6, 0]);
    data.resize(32, 0);
    data.extend([7, 8, 9]);
    file(&header(&schema, &tensors), &data)
}

/// Plain values next to tensors and in an array of objects.
fn values() -> Vec<u8> {
    let layer = object(&[("name", r#"{"type":"string"}"#), ("w", &tensor("U8", "1"))]);
    let schema = object(&[
        ("config", r#"{"type":"object","properties":{"heads":{"type":"integer"}}}"#),
        ("layers", &format!(r#"{{"type":"array","items":{layer}}}"#)),
        ("steps", r#"{"type":"integer","TypeDef:Int64":true}"#),
    ]);
    let tensors = format!(
        r#"{{"config":{{ "heads": 8, "eps": 1e-5 }},"layers":[{{"name":"first","w":{}}}],"steps":-3,"free":[null,"\u00e9"]}}"#,
        flat("U8", "1", 0, 1)
    );
    file(&header(&schema, &tensors), &[5])
}

/// Names that are escaped in paths.
fn paths() -> Vec<u8> {
    let mut tensors = String::new();
    let names = [r"a.b", "a[0]", r"a\\b", "", "é", " ", "a]"];
    for (at, name) in names.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        tensors += &format!(r#"{comma}"{name}":{}"#, flat("U8", "1", at, at + 1));
    }
    file(&header(TENSORS, &format!("{{{tensors}}}")), &[0, 1, 2, 3, 4, 5, 6])
}

/// Attributes in the form for values that JSON lacks, and an object that only looks like it.
fn metadata() -> Vec<u8> {
    let more = r##","metadata":{"license":"MIT","n":3,"x":1.0,"big":18446744073709551615,"bytes":{"$bytes":"00ff"},"nan":{"$float":"nan"},"list":[true,null,{"a":{"b":[]}}],"schema":{"$ref":"#/$defs/x","n":1}}"##;
    file(&with(TENSORS, "{}", more), &[])
}

/// A name and attributes that stand in the metadata.
fn restored() -> Vec<u8> {
    let more = r#","metadata":{"holdall.names":{"a\\.b":"a.b"},"holdall.tensor_attributes":{"a.b":{"unit":"m"},"s":{"of":"text"}},"holdall.attributes":{"holdall.x":1}}"#;
    let schema = object(&[
        ("a", &tensor("U8", "1")),
        ("a.b", &tensor("U8", "1")),
        ("s", &blob_with_content("bytes")),
        ("t", &array(UINT8)),
    ]);
    let tensors = format!(
        r#"{{"s":{},"a":{},"a.b":{},"t":{{"count":2,"data_offsets":[20,22]}}}}"#,
        blob(1, 2),
        flat("U8", "1", 18, 19),
        flat("U8", "1", 19, 20)
    );
    let mut data = entries(&[(0, 2)]);
    data.extend([1, 2, 3, 4, 5, 6]);
    file(&with(&schema, &tensors, more), &data)
}

/// Records of numbers, a time and an enum, packed.
fn scalars() -> Vec<u8> {
    let time = r#"{"type":"string","format":"date-time","TypeDef:Timestamp":true}"#;
    let color = r#"{"enum":["red","green"],"TypeDef:Enum":true}"#;
    let half = r#"{"type":"number","TypeDef:BFloat16":true}"#;
    let members =
        [("t", time), ("x", FLOAT32), ("n", UINT32), ("h", half), ("c", color), ("b", BOOLEAN)];
    let item = record(&members, 6).replacen('{', r#"{"align":1,"#, 1);
    let schema = object(&[("all", &array(&item))]);
    let mut data = Vec::new();
    for n in 0..3u32 {
        data.extend(1_000_000_000i64.to_le_bytes());
        data.extend((n as f32).to_le_bytes());
        data.extend(n.to_le_bytes());
        data.extend([0x80, 0x3f, (n % 2) as u8, 1]);
    }
    let tensors = format!(r#"{{"all":{}}}"#, dataset(3, 60, None));
    file(&header(&schema, &tensors), &data)
}

/// Records with text in a heap, two of them with the same bytes.
fn strings() -> Vec<u8> {
    let item = record(&[("id", UINT32), ("name", STRING)], 2);
    let schema = object(&[("people", &array(&item))]);
    let mut data = Vec::new();
    for (id, at, len) in [(1u32, 0u64, 3u64), (2, 3, 2), (3, 0, 3), (4, 0, 0)] {
        data.extend(id.to_le_bytes());
        data.extend([0; 4]);
        data.extend(entries(&[(at, len)]));
        data.extend([0; 8]);
    }
    data.extend(b"Ada\xc3\xa9");
    let tensors = format!(r#"{{"people":{}}}"#, dataset(4, 128, Some(5)));
    file(&header(&schema, &tensors), &data)
}

/// Rows of different lengths.
fn ragged() -> Vec<u8> {
    let schema = object(&[("rows", &array(&array(FLOAT32)))]);
    let mut data = entries(&[(0, 8), (0, 0), (8, 4)]);
    data.extend(floats(&[1.0, 2.0, 3.0]));
    let tensors = format!(r#"{{"rows":{}}}"#, dataset(3, 48, Some(12)));
    file(&header(&schema, &tensors), &data)
}

/// A member that one record has and the other lacks.
fn optional() -> Vec<u8> {
    let item = record(&[("id", UINT32), ("flag", BOOLEAN)], 1);
    let schema = object(&[("all", &array(&item))]);
    let mut data = vec![1, 0, 0, 0, 7, 0, 0, 0, 1];
    data.resize(16, 0);
    data.extend([0, 0, 0, 0, 8, 0, 0, 0, 0]);
    data.resize(32, 0);
    let tensors = format!(r#"{{"all":{}}}"#, dataset(2, 32, None));
    file(&header(&schema, &tensors), &data)
}

/// One of two structs.
fn union() -> Vec<u8> {
    let item = format!(
        r#"{{"TypeDef:Union":{{"discriminator":"kind"}},"mapping":{{"circle":{},"box":{}}}}}"#,
        record(&[("r", FLOAT32)], 1),
        record(&[("w", FLOAT32), ("h", FLOAT32)], 2)
    );
    let schema = object(&[("shapes", &array(&item))]);
    // The tag of `box` is 0, that of `circle` 1; variants start at 16.
    let mut data = vec![0; 16];
    data.extend(floats(&[2.0, 3.0]));
    data.resize(32, 0);
    data.push(1);
    data.resize(48, 0);
    data.extend(floats(&[0.5]));
    data.resize(64, 0);
    let tensors = format!(r#"{{"shapes":{}}}"#, dataset(2, 64, None));
    file(&header(&schema, &tensors), &data)
}

/// A tensor in each record, fixed arrays, and a definition that the kind needs.
fn inline() -> Vec<u8> {
    let image = tensor("U8", "2,2");
    let pair = format!(
        r#"{{"type":"array","items":{FLOAT32},"minItems":2,"maxItems":2,"TypeDef:Array":true}}"#
    );
    let item = record(&[("image", r##"{"$ref":"#/$defs/image"}"##), ("at", &pair)], 2);
    let root = object(&[("all", &array(r##"{"$ref":"#/$defs/item"}"##))]);
    let schema = format!(
        r#"{{"$defs":{{"image":{image},"item":{item},"unused":{{"type":"null"}}}},{}"#,
        &root[1..]
    );
    let mut data = vec![1, 2, 3, 4];
    data.extend(floats(&[0.5, 1.5]));
    data.resize(16, 0);
    let tensors = format!(r#"{{"all":{}}}"#, dataset(1, 16, None));
    file(&header(&schema, &tensors), &data)
}

/// Keys and fields in an order of their own, with spaces and escapes.
fn any_order() -> Vec<u8> {
    let text = r#" { "tensors" : { "\u0062" : { "data_offsets" : [ 0 , 2 ] , "more" : { } , "shape" : [ 2 ] , "dtype" : "U8" } } ,
        "schema":{"properties":{"a":{"TypeDef:Tensor":{}},"b":{"TypeDef:Tensor":{}}}}, "data_align" : 128, "endian":"litt\u006ce", "metatensor" : "1.7" }"#;
    let mut header = text.to_owned();
    while !(8 + header.len()).is_multiple_of(128) {
        header.push('\n');
    }
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([1, 2]);
    bytes
}

/// A blob of each content.
fn blobs() -> Vec<(&'static str, Vec<u8>)> {
    let of = |content: &str, all: &[(u64, u64)], heap: &[u8]| {
        let schema = object(&[("b", &blob_with_content(content))]);
        let tensors = format!(r#"{{"b":{}}}"#, blob(all.len(), heap.len()));
        let mut data = entries(all);
        data.extend_from_slice(heap);
        file(&header(&schema, &tensors), &data)
    };
    vec![
        ("blob-utf-8", of("utf-8", &[(0, 2), (2, 3), (0, 0), (0, 2)], "hi\u{5c64}".as_bytes())),
        ("blob-bytes", of("bytes", &[(1, 3), (0, 4)], &[0xff, 0, 1, 2])),
        ("blob-json", of("json", &[(0, 7), (7, 4)], br#"{"a":1}null"#)),
        ("blob-elements", of("F32", &[(0, 8), (8, 4)], &floats(&[1.0, 2.0, 3.0]))),
    ]
}
