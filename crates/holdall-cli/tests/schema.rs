//! `schema`: layouts, checks, differences.

use crate::command::{accept, holdall, holdall_with};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

fn example(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/photos").join(name);
    path.to_str().unwrap().to_owned()
}

/// Returns the row of a path.
#[track_caller]
fn row<'r>(report: &'r Json, path: &str) -> &'r Json {
    let all = report["paths"].as_array().unwrap();
    all.iter().find(|r| r["path"] == path).unwrap_or_else(|| panic!("{path}: {report}"))
}

#[test]
fn a_layout_says_where_each_path_lies() {
    let report = holdall(["schema", "layout", &example("schema.json"), "--json"]).json();
    assert_eq!(report["of"], "record");
    assert_eq!(
        report["record"],
        json!({"kind": "Struct", "size": 80, "stride": 80, "align": 16, "heap_align": 8})
    );
    // A byte of presence bits, then members at their alignment.
    assert_eq!(
        (&row(&report, "id")["offset"], &row(&report, "id")["size"]),
        (&json!(4), &json!(4))
    );
    assert_eq!(row(&report, "at.lon")["offset"], 16);
    assert_eq!(row(&report, "at")["presence"], json!({"byte": 0, "bit": 0}));
    assert_eq!(row(&report, "image")["presence"], json!({"byte": 0, "bit": 1}));
    assert_eq!(row(&report, "label")["kind"], "Enum of 3");
    let element = row(&report, "tags[]");
    assert_eq!((&element["base"], &element["offset"]), (&json!("heap"), &json!(0)));

    let text = holdall(["schema", "layout", &example("schema.json")]).ends_with(0).out;
    for part in ["Struct, 80 bytes, aligned to 16", "heap", "+0", "bit 0.1", "String []"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn a_path_chooses_and_an_index_moves() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.json");
    let point = json!({
        "TypeDef:Struct": ["x", "y"], "required": ["x", "y"], "align": "natural",
        "properties": {"x": {"TypeDef:Float32": true}, "y": {"TypeDef:Int16": true}},
    });
    let corners = json!({"TypeDef:Array": true, "items": point, "minItems": 4, "maxItems": 4});
    let root = json!({
        "TypeDef:Struct": ["n", "corners"], "required": ["n", "corners"],
        "properties": {"n": {"TypeDef:Int8": true}, "corners": corners},
    });
    std::fs::write(&path, root.to_string()).unwrap();
    let of =
        |way: &str| holdall(["schema", "layout", path.to_str().unwrap(), "--path", way, "--json"]);
    let first = of("corners[].y").ends_with(0).json();
    assert_eq!(first["paths"].as_array().unwrap().len(), 1);
    assert_eq!(first["paths"][0]["offset"], 4 + 4);
    assert_eq!(of("corners[3].y").json()["paths"][0]["offset"], 4 + 3 * 8 + 4);
    assert_eq!(of("corners").json()["paths"].as_array().unwrap().len(), 4);
    for nowhere in ["corners[4].y", "corner", "n.x"] {
        assert_eq!(of(nowhere).ends_with(2).error()["code"], "schema/unknown-path", "{nowhere}");
    }
    assert_eq!(of("corners[").ends_with(2).error()["code"], "schema/path");
}

#[test]
fn symbols_get_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.json");
    let schema = json!({
        "type": "object",
        "properties": {
            "w": {"TypeDef:Tensor": {"dtype": "F16", "shape": ["n", 3]}},
            "rows": {"TypeDef:Array": true, "items": {"TypeDef:Tensor": {"dtype": "U8", "shape": ["n"]}}},
        },
        "required": ["w"],
    });
    std::fs::write(&path, schema.to_string()).unwrap();
    let args = ["schema", "layout", path.to_str().unwrap(), "--json"];
    let error = holdall(args).ends_with(1).error();
    assert_eq!(error["code"], "schema/open-shape");
    let found = holdall([&args[..], &["--symbols", "n=5"]].concat()).ends_with(0).json();
    assert_eq!((&found["of"], &found["symbols"]), (&json!("tensors"), &json!({"n": 5})));
    let w = row(&found, "w");
    assert_eq!(
        (&w["kind"], &w["size"], &w["align"]),
        (&json!("F16 [5, 3]"), &json!(30), &json!(2))
    );
    assert_eq!(row(&found, "rows[]")["stride"], 5);
    assert_eq!(row(&found, "rows")["optional"], true);
    let error = holdall([&args[..], &["--symbols", "m=5"]].concat()).ends_with(2).error();
    assert_eq!(error["code"], "schema/unknown-symbol");
    let found = holdall([&args[..], &["--symbols", "n"]].concat()).ends_with(2);
    assert!(found.err.contains("n=3"), "{found:?}");
}

