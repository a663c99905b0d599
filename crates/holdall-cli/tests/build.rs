//! `build`: text files and folders become a file of records, and can be written out again.

use crate::command::{Folder, holdall, holdall_with};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

fn example(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/photos").join(name);
    path.to_str().unwrap().to_owned()
}

fn records(file: &str) -> Vec<Json> {
    let found = holdall(["records", file, "--json", "--path", "records"]).ends_with(0).out;
    found.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const PAIR: &str = r#"{"TypeDef:Struct": ["a", "b"], "required": ["a"], "properties": {
    "a": {"type": "integer", "maximum": 9, "TypeDef:Int32": true}, "b": {"TypeDef:String": true}}}"#;

#[test]
fn lines_and_files_become_records() {
    let folder = Folder::new();
    let out = folder.at("photos.zt");
    let (schema, lines, files) =
        (example("schema.json"), example("photos.ndjson"), example("files"));
    let args = ["build", "--schema", &schema, "--records", &lines, "--files", &files];
    let args = [&args[..], &["--file-member", "image", "-o", &out]].concat();
    let report = holdall([&args[..], &["--json"]].concat()).ends_with(0).json();
    assert_eq!(report["records"], json!({"path": "records", "count": 4}));
    assert_eq!((&report["format"], &report["files"]), (&json!("ztensor"), &Json::Null));
    assert_eq!(report["target_len"], std::fs::metadata(&out).unwrap().len());
    let found = records(&out);
    assert_eq!(found.len(), 4);
    let image = std::fs::read(example("files/one.pgm")).unwrap();
    let text = found[0]["image"].as_str().unwrap();
    assert_eq!(text, data_encoding::BASE64.encode(&image));
    assert_eq!((&found[0]["caption"], &found[1].get("image")), (&json!("On the roof"), &None));
    holdall(["verify", &out]).ends_with(0);

    // An existing file is kept, except with `--force`.
    let error = holdall([&args[..], &["--json"]].concat()).ends_with(2).error();
    assert_eq!(error["code"], "write/exists");
    let message = holdall([&args[..], &["--force"]].concat()).ends_with(0).err;
    assert!(message.contains(": zTensor 1.2.0, 4 records in `records`, "), "{message}");
}

#[test]
fn every_form_gives_the_same_records() {
    let folder = Folder::new();
    let schema = folder.write("s.json", PAIR);
    let expected = [json!({"a": 1, "b": "x, y"}), json!({"a": -2})];
    for (name, text) in [
        ("r.ndjson", "{\"a\": 1, \"b\": \"x, y\"}\n\n{\"a\": -2}"),
        ("r.json", "[{\"a\": 1, \"b\": \"x, y\"},\n {\"a\": -2}]"),
        ("r.csv", "a,b\n1,\"x, y\"\n-2,\n"),
        ("r.tsv", "a\tb\n1\tx, y\n-2\t\n"),
    ] {
        let (path, out) = (folder.write(name, text), folder.at(&format!("{name}.zt")));
        for more in [&[][..], &["--check", "--dedup", "--null-absent", "--threads", "1"]] {
            let args = ["build", "--schema", &schema, "--records", &path, "-o", &out, "-f"];
            holdall([&args[..], more].concat()).ends_with(0);
            assert_eq!(records(&out), expected, "{name} {more:?}");
        }
        // The same text from a pipe.
        let form = name.rsplit('.').next().unwrap();
        let args =
            ["build", "--schema", &schema, "--records", "-", "--form", form, "-o", &out, "-f"];
        holdall_with(args, text.as_bytes()).ends_with(0);
        assert_eq!(records(&out), expected, "{name}");
    }
}

