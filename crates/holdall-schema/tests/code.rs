//! Code from schemas: names that are not valid in the languages, records that cannot be represented, and TypeScript of
//! every vector.

use holdall_schema::code::{Lang, code};
use holdall_schema::{Schema, SchemaLimits};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::Command;

fn made(schema: &Value, name: &str, lang: Lang) -> holdall_schema::Result<String> {
    let schema = Schema::compile_record(schema, &SchemaLimits::default())?;
    code(&schema, schema.record().unwrap(), name, lang)
}

fn odd() -> Value {
    let names = ["type", "self", "2x", "a-b", "a b", "_hidden", "né", "Wide", "\"\n", "np"];
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|n| ((*n).to_owned(), json!({"TypeDef:Int32": true}))).collect();
    json!({"TypeDef:Struct": names, "required": names, "properties": properties})
}

#[test]
fn names_that_a_language_does_not_take_are_changed() {
    let rust = made(&odd(), "my point", Lang::Rust).unwrap();
    for line in [
        "pub struct MyPoint {",
        "pub r#type: i32,",
        "#[record(name = \"self\")]\n    pub self_: i32,",
        "#[record(name = \"2x\")]\n    pub m_2x: i32,",
        "#[record(name = \"a-b\")]\n    pub a_b: i32,",
        "#[record(name = \"a b\")]\n    pub a_b2: i32,",
        "#[record(name = \"_hidden\")]\n    pub m_hidden: i32,",
        "#[record(name = \"né\")]\n    pub n_: i32,",
        "pub Wide: i32,",
        "#[record(name = \"\\\"\\n\")]\n    pub m__: i32,",
    ] {
        assert!(rust.contains(line), "{line}\n{rust}");
    }
    let python = made(&odd(), "none", Lang::Python).unwrap();
    assert!(python.contains("\nNone_ = np.dtype("), "{python}");
    assert!(python.contains(r#""names": ["type", "self", "2x", "a-b", "a b", "_hidden", "né", "Wide", "\"\n", "np"]"#), "{python}");
    let typescript = made(&odd(), "3d", Lang::TypeScript).unwrap();
    for line in
        ["export interface T3d {", "  type: number;", "  \"2x\": number;", "  \"\\\"\\n\": number;"]
    {
        assert!(typescript.contains(line), "{line}\n{typescript}");
    }
    // Two members whose structs would have the same name.
    let inner = json!({"TypeDef:Struct": ["x"], "properties": {"x": {"TypeDef:Int8": true}}, "required": ["x"]});
    let twice = json!({"TypeDef:Struct": ["a b", "a_b"], "required": ["a b", "a_b"],
        "properties": {"a b": inner, "a_b": inner}});
    for lang in [Lang::Rust, Lang::Python, Lang::TypeScript] {
        let text = made(&twice, "R", lang).unwrap();
        assert!(text.contains("RAB ") && text.contains("RAB2 "), "{text}");
    }
    let wgsl = made(&odd(), "my point", Lang::Wgsl).unwrap();
    for line in [
        "struct MyPoint {\n    type_: i32,\n    self_: i32,\n    m_2x: i32,\n    a_b: i32,\n    a_b2: i32,\n    \
         m_hidden: i32,\n    n_: i32,\n    Wide: i32,\n    m__: i32,\n    np: i32,\n    words_40: array<u32, 2>,\n}\n",
        "\n// a b: Int32.\nfn my_point_a_b2(record: u32) -> i32 {\n    let at = record * MY_POINT_STRIDE + 16u;\n",
        // A name with a quote and a line break is written on one line.
        "\n// \" : Int32.\n",
    ] {
        assert!(wgsl.contains(line), "{line}\n{wgsl}");
    }
}

#[test]
fn types_without_an_equivalent_are_explained() {
    let union = json!({"TypeDef:Union": {"discriminator": "k"}, "mapping": {
        "a": {"TypeDef:Struct": ["x"], "properties": {"x": {"TypeDef:Int8": true}}}}});
    let variable = json!({"TypeDef:Array": true, "items": {"TypeDef:Float32": true}});
    for (kind, found) in [
        (json!({"TypeDef:String": true}), "String"),
        (json!({"TypeDef:Bytes": true, "contentEncoding": "base64"}), "Bytes"),
        (union.clone(), "Union"),
        (variable.clone(), "Array"),
    ] {
        for lang in [Lang::Rust, Lang::Python, Lang::Wgsl] {
            if (lang, found) == (Lang::Wgsl, "Union") {
                continue;
            }
            let e = made(&kind, "R", lang).unwrap_err();
            assert_eq!(e.code(), "schema/no-equivalent-type");
            assert!(e.message().contains(&format!("`TypeDef:{found}`")), "{e}");
        }
        made(&kind, "R", Lang::TypeScript).unwrap();
    }
    let all = json!({"TypeDef:Struct": ["n", "name", "shape", "rows", "maybe", "label"], "required":
        ["n", "name", "shape", "rows", "label"], "properties": {
        "n": {"TypeDef:Int16": true}, "name": {"TypeDef:String": true}, "shape": union, "rows": variable,
        "maybe": {"TypeDef:Int64": true}, "label": {"enum": ["cat", "do\"g"], "TypeDef:Enum": true}}});
    let rust = made(&all, "R", Lang::Rust).unwrap();
    for line in [
        "    /// text: name.\n    pub _name: [u8; 16],\n",
        "    /// a number, may be absent: maybe.\n    pub _maybe: [u8; 8],\n",
        "pub const LABEL_NAMES: [&'static str; 2] = [\"cat\", \"do\\\"g\"];",
    ] {
        assert!(rust.contains(line), "{line}\n{rust}");
    }
    let python = made(&all, "R", Lang::Python).unwrap();
    for line in [
        "\"names\": [\"n\", \"label\"],",
        "#   records.texts(\"name\"): text\n",
        "#   records.column(\"shape.a.x\"): a number, may be absent\n",
        "#   records.ragged(\"rows\"): an array\n",
        "#   records.column(\"maybe\"): a number, may be absent\n",
        "REnums = {\n    \"label\": (\"cat\", \"do\\\"g\"),\n}\n",
    ] {
        assert!(python.contains(line), "{line}\n{python}");
    }
    let wgsl = made(&all, "R", Lang::Wgsl).unwrap();
    for line in [
        "\n// name: text, without a function: its data is in the component `blob_data`.\n",
        "\n// shape: the index of the variant of a union.\nfn r_tag_shape(record: u32) -> u32 {",
        "const R_TAG_SHAPE_A: u32 = 0u;\n",
        "\n// shape.a.x: Int8.\nfn r_shape_a_x(record: u32) -> i32 {",
        "\n// maybe: true if the member is present.\nfn r_has_maybe(record: u32) -> bool {",
        "\n// maybe: Int64, the low word first.\nfn r_maybe(record: u32) -> vec2<u32> {",
        "const R_LABEL_DO_G: u32 = 1u;\n",
        "    maybe: array<u32, 2>,\n",
    ] {
        assert!(wgsl.contains(line), "{line}\n{wgsl}");
    }
    let open = json!({"TypeDef:Tensor": {"dtype": "F32", "shape": ["n"]}});
    assert_eq!(made(&open, "R", Lang::Rust).unwrap_err().code(), "schema/open-shape");
    // A struct that is used twice on every level is written once.
    let mut defs = serde_json::Map::new();
    defs.insert("d0".to_owned(), json!({"TypeDef:Struct": ["x"], "properties": {"x": {"TypeDef:Int8": true}}, "required": ["x"]}));
    for n in 1..30 {
        let r = json!({"$ref": format!("#/$defs/d{}", n - 1)});
        defs.insert(format!("d{n}"), json!({"TypeDef:Struct": ["a", "b"], "required": ["a", "b"], "properties": {"a": r, "b": r}}));
    }
    for lang in Lang::ALL {
        let text = made(&json!({"$ref": "#/$defs/d29", "$defs": defs}), "R", lang).unwrap();
        assert!(text.len() < 200_000, "{} {}", lang.as_str(), text.len());
    }
}

/// Checks the TypeScript of every vector with records against their JSON, with `tsc` if it is installed.
#[test]
fn typescript_describes_the_json_of_records() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/vectors/metatensor/records.json");
    let vectors: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut text = String::new();
    for (at, vector) in vectors.iter().enumerate() {
        let Some(json) = vector["expect"].get("json") else { continue };
        let code = match made(&vector["schema"], "Made", Lang::TypeScript) {
            Ok(code) => code,
            Err(e) => {
                assert_eq!(e.code(), "schema/open-shape", "{}", vector["name"]);
                continue;
            }
        };
        let depth = code.chars().try_fold(0i32, |n, c| match c {
            '{' | '[' | '(' => Some(n + 1),
            '}' | ']' | ')' => (n > 0).then_some(n - 1),
            _ => Some(n),
        });
        assert_eq!(depth, Some(0), "{code}");
        let body: String = code.lines().map(|line| format!("  {line}\n")).collect();
        write!(text, "namespace v{at} {{\n{body}  export const value: Made = {json};\n}}\n")
            .unwrap();
    }
    assert!(text.matches("namespace").count() > 50);
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("made.ts");
    std::fs::write(&file, &text).unwrap();
    let tsc = std::env::var_os("HOLDALL_TSC").unwrap_or_else(|| "tsc".into());
    let ran =
        Command::new(&tsc).args(["--strict", "--noEmit", "--target", "es2020"]).arg(&file).output();
    match ran {
        Ok(ran) => assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout)),
        Err(e) => {
            eprintln!("skipped: no TypeScript compiler ({e}); brackets were counted, no more")
        }
    }
}