#[test]
fn a_file_has_a_layout_too_and_a_pipe() {
    let path = accept("ztensor/v1.2-dense_all.zt");
    let report = holdall(["schema", "layout", &path, "--json"]).ends_with(0).json();
    assert_eq!(report["of"], "file");
    assert_eq!(row(&report, "t_f16")["kind"], "f16 [3, 5]");
    let bytes = std::fs::read(&path).unwrap();
    let piped = holdall_with(["schema", "layout", "-", "--json"], &bytes).ends_with(0).json();
    assert_eq!(piped["paths"], report["paths"]);
    let schema = std::fs::read(example("schema.json")).unwrap();
    let piped = holdall_with(["schema", "layout", "-"], &schema).ends_with(0).out;
    assert!(piped.starts_with("<stdin>\n"), "{piped}");
}

#[test]
fn an_unsound_schema_is_a_finding_with_its_pointer() {
    let bad = br#"{"TypeDef:Struct": ["x"], "properties": {"x": {"TypeDef:Int7": true}}}"#;
    let found = holdall_with(["schema", "check", "-", "--json"], bad).ends_with(1).json();
    assert_eq!((&found["sound"], &found["finding_count"]), (&json!(false), &json!(1)));
    let error = &found["findings"][0]["error"];
    assert_eq!(error["code"], "schema/kind");
    assert!(error["message"].as_str().unwrap().contains("/properties/x"), "{error}");
    let found = holdall_with(["schema", "check", "-"], b"{\"a\": }").ends_with(1);
    assert!(found.out.starts_with("bad: <stdin>: ") && found.out.contains("[json/syntax]"));
    holdall(["schema", "check", &example("schema.json")]).ends_with(0);
    // The keywords of plain JSON Schema are checked too.
    let bad = br#"{"type": "object", "minProperties": "one"}"#;
    let found = holdall_with(["schema", "check", "-", "--json"], bad).ends_with(1).json();
    assert_eq!(found["findings"][0]["error"]["code"], "schema/invalid");
    // A file that cannot be read is an error, not a finding.
    holdall(["schema", "check", "no-such-file.json"]).ends_with(3);
}

#[test]
fn invalid_records_are_reported_with_line_and_path() {
    let lines = br#"{"id": 1, "label": "cat", "caption": "a", "tags": []}

{"id": 2, "label": "cow", "caption": "b", "tags": []}
{"id": 3, "label": "cat", "at": {"lat": 1, "lon": "east"}, "caption": "c", "tags": []}
{"id": 4, "label": "dog", "caption": "d", "tags": [], "size": null, "image": null}
{"id": 5, "label": "dog"
"#;
    let schema = example("schema.json");
    let args = ["schema", "check", &schema, "-", "--json"];
    let report = holdall_with(args, lines).ends_with(1).json();
    assert_eq!((&report["count"], &report["finding_count"]), (&json!(5), &json!(4)));
    let found: Vec<(u64, &str)> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["line"].as_u64().unwrap(), f["error"]["code"].as_str().unwrap()))
        .collect();
    let expected =
        [(3, "record/enum-value"), (4, "record/type"), (5, "record/type"), (6, "json/truncated")];
    assert_eq!(found, expected);
    let message = report["findings"][1]["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("line 4: `at.lon`: "), "{message}");
    let lenient = [&args[..], &["--ignore-unknown", "--null-absent"]].concat();
    assert_eq!(holdall_with(lenient, lines).ends_with(1).json()["finding_count"], 3);
}

