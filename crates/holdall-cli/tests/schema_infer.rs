//! `schema infer`: infers a schema from a file, which then conforms to it.

use crate::command::{holdall, holdall_with};
use serde_json::{Value as Json, json};

fn inferred(lines: &str, args: &[&str]) -> Json {
    holdall_with([&["schema", "infer", "-"], args].concat(), lines.as_bytes()).ends_with(0).json()
}

#[test]
fn kinds_are_those_of_all_records() {
    let lines = r#"{"n": 1, "x": 1, "s": "a", "b": true, "p": {"y": 2, "x": 1}, "v": [1, 2], "w": [1]}
{"n": -2, "x": 0.5, "s": "b", "b": false, "p": {"y": 3, "x": 1}, "v": [3, 4], "w": []}
{"n": 3, "x": {"$float": "nan"}, "s": null, "b": true, "p": {"y": 3}, "v": [5, 6.5], "w": [2, 3], "m": {}}
"#;
    let schema = inferred(lines, &[]);
    assert_eq!(schema["TypeDef:Struct"], json!(["n", "x", "s", "b", "p", "v", "w", "m"]));
    assert_eq!(schema["required"], json!(["n", "x", "b", "p", "v", "w"]));
    let of = |name: &str| &schema["properties"][name];
    assert_eq!(of("n"), &json!({"type": "integer", "TypeDef:Int64": true}));
    assert_eq!(of("x"), &json!({"type": "number", "TypeDef:Float64": true}));
    assert_eq!(of("s"), &json!({"type": "string", "TypeDef:String": true}));
    assert_eq!(of("p")["TypeDef:Struct"], json!(["y", "x"]));
    assert_eq!(of("p")["required"], json!(["y"]));
    assert_eq!((&of("v")["minItems"], &of("v")["maxItems"]), (&json!(2), &json!(2)));
    assert_eq!(of("w")["minItems"], Json::Null);
    assert_eq!(of("m")["TypeDef:Record"], true);

    // The file it was inferred from conforms to it.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("schema.json");
    let path = path.to_str().unwrap();
    holdall_with(["schema", "infer", "-", "-o", path], lines.as_bytes()).ends_with(0);
    holdall_with(["schema", "check", path, "-", "--null-absent"], lines.as_bytes()).ends_with(0);
    // An existing file is replaced only with `--force`.
    let again = ["schema", "infer", "-", "-o", path, "--json"];
    let error = holdall_with(again, lines.as_bytes()).ends_with(2).error();
    assert_eq!(error["code"], "write/exists");
    let found = holdall_with([&again[..], &["--force"]].concat(), lines.as_bytes()).ends_with(0);
    assert_eq!(found.json()["schema"], schema);
}

#[test]
fn tight_kinds_and_enums_are_asked_for() {
    let lines = r#"{"a": 200, "b": -1, "c": 0.1, "d": 0.1234567890123, "t": "2024-05-01T12:00:00Z", "k": "cat"}
{"a": 0, "b": 300, "c": 0.25, "d": 1, "t": "2024-05-01T12:00:00.25Z", "k": "dog"}
"#;
    let schema = inferred(lines, &["--tight", "--enums", "2"]);
    let kind = |name: &str| {
        let keys = schema["properties"][name].as_object().unwrap().keys();
        keys.filter_map(|k| k.strip_prefix("TypeDef:")).collect::<Vec<_>>().join(" ")
    };
    let found: Vec<String> = ["a", "b", "c", "d", "t", "k"].map(kind).to_vec();
    assert_eq!(found, ["Uint8", "Int16", "Float32", "Float64", "Timestamp", "Enum"]);
    assert_eq!(schema["properties"]["k"]["enum"], json!(["cat", "dog"]));
    let schema = inferred(lines, &["--enums", "1"]);
    assert_eq!(schema["properties"]["k"]["TypeDef:String"], true);
    assert_eq!(schema["properties"]["t"]["TypeDef:String"], true);
    let wide = inferred("{\"n\": 18446744073709551615}\n{\"n\": 1}\n", &[]);
    assert_eq!(wide["properties"]["n"]["TypeDef:Uint64"], true);
}

#[test]
fn tables_nest_by_the_names_of_their_columns() {
    let table = "id,at.lat,at.lon,name,zip\n1,2.5,3,a,012\n2,,,b,7\n";
    let schema = inferred(table, &["--form", "csv"]);
    assert_eq!(schema["TypeDef:Struct"], json!(["id", "at", "name", "zip"]));
    assert_eq!(schema["required"], json!(["id", "name", "zip"]));
    assert_eq!(schema["properties"]["at"]["TypeDef:Struct"], json!(["lat", "lon"]));
    // A text among numbers makes the member a text.
    assert_eq!(schema["properties"]["zip"]["TypeDef:String"], true);
    let twice = holdall_with(["schema", "infer", "-", "--form", "csv", "--json"], b"a,a.b\n1,2\n");
    assert_eq!(twice.ends_with(2).error()["code"], "input/table");
}

