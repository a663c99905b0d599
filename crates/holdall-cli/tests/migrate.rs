//! `schema migrate`: the records of a file under another schema.

mod command;

use command::holdall;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use tempfile::TempDir;

fn example(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/photos").join(name);
    path.to_str().unwrap().to_owned()
}

/// The photos as a file of their first schema, in a folder.
fn photos(extension: &str) -> (TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (old, new) = (at(&format!("old.{extension}")), at(&format!("new.{extension}")));
    let (schema, lines) = (example("schema.json"), example("photos.ndjson"));
    let args = ["build", "--schema", &schema, "--records", &lines, "--path", "photos"];
    let files = example("files");
    let more = ["--files", &files, "--file-member", "image", "--blob", "all", "-o", &old];
    holdall([&args[..], &more].concat()).ends_with(0);
    (folder, old, new)
}

fn records(file: &str, more: &[&str]) -> Vec<Json> {
    let args = [&["records", file, "--json", "--path", "photos"], more].concat();
    let found = holdall(args).ends_with(0).out;
    found.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn members_are_added_renamed_and_widened() {
    let (_folder, old, new) = photos("zt");
    let schema = example("schema2.json");
    let args = ["schema", "migrate", &old, &schema, "-o", &new, "--rename", "text=caption"];
    for io in ["map", "read"] {
        let report = holdall([&args[..], &["--json", "-f", "--io", io]].concat());
        let report = report.ends_with(0).json();
        assert_eq!((&report["records"], &report["dropped"]), (&json!(4), &json!([])));
        assert_eq!(report["target_len"], std::fs::metadata(&new).unwrap().len());
        let mut expected = records(&old, &[]);
        for record in &mut expected {
            let record = record.as_object_mut().unwrap();
            let text = record.remove("caption").unwrap();
            record.insert("text".to_owned(), text);
            record.insert("stars".to_owned(), json!(3));
        }
        // A float of 32 bits has more digits in 64.
        let found = records(&new, &[]);
        for (found, expected) in found.iter().zip(&mut expected) {
            if let Some(at) = expected.get_mut("at") {
                for part in ["lat", "lon"] {
                    let narrow = at[part].as_f64().unwrap() as f32;
                    at[part] = json!(f64::from(narrow));
                }
            }
            assert_eq!(found, &*expected);
        }
        assert_eq!(found.len(), 4);
        // The rest of the file is there as it was, and both sound.
        let blob = |file: &str| holdall(["records", file, "--json", "--path", "all"]).out;
        assert_eq!(blob(&new), blob(&old));
        holdall(["verify", &new]).ends_with(0);
    }
    let layout = holdall(["schema", "layout", &new, "--json", "--path", "photos[].id"]).json();
    assert_eq!(layout["paths"][0]["kind"], "Uint64");
}

#[test]
fn nothing_is_left_out_unless_told() {
    let (_folder, old, new) = photos("zt");
    let narrow = r#"{"TypeDef:Struct": ["id"], "required": ["id"],
        "properties": {"id": {"TypeDef:Uint32": true}}}"#;
    let schema = format!("{old}.json");
    std::fs::write(&schema, narrow).unwrap();
    let args = ["schema", "migrate", &old, &schema, "-o", &new, "--json"];
    let error = holdall(args).error();
    assert_eq!(error["code"], "evolve/drops-member");
    assert!(error["hint"].as_str().unwrap().contains("--drop"), "{error}");
    assert!(!PathBuf::from(&new).exists());
    let report = holdall([&args[..], &["--drop"]].concat()).ends_with(0).json();
    let dropped = json!([
        "photos[].label",
        "photos[].at",
        "photos[].caption",
        "photos[].tags",
        "photos[].image"
    ]);
    assert_eq!(report["dropped"], dropped);
    assert_eq!(records(&new, &["--range", "..2"]), [json!({"id": 1}), json!({"id": 2})]);
}

#[test]
fn what_cannot_be_is_refused_before_a_file_appears() {
    let (_folder, old, new) = photos("zt");
    let migrate = |schema: &str, more: &[&str]| {
        let args = ["schema", "migrate", &old, schema, "-o", &new, "--json"];
        holdall([&args[..], more].concat())
    };
    let second = example("schema2.json");
    assert_eq!(migrate(&second, &["--drop"]).error()["code"], "evolve/no-default");
    let error = migrate(&second, &["--rename", "text=captoin"]).ends_with(2).error();
    assert_eq!(error["code"], "schema/unknown-path");
    let text = std::fs::read_to_string(example("schema.json")).unwrap();
    let other = format!("{old}.json");
    std::fs::write(
        &other,
        text.replace(
            "\"type\": \"integer\", \"minimum\": 0, \"TypeDef:Uint32\"",
            "\"TypeDef:Uint8\"",
        ),
    )
    .unwrap();
    assert_eq!(migrate(&other, &[]).error()["code"], "evolve/no-converter");
    let error = migrate(&second, &["--path", "all", "--rename", "text=caption"]).error();
    assert_eq!(error["code"], "file/wrong-layout");
    assert!(!PathBuf::from(&new).exists());
}