#[test]
fn invalid_records_end_the_build_with_their_line() {
    let folder = Folder::new();
    let schema = folder.write("s.json", PAIR);
    let out = folder.at("out.zt");
    let build = |text: &str, more: &[&str]| {
        let args = ["build", "--schema", &schema, "--records", "-", "-o", &out, "--json"];
        holdall_with([&args[..], more].concat(), text.as_bytes())
    };
    let odd = "{\"a\": 1, \"c\": 1}\n";
    for (text, more, code, line) in [
        ("{\"a\": 1}\n\n{\"a\": \"x\"}\n", &[][..], "record/type", 3),
        ("{\"a\": 1}\n{\"a\": 1.5}\n", &["--null-absent"], "record/range", 2),
        (odd, &[], "record/unknown-member", 1),
        ("{\"b\": \"x\"}\n", &["--ignore-unknown"], "record/missing-member", 1),
        ("{\"a\": 1}\n{\"a\": 10}\n", &["--check"], "record/keyword", 2),
        ("{\"a\": 1}\n{\"a\"}\n", &[], "json/syntax", 2),
        ("a,b\n1,x\n1\n", &["--form", "csv"], "input/table", 3),
        ("a,b\n1,x\ntwo,x\n", &["--form", "csv"], "record/type", 3),
    ] {
        let found = build(text, more);
        let error = found.error();
        assert_eq!(error["code"], code, "{text}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&format!("line {line}: ")), "{message}");
        assert_eq!(error["source"], "<stdin>");
        assert!(!Path::new(&out).exists());
    }
    // Following the hint helps.
    for (text, advice) in [
        ("{\"a\": 1, \"b\": null}", "--null-absent"),
        ("{\"a\": null}", ""),
        ("[{\"a\": 1}]", "--form json"),
        ("{\"a\": [1]}", ""),
    ] {
        let found = build(text, &[]).error();
        let hint = found["hint"].as_str().unwrap_or_default();
        for one in ["--null-absent", "--form json"] {
            assert_eq!(hint.contains(one), advice == one, "{text}: {hint}");
        }
    }
    build(odd, &["--ignore-unknown"]).ends_with(0);
    assert_eq!(records(&out), [json!({"a": 1})]);
    build("{\"a\": 1, \"b\": null}", &["--null-absent", "-f"]).ends_with(0);
    assert_eq!(records(&out), [json!({"a": 1})]);
    for name in ["out.safetensors", "out.foo"] {
        let out = folder.at(name);
        let args = ["build", "--schema", &schema, "--records", "-", "-o", &out, "--json"];
        let error = holdall_with(args, b"{\"a\": 1}").error();
        assert_eq!(error["source"], json!(out));
        let hint = "write Metatensor (`.mt`) or zTensor (`.zt`), which support records and blobs";
        assert_eq!(error["hint"], json!(hint));
    }
    // A member whose name resembles an existing one.
    let args = ["build", "--schema", &schema, "--records", "-", "--files", ".", "-fo", &out];
    let found = holdall_with([&args[..], &["--file-member", "bb"]].concat(), b"").ends_with(2);
    assert!(found.err.contains("unknown member `bb` [schema/unknown-path]"), "{found:?}");
    assert!(found.err.ends_with("hint: did you mean `b`?\n"), "{found:?}");
    // Without records, there is no dataset.
    build("", &["-f"]).ends_with(0);
    assert_eq!(records(&out), [] as [Json; 0]);
    for args in [
        &["build", "-o", &out, "--json"][..],
        &["build", "--files", ".", "--blob", "b", "-o", "-", "--json"],
    ] {
        assert_eq!(holdall(args).ends_with(2).error()["code"], "usage/arguments");
    }
}

#[test]
fn file_names_stay_in_their_folder() {
    let folder = Folder::new();
    let schema = folder.write(
        "s.json",
        r#"{"TypeDef:Struct": ["f", "t"], "required": ["f"], "properties": {
            "f": {"TypeDef:Bytes": true}, "t": {"TypeDef:String": true}}}"#,
    );
    folder.write("files/sub/a.bin", [0, 255]);
    folder.write("files/empty", "");
    folder.write("secret", "no");
    let (files, out) = (folder.at("files"), folder.at("out.zt"));
    let build = |text: &str| {
        let args = ["build", "--schema", &schema, "--records", "-", "--files", &files];
        let args = [&args[..], &["--file-member", "f", "--file-member", "t", "-o", &out]].concat();
        holdall_with([&args[..], &["--json", "-f"]].concat(), text.as_bytes())
    };
    build("{\"f\": \"sub/a.bin\", \"t\": \"empty\"}\n{\"f\": \"./empty\"}").ends_with(0);
    assert_eq!(records(&out), [json!({"f": "AP8=", "t": ""}), json!({"f": ""})]);
    for name in ["../secret", "/etc/hostname", "sub/../../secret", ""] {
        let error = build(&format!("{{\"f\": \"{name}\"}}")).ends_with(2).error();
        assert_eq!(error["code"], "build/file-name", "{name}");
    }
    let error = build("{\"f\": \"none\"}").ends_with(3).error();
    assert!(error["message"].as_str().unwrap().starts_with("line 1: `"), "{error}");
    // Bytes that are not valid UTF-8 are refused for a text member.
    let error = build("{\"f\": \"empty\", \"t\": \"sub/a.bin\"}").ends_with(1).error();
    assert_eq!(error["code"], "record/utf8");
}