#[test]
fn standard_keywords_count_for_records() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.json");
    let schema = json!({
        "TypeDef:Struct": ["n", "o"], "required": ["n"],
        "properties": {
            "n": {"type": "integer", "maximum": 10, "TypeDef:Int32": true},
            "o": {"TypeDef:Int32": true},
        },
    });
    std::fs::write(&path, schema.to_string()).unwrap();
    let args = ["schema", "check", path.to_str().unwrap(), "-", "--json"];
    let lines = b"{\"n\": 10}\n{\"n\": 11}\n{\"n\": 12, \"x\": 1}\n";
    let found = |args: &[&str]| {
        let report = holdall_with(args, lines).ends_with(1).json();
        let all = report["findings"].as_array().unwrap().clone();
        all.iter().map(|f| f["error"]["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&args), ["record/keyword", "record/unknown-member"]);
    let lenient = [&args[..], &["--ignore-unknown"]].concat();
    assert_eq!(found(&lenient), ["record/keyword", "record/keyword"]);
}

#[test]
fn tables_and_arrays_are_records_too() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let schema = example("schema.json");
    let check = |file: &str| holdall(["schema", "check", &schema, file, "--json"]);
    let table = "id,label,at.lat,at.lon,caption,tags,image\n\
        1,cat,1.5,nan,\"a, b\",\"[\"\"x\"\"]\",\n2,dog,,,c,[],AAEC\n";
    check(&write("good.csv", table)).ends_with(0);
    check(&write("good.tsv", "id\tlabel\tcaption\ttags\n1\tcat\ta,b\t[]\n")).ends_with(0);
    let bad =
        check(&write("bad.csv", "id,label,caption,tags\n1,cat,a,[]\n-2,cat,a,[]\nx,cat,a,[]\n"));
    let bad = bad.ends_with(1).json();
    assert_eq!((&bad["count"], &bad["finding_count"]), (&json!(3), &json!(2)));
    assert_eq!((&bad["findings"][0]["line"], &bad["findings"][1]["line"]), (&json!(3), &json!(4)));
    assert_eq!(bad["findings"][0]["error"]["code"], "record/range");
    let error = check(&write("short.csv", "id,label\n1\n")).ends_with(2).error();
    assert_eq!(error["code"], "input/table");
    let error = check(&write("odd.csv", "id,colour\n1,2\n")).ends_with(2).error();
    assert_eq!(error["code"], "record/unknown-member");

    let one = r#"{"id": 1, "label": "cat", "caption": "a", "tags": []}"#;
    let array = check(&write("all.json", &format!("[{one},\n{one},\n{{}}]"))).ends_with(1).json();
    assert_eq!((&array["count"], &array["findings"][0]["line"]), (&json!(3), &json!(3)));
    check(&write("one.json", one)).ends_with(0);
}

#[test]
fn differences_have_verdicts_and_a_version_step() {
    let (old, new) = (example("schema.json"), example("schema2.json"));
    let report = holdall(["schema", "diff", &old, &new, "--json"]).ends_with(1).json();
    assert_eq!(
        (&report["same"], &report["compatible"], &report["bump"]),
        (&json!(false), &json!(false), &json!("major"))
    );
    let changes = report["changes"].as_array().unwrap();
    assert_eq!(
        changes[0],
        json!({"path": "id", "change": "widened", "verdict": "compatible", "old": "Uint32", "new": "Uint64"})
    );
    assert_eq!(changes[1]["values"], json!(["bird"]));
    let text = holdall(["schema", "diff", &old, &new]).ends_with(1).out;
    assert!(text.contains("Uint32 → Uint64") && text.ends_with("version step: major\n"), "{text}");
    let text = holdall(["schema", "diff", &old, &old]).ends_with(0).out;
    assert!(text.starts_with("same: "), "{text}");
    assert_eq!(holdall(["schema", "diff", &old, &new, "--quiet"]).ends_with(1).out, "");
}

#[test]
fn compatible_changes_may_be_let_pass() {
    let old = br#"{"TypeDef:Struct": ["x"], "required": ["x"], "properties": {"x": {"TypeDef:Int8": true}}}"#;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new.json");
    let new = String::from_utf8(old.to_vec()).unwrap().replace("Int8", "Int16");
    std::fs::write(&path, new).unwrap();
    let args = ["schema", "diff", "-", path.to_str().unwrap()];
    let found = holdall_with(args, old).ends_with(1).out;
    assert!(found.ends_with("1 compatible; version step: minor\n"), "{found}");
    holdall_with([&args[..], &["--compatible"]].concat(), old).ends_with(0);
}

#[test]
fn the_records_of_a_file_are_held_against_a_schema() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let schema = |maximum: u32| {
        let path = at("s.json");
        let schema = json!({
            "TypeDef:Struct": ["n"], "required": ["n"],
            "properties": {"n": {"type": "integer", "maximum": maximum, "TypeDef:Int32": true}},
        });
        std::fs::write(&path, schema.to_string()).unwrap();
        path
    };
    let out = at("out.zt");
    let args = ["build", "--schema", &schema(99), "--records", "-", "-o", &out];
    holdall_with(args, b"{\"n\": 1}\n{\"n\": 20}\n{\"n\": 3}\n{\"n\": 40}\n").ends_with(0);
    let check = |schema: &str| holdall(["schema", "check", schema, &out, "--json"]);
    assert_eq!(check(&schema(99)).ends_with(0).json()["count"], 4);
    let report = check(&schema(10)).ends_with(1).json();
    let found: Vec<&Json> = report["findings"].as_array().unwrap().iter().collect();
    let places: Vec<&Json> = found.iter().map(|f| &f["record"]).collect();
    assert_eq!(places, [&json!(1), &json!(3)]);
    assert_eq!(found[0]["line"], Json::Null);
    let error = &found[0]["error"];
    assert_eq!((&error["code"], &error["tensor"]), (&json!("record/keyword"), &json!("records")));
}