#[test]
fn the_detected_table_dialect_is_printed_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (table, schema, file) = (at("points.csv"), at("point.json"), at("points.mt"));
    std::fs::write(&table, "id;v[0];v[1];tags;at.x\n1;0,5;2;[1,2];3\n2;1;2;[3];4\n").unwrap();
    let run = holdall(["schema", "infer", &table, "-o", &schema]).ends_with(0);
    let message = "a table with semicolons between its fields: `id`, `v` (an array in 2 columns), \
                `tags` (arrays as JSON), `at` (a struct in 1 column)";
    assert!(run.err.contains(message), "{}", run.err);
    holdall(["build", "-o", &file, "--schema", &schema, "--records", &table]).ends_with(0);
    let first = holdall(["records", &file, "--range", "0..1", "--json"]).ends_with(0);
    assert!(first.out.contains(r#""v":["0,5","2"]"#), "{}", first.out);
    assert!(first.out.contains(r#""tags":[1,2]"#), "{}", first.out);
}

#[test]
fn contradicting_rows_are_reported_with_both_lines() {
    let lines = b"{\"a\": {\"b\": [1]}}\n{\"a\": {\"b\": [2]}}\n{\"a\": {\"b\": [\"x\"]}}\n";
    let error = holdall_with(["schema", "infer", "-", "--json"], lines).ends_with(4).error();
    assert_eq!(error["code"], "infer/mixed");
    assert_eq!(error["message"], "`a.b[]` is a number in line 1 and text in line 3");
    // A schema can be inferred from the first two records.
    holdall_with(["schema", "infer", "-", "--first", "2"], lines).ends_with(0);
    let error = holdall_with(["schema", "infer", "-", "--json"], b"{\"a\": 1}\n{\"a\" 1}\n");
    let error = error.ends_with(1).error();
    assert_eq!(error["code"], "json/syntax");
    assert!(error["message"].as_str().unwrap().starts_with("line 2: "), "{error}");
    holdall(["schema", "infer", "no-such-file.ndjson"]).ends_with(3);
}

#[test]
fn the_tensors_of_a_file_make_a_schema_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tiny.zt");
    let (model, schema, one, two) =
        (path("m.safetensors"), path("s.json"), path("1.mt"), path("2.mt"));
    holdall(["convert", tiny, &model, "-s", "layers.*"]).ends_with(0);
    holdall(["schema", "infer", &model, "-o", &schema]).ends_with(0);
    let text = std::fs::read_to_string(&schema).unwrap();
    let json: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(json["required"], json!(["layers"]));
    assert_eq!(json["properties"]["layers"]["required"], json!(["0", "1", "2", "3"]));

    // It equals the schema that a conversion writes, so it is not kept separately.
    holdall(["convert", &model, &one]).ends_with(0);
    holdall(["convert", &model, &two, "--schema", &schema]).ends_with(0);
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    holdall(["schema", "check", &schema, &one]).ends_with(0);

    // A different schema is kept, and data that does not conform to it is refused with the file's name and a hint.
    let mut other = json.clone();
    other["title"] = json!("a model");
    std::fs::write(&schema, other.to_string()).unwrap();
    holdall(["convert", &model, &two, "--force", "--schema", &schema]).ends_with(0);
    let attribute = |file: &str| {
        let json = holdall(["inspect", file, "--json"]).ends_with(0).json();
        json["attributes"]["metatensor.schema"].as_str().map(str::to_owned)
    };
    assert_eq!(attribute(&two).map(|text| serde_json::from_str(&text).unwrap()), Some(other));
    let part = ["convert", &two, &one, "--force", "-s", "layers.0.*"];
    let error = holdall([&part[..], &["--json"]].concat()).ends_with(4).error();
    assert_eq!((&error["code"], &error["source"]), (&json!("metatensor/schema-fit"), &json!(two)));
    holdall([&part[..], &["--infer-schema"]].concat()).ends_with(0);
    assert_eq!(attribute(&one), None);

    // Records and blobs keep their types.
    let records =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/metatensor/made-union.mt");
    let made = holdall(["schema", "infer", records]).ends_with(0).json();
    assert!(made.to_string().contains("TypeDef:Union"), "{made}");
    holdall(["schema", "diff", records, records]).ends_with(0);
    holdall(["schema", "check", records, records]).ends_with(0);

    let to = path("3.zt");
    let error = holdall(["convert", &model, &to, "--schema", &schema, "--json"]).ends_with(2);
    assert_eq!(error.error()["code"], "usage/arguments");
}

/// Integers mixed with fractions are kept exactly, or are refused.
#[test]
fn integers_among_fractions_are_exact_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (rows, schema, out) = (path("r.ndjson"), path("s.json"), path("o.zt"));
    for (n, is_exact) in [
        ("5", true),
        ("-7", true),
        ("9007199254740992", true),
        ("9007199254740993", false),
        ("-9007199254740993", false),
        ("18446744073709551615", false),
        ("-9223372036854775808", true),
        ("123456789012345678901234567890", false),
        ("36893488147419103232", true),
        ("16777217", true),
    ] {
        for tight in [false, true] {
            std::fs::write(&rows, format!("{{\"a\":{n}}}\n{{\"a\":1.5}}\n")).unwrap();
            let lines = std::fs::read_to_string(&rows).unwrap();
            let made = inferred(&lines, if tight { &["--tight"] } else { &[] });
            std::fs::write(&schema, made.to_string()).unwrap();
            let built = holdall([
                "build",
                "--schema",
                &schema,
                "--records",
                &rows,
                "-o",
                &out,
                "-f",
                "--json",
            ]);
            if !is_exact {
                assert_eq!(built.ends_with(2).error()["code"], "record/range", "{n}");
                continue;
            }
            built.ends_with(0);
            let found = holdall(["records", &out, "--json"]).ends_with(0).out;
            let first: f64 =
                serde_json::from_str::<Json>(found.lines().next().unwrap()).unwrap()["a"]
                    .as_f64()
                    .unwrap();
            assert_eq!(format!("{first:.0}"), n);
        }
    }
}