#[test]
fn a_folder_is_a_blob_with_names() {
    let folder = Folder::new();
    folder.write("files/b.txt", "two");
    folder.write("files/a/x.txt", "one");
    let (files, out) = (folder.at("files"), folder.at("out.zt"));
    let args = ["build", "--files", &files, "--blob", "docs", "-o", &out, "--json"];
    let report = holdall(args).ends_with(0).json();
    assert_eq!(report["files"], json!({"path": "docs", "count": 2}));
    let shown = |path: &str| holdall(["records", &out, "--path", path, "--json"]).ends_with(0).out;
    assert_eq!(shown("docs_names"), "\"a/x.txt\"\n\"b.txt\"\n");
    assert_eq!(shown("docs"), "\"b25l\"\n\"dHdv\"\n");
    let error = holdall(["records", &out, "--json"]).ends_with(2).error();
    assert_eq!(error["code"], "records/which-dataset");
    assert!(error["hint"].as_str().unwrap().contains("`docs_names`"), "{error}");
}

#[test]
fn the_schema_of_a_file_says_where_records_stand() {
    let folder = Folder::new();
    let pair: Json = serde_json::from_str(PAIR).unwrap();
    let set = json!({"type": "array", "items": {"$ref": "#/$defs/pair"}, "TypeDef:Array": true});
    let tensor = json!({"type": "object", "TypeDef:Tensor": {}});
    let whole = json!({
        "$defs": {"pair": pair},
        "type": "object",
        "properties": {"train": {"type": "object", "properties": {"set": set}}, "w": tensor},
    });
    let schema = folder.write("s.json", whole.to_string());
    let lines = folder.write("r.ndjson", "{\"a\": 1}\n");
    let out = folder.at("out.zt");
    let args = ["build", "--schema", &schema, "--records", &lines, "-o", &out, "--json"];
    let report = holdall(args).ends_with(0).json();
    assert_eq!(report["records"]["path"], "train.set");
    // The schema was stored in the file.
    holdall(["schema", "diff", &schema, &out]).ends_with(0);
    let error = holdall([&args[..], &["-f", "--path", "w"]].concat()).ends_with(2).error();
    assert_eq!(error["code"], "records/which-dataset");
    let error = holdall([&args[..], &["-f", "--path", "x"]].concat()).ends_with(2).error();
    assert_eq!(error["code"], "schema/unknown-path");
}

#[test]
fn unclosed_quotes_are_reported_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (schema, table, out) = (path("s.json"), path("t.csv"), path("o.mt"));
    let kind = r#"{"TypeDef:Struct": ["id", "s"], "required": ["id", "s"],
        "properties": {"id": {"TypeDef:Int32": true}, "s": {"TypeDef:String": true}}}"#;
    std::fs::write(&schema, kind).unwrap();
    let build = |text: &str| {
        std::fs::write(&table, text).unwrap();
        holdall(["build", "--schema", &schema, "--records", &table, "-o", &out, "-f", "--json"])
    };
    for (text, line) in [
        ("id,s\n1,\"abc\n2,def\n3,ghi\n", "line 2: a quote is opened"),
        ("id,s\n1,abc\n2,\"d\"\"e\n", "line 3: a quote is opened"),
        ("id,s\n1,\"abc\"def\n", "line 2: there is text between"),
    ] {
        let error = build(text).ends_with(2).error();
        assert_eq!(error["code"], "input/table", "{text:?}");
        assert!(error["message"].as_str().unwrap().starts_with(line), "{text:?}: {error}");
    }
    for text in ["id,s\n1,\"a\"\"\nb\"\r\n2,5\" tall\n", "\u{feff}id,s\n1,\"\"\n2,x\n"] {
        assert_eq!(build(text).ends_with(0).json()["records"]["count"], 2, "{text:?}");
    }
}

