//! Metatensor for authors of schemas: their schemas are kept, plain JSON Schema validators can check headers, and equal
//! records have equal bytes.

use crate::command::{Folder, accept, files, holdall, holdall_with};
use serde_json::{Value as Json, json};
use std::path::Path;

fn case(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/metatensor_cases");
    folder.join(name).to_str().unwrap().to_owned()
}

/// Returns the text of a file's header.
fn header_text(path: impl AsRef<Path>) -> String {
    let bytes = std::fs::read(path).unwrap();
    let (len, rest) = bytes.split_first_chunk::<8>().unwrap();
    let len = usize::try_from(u64::from_le_bytes(*len)).unwrap();
    String::from_utf8(rest[..len].to_vec()).unwrap()
}

/// Follows the recipe of `docs/spec/metatensor.md`, 2.10, with a validator that does not know Metatensor.
fn plain_validator_says(path: impl AsRef<Path>) -> Result<(), String> {
    let header: Json = serde_json::from_str(&header_text(path)).unwrap();
    let schema = header.get("header_schema").unwrap_or(&header["schema"]);
    jsonschema::validate(schema, &header["tensors"])
        .map_err(|e| format!("{e} at {}", e.instance_path()))
}

#[test]
fn a_plain_validator_checks_the_header_of_every_file() {
    let folder = Folder::new();
    let mut count = 0;
    for path in files("accept") {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_none_or(|e| e != "mt")
            || !header_text(&path).contains("\"metatensor\"")
        {
            continue;
        }
        let out = folder.at(&name);
        holdall(["convert", path.to_str().unwrap(), &out]).ends_with(0);
        plain_validator_says(&out).unwrap_or_else(|e| panic!("{name}: {e}\n{}", header_text(&out)));
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[test]
fn a_plain_validator_refuses_a_header_that_is_wrong() {
    let folder = Folder::new();
    let schema = json!({
        "type": "object", "required": ["docs", "w", "texts"], "additionalProperties": false,
        "properties": {
            "docs": {"type": "array", "TypeDef:Array": true, "maxItems": 9, "items": {
                "TypeDef:Struct": ["t"], "required": ["t"], "properties": {"t": {"TypeDef:String": true}}}},
            "w": {"TypeDef:Tensor": {"dtype": ["F32", "I16"], "shape": [2, "n"]}},
            "texts": {"TypeDef:Blob": {"content": "utf-8"}},
            "note": {"type": "string", "pattern": "^a"},
        },
    });
    let path = folder.write("s.json", schema.to_string());
    let derived = holdall(["schema", "header", &path, "--json"]).ends_with(0).json();
    let heap = json!({"dtype": "U8", "shape": [3], "data_offsets": [0, 3]});
    let good = json!({
        "docs": {"count": 3, "data_offsets": [0, 48], "blob_data": heap},
        "w": {"dtype": "I16", "shape": [2, 5], "data_offsets": [0, 20]},
        "texts": {"entries": {"count": 1, "data_offsets": [0, 16]}, "blob_data": heap},
        "note": "abc",
    });
    jsonschema::validate(&derived, &good).unwrap();
    let wrong = [
        ("/docs", json!([])),
        ("/docs/count", json!(10)),
        ("/docs/data_offsets", json!([1, 2, 3])),
        ("/docs/blob_data", json!({"dtype": "U8"})),
        ("/w/dtype", json!("F64")),
        ("/w/shape", json!([3, 5])),
        ("/w/shape", json!([2])),
        ("/texts/entries", json!([])),
        ("/texts/blob_data/dtype", json!("F32")),
        ("/note", json!("b")),
    ];
    for (pointer, value) in wrong {
        let mut header = good.clone();
        *header.pointer_mut(pointer).unwrap() = value;
        assert!(jsonschema::validate(&derived, &header).is_err(), "{pointer}: {header}");
    }
}

#[test]
fn convert_keeps_the_schema_of_its_author() {
    let folder = Folder::new();
    let schema = case("convert-schema.schema.json");
    let out = folder.at("out.mt");
    let refused = holdall(["convert", &case("m1c.mt"), &out, "--schema", &schema, "--json"]);
    let error = refused.ends_with(4).error();
    assert_eq!(error["code"], "metatensor/schema-fit");
    assert!(error["message"].as_str().unwrap().contains("the dtype is F16"), "{error}");

    // With the right dtypes, every keyword is kept, in its order.
    let text = std::fs::read_to_string(&schema).unwrap().replace("\"I16\"", "\"F16\"");
    let schema = folder.write("s.json", &text);
    holdall(["convert", &case("m1c.mt"), &out, "--schema", &schema]).ends_with(0);
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(header_text(&out).contains(&compact), "{}", header_text(&out));
    plain_validator_says(&out).unwrap();
    holdall(["verify", &out]).ends_with(0);
}

#[test]
fn build_keeps_the_schema_of_its_author() {
    let folder = Folder::new();
    let lines = folder.write("keep.ndjson", "{\"x\":1}\n");
    for name in ["defs-and-definitions.schema.json", "nested-defs.schema.json"] {
        let text = std::fs::read_to_string(case(name)).unwrap();
        let mut schema: Json = serde_json::from_str(&text).unwrap();
        // The schema's other members do not exist in this file.
        schema["required"] = json!(["docs"]);
        let out = folder.at("out.mt");
        let args = ["build", "-o", &out, "--force", "--records", &lines, "--schema", &case(name)];
        holdall(args).ends_with(0);
        let compact: String = compact(&text);
        assert!(header_text(&out).contains(&compact), "{compact}\n{}", header_text(&out));
        plain_validator_says(&out).unwrap();
        holdall(["verify", &out]).ends_with(0);
    }
}

fn compact(text: &str) -> String {
    let mut out = String::new();
    let mut is_text = false;
    for c in text.chars() {
        is_text ^= c == '"';
        if is_text || !c.is_whitespace() {
            out.push(c);
        }
    }
    out
}

#[test]
fn the_list_of_dtypes_of_a_printed_reference_is_enforced() {
    let file = case("dtype-outside-list.mt");
    let found = holdall(["verify", &file, "--json"]).ends_with(1);
    assert!(found.out.contains("metatensor/dtype") || found.err.contains("metatensor/dtype"));

    let folder = Folder::new();
    let text = header_text(&file);
    let header: Json = serde_json::from_str(&text).unwrap();
    let schema = folder.write("s.json", header["schema"].to_string());
    let tensors = folder.at("w.zt");
    let plain = accept("metatensor/made-flat.mt");
    holdall(["convert", &plain, &tensors]).ends_with(0);
    holdall(["schema", "check", &schema, &tensors]).ends_with(1);
    // A list that grows is compatible, a list that shrinks is not.
    let wider = folder.write(
        "w.json",
        header["schema"].to_string().replace(
            r#"{"const":"I16","type":"string"}"#,
            r#"{"const":"I16","type":"string"},{"const":"F64","type":"string"}"#,
        ),
    );
    let diff = holdall(["schema", "diff", &schema, &wider, "--json"]).json();
    assert_eq!(diff["changes"][0]["change"], "dtype");
    assert_eq!(diff["changes"][0]["verdict"], "compatible");
    let diff = holdall(["schema", "diff", &wider, &schema, "--json"]).json();
    assert_eq!(diff["changes"][0]["verdict"], "needs-converter");
}

#[test]
fn the_same_records_are_the_same_wherever_the_heap_has_them() {
    holdall(["diff", &case("dd1.mt"), &case("dd2.mt")]).ends_with(0);
    let folder = Folder::new();
    let lines = folder
        .write("r.ndjson", "{\"t\":\"same\",\"m\":{\"a\":1}}\n{\"t\":\"same\",\"m\":{\"a\":1}}\n");
    let schema = folder.write("s.json", json!({
        "TypeDef:Struct": ["t", "m"], "required": ["t", "m"],
        "properties": {"t": {"TypeDef:String": true}, "m": {"type": "object", "TypeDef:Record": true}},
    }).to_string());
    let other = folder.write(
        "o.ndjson",
        "{\"m\":{\"a\": 1},\"t\":\"same\"}\n{\"m\":{\"a\": 1},\"t\":\"same\"}\n",
    );
    let changed = folder
        .write("c.ndjson", "{\"t\":\"same\",\"m\":{\"a\":1}}\n{\"t\":\"same\",\"m\":{\"a\":2}}\n");
    let built = |name: &str, lines: &str, more: &[&str]| {
        let out = folder.at(name);
        let args = ["build", "-o", &out, "--records", lines, "--schema", &schema];
        holdall([&args[..], more].concat()).ends_with(0);
        out
    };
    let (a, b) = (built("a.mt", &lines, &[]), built("b.mt", &other, &["--dedup"]));
    holdall(["diff", &a, &b]).ends_with(0);
    holdall(["diff", &a, &built("c.mt", &changed, &[])]).ends_with(1);
    holdall(["diff", &a, &built("d.zt", &other, &[])]).ends_with(0);
    // Migrating a file to its own schema does not change it.
    let out = folder.at("own.mt");
    holdall(["schema", "migrate", &b, &b, "-o", &out]).ends_with(0);
    holdall(["diff", &b, &out]).ends_with(0);
}

#[test]
fn a_pattern_that_is_not_compiled_leaves_its_value_unverified() {
    let file = case("lookahead.mt");
    let text = holdall(["inspect", &file]).ends_with(0);
    assert!(text.out.contains("^(?!x)") || text.err.contains("^(?!x)"), "{}{}", text.out, text.err);
    holdall(["verify", &file]).ends_with(0);
    let folder = Folder::new();
    let out = folder.at("again.mt");
    holdall(["convert", &file, &out]).ends_with(0);
    holdall(["diff", &file, &out]).ends_with(0);
    let schema = folder.write("s.json", json!({
        "TypeDef:Struct": ["t"], "required": ["t"],
        "properties": {"t": {"type": "string", "TypeDef:String": true, "pattern": "^(?!x)", "maxLength": 3}},
    }).to_string());
    holdall(["schema", "check", &schema]).ends_with(0);
    holdall_with(["schema", "check", &schema, "-"], b"{\"t\":\"abc\"}\n").ends_with(0);
    // The other keywords are still verified.
    holdall_with(["schema", "check", &schema, "-"], b"{\"t\":\"abcd\"}\n").ends_with(1);
}

#[test]
fn schema_check_and_build_say_the_same_of_records() {
    let folder = Folder::new();
    let schema = folder.write(
        "zero.json",
        json!({"type": "object", "TypeDef:Struct": [], "properties": {}, "required": []})
            .to_string(),
    );
    let lines = folder.write("e.ndjson", "{}\n{}\n{}\n");
    let out = folder.at("zero.mt");
    let checked = holdall(["schema", "check", &schema, &lines, "--json"]).ends_with(1);
    assert!(
        checked.out.contains("records/size") || checked.err.contains("records/size"),
        "{}",
        checked.out
    );
    let built = holdall(["build", "-o", &out, "--records", &lines, "--schema", &schema, "--json"]);
    assert_eq!(built.ends_with(1).error()["code"], "records/size");
}

#[test]
fn defaults_are_exact() {
    let folder = Folder::new();
    let (lines, out) = (folder.write("r.ndjson", "{\"id\":1}\n"), folder.at("r.mt"));
    let schema = case("int64-default.schema.json");
    holdall(["build", "-o", &out, "--records", &lines, "--schema", &schema]).ends_with(0);
    let found = holdall(["records", &out, "--json"]).ends_with(0).out;
    assert_eq!(found.trim(), "{\"id\":1,\"b\":9007199254740993,\"f\":-0.0}");
    assert!(header_text(&out).contains("9007199254740993"));
}

/// The schema in a file's header, as it is written there.
fn schema_text(path: impl AsRef<Path>) -> String {
    let text = header_text(path);
    let start = text.find(r#""schema":"#).unwrap() + r#""schema":"#.len();
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Json>();
    values.next().unwrap().unwrap();
    text[start..start + values.byte_offset()].to_owned()
}

/// The members of an object, in an order of many.
fn in_order(members: &[String], order: usize) -> String {
    let (mut left, mut order, mut out) = (members.to_vec(), order, Vec::new());
    while !left.is_empty() {
        let next = order % left.len();
        order /= left.len();
        out.push(left.remove(next));
    }
    format!("{{{}}}", out.join(","))
}

/// Whatever the order of the keywords and of the properties, and however numbers and texts are spelled.
#[test]
fn a_schema_stays_as_its_author_wrote_it() {
    let folder = Folder::new();
    let rows = folder.write("r.ndjson", "{\"z\":1,\"a\":\"x\",\"m\":{\"q\":1,\"b\":2}}\n");
    let text = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    for order in [0, 1, 7, 100, 719, 5039, 1234, 4321] {
        let z = text(&[r#""TypeDef:Int32":true"#, r#""minimum":-1.50e0"#, r#""title":"\u00e9""#]);
        let inner = text(&[r#""q":{"TypeDef:Int8":true}"#, r#""b":{"TypeDef:Int8":true}"#]);
        let m = [
            r#""TypeDef:Struct":["q","b"]"#.to_owned(),
            format!(r#""properties":{}"#, in_order(&inner, order)),
            r#""required":["q","b"]"#.to_owned(),
        ];
        let properties = [
            format!(r#""z":{}"#, in_order(&z, order)),
            format!(r#""m":{}"#, in_order(&m, order)),
            r##""a":{"$ref":"#/$defs/text"}"##.to_owned(),
        ];
        let own = [
            r#""title":"mine""#.to_owned(),
            r#""required":["z","a","m"]"#.to_owned(),
            format!(r#""properties":{}"#, in_order(&properties, order)),
            r#""TypeDef:Struct":["z","a","m"]"#.to_owned(),
            r#""description":"of a record""#.to_owned(),
        ];
        let defs = r#""$defs":{"text":{"title":"t","TypeDef:String":true}}"#;
        let items = in_order(&own, order);
        let record = format!("{},{defs}}}", &items[..items.len() - 1]);
        let path = folder.write("s.json", &record);

        // The schema of a record, in a file, and in files that are made of it.
        let out = folder.at(&format!("{order}.mt"));
        holdall(["build", "--schema", &path, "--records", &rows, "-o", &out]).ends_with(0);
        let first = schema_text(&out);
        assert!(first.contains(&items) && first.contains(defs), "{items}\n{first}");
        for through in ["a.mt", "b.zt", "c.mt"] {
            let from = if through == "c.mt" { folder.at("b.zt") } else { out.clone() };
            holdall(["convert", &from, &folder.at(through), "-f"]).ends_with(0);
        }
        assert_eq!(schema_text(folder.at("a.mt")), first);
        assert_eq!(schema_text(folder.at("c.mt")), first);
        let migrated = folder.at("m.mt");
        holdall(["schema", "migrate", &out, &path, "-o", &migrated, "-f"]).ends_with(0);
        assert_eq!(schema_text(migrated), first);

        // That of a whole file.
        let whole = format!(
            r#"{{"type":"object","required":["all"],{defs},"properties":{{"all":{{"TypeDef:Array":true,"items":{items}}}}}}}"#
        );
        let path = folder.write("w.json", &whole);
        let out = folder.at("w.mt");
        holdall(["build", "--schema", &path, "--records", &rows, "-o", &out, "-f"]).ends_with(0);
        assert_eq!(schema_text(&out), whole);
        holdall(["convert", &out, &folder.at("a.mt"), "--align", "512", "-f"]).ends_with(0);
        assert!(schema_text(folder.at("a.mt")).contains(&items));
    }
}

#[test]
fn one_name_in_defs_and_in_definitions_is_two_things() {
    let folder = Folder::new();
    let schema = r##"{"definitions":{"t":{"TypeDef:Tensor":{"dtype":"U8","shape":[1]}}},"type":"object","properties":{"w":{"$ref":"#/$defs/t"},"b":{"$ref":"#/definitions/t"}},"required":["w","b"],"$defs":{"t":{"TypeDef:Tensor":{"dtype":"F32","shape":[2]}}}}"##;
    let path = folder.write("s.json", schema);
    let from = accept("metatensor/made-nested.mt");
    let out = folder.at("o.mt");
    let tensors = folder.at("tensors.zt");
    let chosen = [
        "--select",
        "layers*0*.w",
        "--select",
        "head",
        "--rename",
        "layers[0].w=w",
        "--rename",
        "head=b",
    ];
    holdall(["convert", &from, &tensors].into_iter().chain(chosen)).ends_with(0);
    holdall(["convert", &tensors, &out, "--schema", &path, "--drop-attributes"]).ends_with(0);
    assert_eq!(schema_text(&out), schema);
    plain_validator_says(&out).unwrap();
    let shown = holdall(["schema", "layout", &out]).ends_with(0).out;
    assert!(shown.contains("w     f32 [2]") && shown.contains("b     u8 [1]"), "{shown}");
    // A schema that has them the other way round is not that of the file.
    let other = folder.write(
        "o.json",
        schema
            .replace("definitions/t", "x")
            .replace("$defs/t", "definitions/t")
            .replace("#/x", "#/$defs/t"),
    );
    holdall(["schema", "check", &other, &out]).ends_with(1);
}

#[test]
fn a_safetensors_file_is_checked_by_a_map_of_references() {
    let folder = Folder::new();
    let map = |dtypes: Json| {
        let pair =
            json!({"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2});
        json!({"type": "object", "additionalProperties": {
            "type": "object", "required": ["dtype", "shape", "data_offsets"],
            "properties": {
                "dtype": {"anyOf": dtypes},
                "shape": {"type": "array", "items": {"type": "number"}},
                "data_offsets": pair,
            },
        }})
    };
    let literal = |name: &str| json!({"type": "string", "const": name});
    let file = accept("safetensors/python-0.8-numpy.safetensors");
    let all = holdall(["inspect", &file, "--json"]).ends_with(0).json();
    let dtypes: Vec<String> = all["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["components"]["data"]["dtype"].as_str().unwrap().to_ascii_uppercase())
        .collect();
    let known: Json = dtypes.iter().map(|name| literal(name)).collect();
    let path = folder.write("all.json", map(known).to_string());
    holdall(["schema", "check", &path, &file]).ends_with(0);
    let path = folder.write("some.json", map(json!([literal("U64"), literal("F32")])).to_string());
    let output = holdall(["schema", "check", &path, &file]).ends_with(1);
    let output = format!("{}{}", output.out, output.err);
    assert!(output.contains("U64|F32"), "{output}");
}