#[test]
fn a_layout_of_deep_paths_without_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep.json");
    let level = |n: usize| {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        let members = json!({"a": next, "b": next});
        let level = json!({"TypeDef:Struct": ["a", "b"], "properties": members, "align": 1});
        (format!("d{n}"), level)
    };
    let mut defs: serde_json::Map<String, Json> = (0..50).map(level).collect();
    defs.insert("d50".to_owned(), json!({"TypeDef:Int8": true}));
    let root = json!({"$defs": defs, "TypeDef:Array": true, "items": {"$ref": "#/$defs/d0"},
                      "minItems": 1, "maxItems": 1});
    std::fs::write(&path, root.to_string()).unwrap();
    let run = holdall(["schema", "layout", path.to_str().unwrap(), "--json"]);
    let e = run.ends_with(4).error();
    assert_eq!(e["code"], "schema/too-large");
    assert!(e["message"].as_str().unwrap().contains("segments in total"), "{e}");
}

#[test]
fn code_mirrors_the_records_of_a_schema_or_a_file() {
    let photos = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/photos/schema.json");
    let rust =
        holdall(["schema", "code", photos, "--lang", "rust", "--name", "photo"]).ends_with(0).out;
    assert!(
        rust.contains("pub struct Photo {") && rust.contains("pub _caption: [u8; 16],"),
        "{rust}"
    );
    let python = holdall(["schema", "code", photos, "--lang", "python"]).ends_with(0).out;
    assert!(python.contains("\nRecord = np.dtype("), "{python}");
    let report =
        holdall(["schema", "code", photos, "--lang", "typescript", "--json"]).ends_with(0).json();
    assert_eq!((&report["lang"], &report["name"]), (&"typescript".into(), &"Record".into()));
    assert!(report["code"].as_str().unwrap().contains("export interface Record {"), "{report}");
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/metatensor/made-scalars.mt");
    let found = holdall(["schema", "code", file, "--lang", "rust"]).ends_with(0).out;
    assert!(found.contains("half::bf16"), "{found}");
    let flat = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/metatensor/made-flat.mt");
    let error = holdall(["schema", "code", flat, "--lang", "rust", "--json"]).ends_with(2).error();
    assert_eq!(error["code"], "records/which-dataset");
    let union =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/metatensor/made-union.mt");
    let error = holdall(["schema", "code", union, "--lang", "rust", "--json"]).ends_with(4).error();
    assert_eq!(error["code"], "schema/no-equivalent-type");
    holdall(["schema", "code", union, "--lang", "cobol"]).ends_with(2);
}

#[test]
fn older_drafts_and_printed_references_are_read_or_refused_by_name() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/metatensor/made-printed.mt");
    let report = holdall(["schema", "layout", file, "--json"]).ends_with(0).json();
    assert_eq!(row(&report, "conv1.weight")["kind"], "f32 [2, 1]");
    assert_eq!(row(&report, "texts")["kind"], "Blob bytes [2]");
    let schema = |draft: &str, own: &str| {
        format!(
            r#"{{"$schema":"http://json-schema.org/draft-0{draft}/schema#","properties":{{"t":{{"TypeDef:Tensor":{{}}}},"n":{own}}}}}"#
        )
    };
    let check = |text: String| holdall_with(["schema", "check", "-", "--json"], text.as_bytes());
    check(schema("7", r#"{"const":1}"#)).ends_with(0);
    let found = check(schema("4", r#"{"const":1}"#)).ends_with(1).json();
    let error = &found["findings"][0]["error"];
    assert_eq!(error["code"], "schema/draft", "{found}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("draft 4") && message.contains("`const`"), "{message}");
}