#[test]
fn two_columns_for_one_member_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (schema, table, out) = (path("s.json"), path("t.csv"), path("o.mt"));
    let kind = r#"{"TypeDef:Struct": ["at"], "required": ["at"], "properties": {
        "at": {"TypeDef:Struct": ["x"], "required": ["x"], "properties": {"x": {"TypeDef:Int32": true}}}}}"#;
    std::fs::write(&schema, kind).unwrap();
    for text in ["at,at.x\n\"{\"\"x\"\":1}\",3\n", "at.x,at\n3,\"{\"\"x\"\":1}\"\n"] {
        std::fs::write(&table, text).unwrap();
        let args = ["build", "--schema", &schema, "--records", &table, "-o", &out, "-f", "--json"];
        assert_eq!(holdall(args).error()["code"], "input/table", "{text}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (schema, out) = (path("s.json"), path("o.mt"));
    std::fs::write(&schema, "\u{feff}{\"TypeDef:Struct\": [\"a\"], \"required\": [\"a\"], \"properties\": {\"a\": {\"TypeDef:Int8\": true}}}").unwrap();
    for (name, text) in [("r.ndjson", "\u{feff}{\"a\": 1}\n"), ("r.json", "\u{feff}[{\"a\": 1}]")] {
        std::fs::write(path(name), text).unwrap();
        let args = ["build", "--schema", &schema, "--records", &path(name), "-o", &out, "-f"];
        holdall(args).ends_with(0);
    }
    let args =
        ["build", "--schema", &schema, "--records", &path("r.json"), "--files", ".", "-o", &out];
    holdall(args).ends_with(2);
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused_without_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (schema, lines, out) = (path("s.json"), path("r.ndjson"), path("o.mt"));
    std::fs::write(&schema, r#"{"TypeDef:Struct": ["b"], "required": ["b"], "properties": {"b": {"TypeDef:Bytes": true}}}"#).unwrap();
    std::fs::write(&lines, "{\"b\": \"zero\"}\n").unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("zero")).unwrap();
    let folder = dir.path().to_str().unwrap();
    let from = [
        "build",
        "--schema",
        &schema,
        "--records",
        &lines,
        "--files",
        folder,
        "--file-member",
        "b",
    ];
    let error = holdall([&from[..], &["-o", &out, "--json"]].concat()).ends_with(2).error();
    assert_eq!(error["code"], "build/file-name");
}

#[test]
fn lines_are_the_runs_of_a_blob() {
    let folder = Folder::new();
    let out = folder.at("runs.zt");
    let build = |lines: &str, more: &[&str]| {
        let args = ["build", "--runs", "-", "--blob", "b", "-o", &out, "-f", "--json"];
        holdall_with([&args[..], more].concat(), lines.as_bytes())
    };
    for (content, lines) in [
        ("utf-8", "\"a\"\n\"\"\n"),
        ("json", "{\"a\":[1,null]}\n3\n"),
        ("bytes", "\"AP8=\"\n\"\"\n"),
        ("F32", "[1.5,-2.0]\n[]\n"),
        ("i64", "[9007199254740993]\n[]\n"),
    ] {
        let report = build(lines, &["--content", content]).ends_with(0).json();
        assert_eq!(report["runs"], json!({"path": "b", "count": 2}), "{content}");
        // `--runs` accepts the output of `records`.
        let printed = holdall(["records", &out, "--json"]).ends_with(0).out;
        assert_eq!(printed.replace(' ', ""), lines, "{content}");
        holdall(["verify", &out]).ends_with(0);
    }
    let error = build("\"a\"\n[256]\n", &["--content", "u8"]).ends_with(2).error();
    assert_eq!(error["code"], "record/type");
    let error = build("[255]\n[256]\n", &["--content", "u8"]).ends_with(2).error();
    assert!(error["message"].as_str().unwrap().starts_with("line 2: "), "{error}");
    assert_eq!(build("[]", &[]).ends_with(2).error()["code"], "records/which-content");
    build("[]", &["--content", "F4"]).ends_with(2);
    let error = build("a\n1\n", &["--content", "utf-8", "--form", "csv"]).ends_with(2).error();
    assert_eq!(error["code"], "records/content");
    let error = holdall(["build", "--blob", "b", "-o", &out, "--json"]).ends_with(2).error();
    assert_eq!(error["code"], "usage/arguments");

    // The file's schema describes the values of its blobs; `--files` may contain text or numbers.
    let schema = folder.write(
        "s.json",
        r#"{"type": "object", "properties": {"b": {"TypeDef:Blob": {"content": "I16"}},
            "b_names": {"TypeDef:Blob": {"content": "utf-8"}}}}"#,
    );
    build("[1]\n", &["--schema", &schema]).ends_with(0);
    assert_eq!(holdall(["records", &out, "--json"]).ends_with(0).out, "[1]\n");
    folder.write("files/a.i16", [1, 0, 2, 0]);
    let files = folder.at("files");
    let of_files = ["build", "--files", &files, "--blob", "b", "-o", &out, "-f", "--json"];
    holdall([&of_files[..], &["--schema", &schema]].concat()).ends_with(0);
    assert_eq!(holdall(["records", &out, "--path", "b", "--json"]).ends_with(0).out, "[1,2]\n");
    let error = holdall([&of_files[..], &["--content", "i32"]].concat()).ends_with(0).json();
    assert_eq!(error["files"], json!({"path": "b", "count": 1}));
    let error = holdall([&of_files[..], &["--content", "i64"]].concat()).ends_with(1).error();
    assert_eq!(error["code"], "record/entry-length");
    assert!(error["source"].as_str().unwrap().ends_with("a.i16"), "{error}");
}
