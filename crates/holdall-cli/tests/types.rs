//! Texts, times and names in the output of records, whatever stores them as numbers.

use crate::command::{holdall, holdall_with};

fn case(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/columns_files/");
    format!("{folder}{name}")
}

fn of_formats(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../holdall-formats/tests/types_files/");
    format!("{folder}{name}")
}

fn out(args: &[&str]) -> String {
    holdall(args).ends_with(0).out
}

#[test]
fn texts_and_times_of_numpy_are_texts() {
    let file = case("names.npy");
    let first = r#"{"id":1,"n":"Zoë","s":"ab","v":2.5,"t":"2024-05-01T12:00"}"#;
    let second = r#"{"id":2,"n":"Al","s":"","v":1e+300,"t":"NaT"}"#;
    let lines = out(&["records", &file, "--json"]);
    assert_eq!(lines, format!("{first}\n{second}\n"));
    let csv = "id,n,s,v,t\n1,Zoë,ab,2.5,2024-05-01T12:00\n2,Al,,1e+300,NaT\n";
    assert_eq!(out(&["records", &file, "--csv"]), csv);
    for (condition, count) in [
        ("n=Al", 1),
        ("n!=Al", 1),
        ("n>Al", 1),
        ("n contains o", 1),
        ("s=ab", 1),
        ("t=2024-05-01T12:00", 1),
        ("t>=2024", 1),
        ("t<2024", 1),
        ("n in (Al, Zoë)", 2),
        ("n like 'Z%'", 1),
        ("n>member(s)", 1),
    ] {
        let found = out(&["records", &file, "--where", condition, "--count"]);
        assert_eq!(found.trim(), count.to_string(), "{condition}");
    }
    assert_eq!(out(&["records", &file, "--sort", "-n", "--json"]), lines);
    assert_eq!(out(&["records", &file, "--sort", "n", "--json"]), format!("{second}\n{first}\n"));
    let ran = holdall(["records", &file, "--aggregate", "mean(t)"]).ends_with(2);
    assert!(ran.err.contains("not times or names"), "{}", ran.err);
    let ran = holdall(["records", &file, "--where", "t>x"]).ends_with(2);
    assert!(ran.err.contains("expected a time"), "{}", ran.err);
    // The lines make the same records again.
    let folder = tempfile::tempdir().unwrap();
    let (made, schema) = (folder.path().join("a.mt"), folder.path().join("s.json"));
    let (made, schema) = (made.to_str().unwrap(), schema.to_str().unwrap());
    let tensor = holdall(["inspect", &file, "--tensor", "data", "--json"]).ends_with(0).json();
    let kind = tensor["tensors"][0]["attributes"]["metatensor.kind"].as_str();
    std::fs::write(schema, kind.unwrap()).unwrap();
    let args = ["build", "--schema", schema, "--records", "-", "-o", made];
    holdall_with(args, lines.as_bytes()).ends_with(0);
    assert_eq!(out(&["records", made, "--json"]), lines);
}

#[test]
fn names_and_texts_of_hdf5_are_shown() {
    let file = of_formats("enum.h5");
    let lines = "{\"id\":9007199254740993,\"lvl\":\"LOW\",\"ok\":true}\n{\"id\":-5,\"lvl\":\"HIGH\",\"ok\":false}\n";
    assert_eq!(out(&["records", &file, "--json"]), lines);
    assert_eq!(out(&["records", &file, "--where", "lvl=HIGH", "--count"]).trim(), "1");
    assert_eq!(out(&["records", &file, "--where", "lvl=30", "--count"]).trim(), "1");
    let level = out(&["inspect", &file, "--tensor", "level"]);
    assert!(level.contains(r#"hdf5.enum = {"HIGH":30,"LOW":10,"MID":20}"#), "{level}");
    let file = of_formats("labels.h5");
    let labels = out(&["records", &file, "--path", "labels", "--json"]);
    assert_eq!(labels, "\"oak\"\n\"bêche\"\n\"\"\n\"\"\n\"\"\n\"\"\n");
    assert_eq!(out(&["records", &file, "--path", "one", "--json"]), "\"hello world\"\n");
}

/// One record of a structured array is a structured array of one.
#[test]
fn rows_of_a_structured_array_are_whole_records() {
    let folder = tempfile::tempdir().unwrap();
    let row = folder.path().join("row.npy");
    let row = row.to_str().unwrap();
    holdall(["extract", &case("names.npy"), "data", "--rows", "0..1", "-o", row]).ends_with(0);
    let first = r#"{"id":1,"n":"Zoë","s":"ab","v":2.5,"t":"2024-05-01T12:00"}"#;
    assert_eq!(out(&["records", row, "--json"]), format!("{first}\n"));
}

/// Decimal numbers are texts in records, but `10.00` is more than `9.00` everywhere.
#[test]
fn decimals_are_ordered_as_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let (made, schema) = (folder.path().join("a.mt"), folder.path().join("s.json"));
    let (made, schema) = (made.to_str().unwrap(), schema.to_str().unwrap());
    let decimal = |digits: u8, scale: u8| serde_json::json!({"type": "string", "TypeDef:String": true, "arrow.decimal": [digits, scale]});
    let members =
        serde_json::json!({"a": decimal(10, 2), "b": decimal(12, 2), "c": decimal(10, 3)});
    let kind = serde_json::json!({
        "type": "object", "TypeDef:Struct": ["a", "b", "c"], "required": ["a", "b", "c"], "properties": members,
    });
    std::fs::write(schema, kind.to_string()).unwrap();
    let row = |a: &str, b: &str| format!("{{\"a\":\"{a}\",\"b\":\"{b}\",\"c\":\"1.000\"}}\n");
    let rows = [row("9.00", "10.00"), row("10.00", "9.00"), row("-3.50", "-3.5")];
    let args = ["build", "--schema", schema, "--records", "-", "-o", made];
    holdall_with(args, rows.concat().as_bytes()).ends_with(0);
    let sorted = out(&["records", made, "--sort", "a", "--json"]);
    assert_eq!(sorted, [&*rows[2], &rows[0], &rows[1]].concat());
    assert_eq!(out(&["records", made, "--where", "a<b", "--json"]), rows[0]);
    assert_eq!(out(&["records", made, "--where", "a=b", "--json"]), rows[2]);
    let most = holdall(["records", made, "--aggregate", "max(a)", "--json"]).ends_with(0).out;
    assert!(most.contains("10.00"), "{most}");
    let ran = holdall(["records", made, "--where", "a=member(c)"]).ends_with(2);
    assert!(ran.err.contains("of the same unit or scale"), "{}", ran.err);
}
