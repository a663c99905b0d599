//! `records`: selected by position, column, condition, and at random.

use crate::command::{self, holdall};
use crate::records_files::{self, blob, dataset, value};
use holdall::WriteOptions;
use serde_json::{Value as Json, json};
use tempfile::NamedTempFile;

fn file(count: u64) -> NamedTempFile {
    records_files::write(&dataset(count), &WriteOptions::new())
}

fn lines(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the output for a file, after checking that it is the same for every way of reading bytes.
#[track_caller]
fn shown(file: &NamedTempFile, args: &[&str]) -> String {
    let path = file.path().to_str().unwrap();
    let mapped = holdall([&["records", path], args].concat()).ends_with(0).out;
    let read = holdall([&["records", path, "--io", "read"], args].concat()).ends_with(0).out;
    assert_eq!(mapped, read);
    mapped
}

#[test]
fn a_range_is_lines_of_json() {
    let file = file(100);
    let all = lines(&shown(&file, &["--json"]));
    assert_eq!(all, (0..100).map(value).collect::<Vec<_>>());
    let some = lines(&shown(&file, &["--range", "40..43", "--path", "set", "--json"]));
    assert_eq!(some, (40..43).map(value).collect::<Vec<_>>());
    assert_eq!(lines(&shown(&file, &["--range", "98..", "--json"])).len(), 2);
    assert_eq!(shown(&file, &["--range", "7..7", "--json"]), "");
    let path = file.path().to_str().unwrap();
    let error = holdall(["records", path, "--range", "90..101", "--json"]).ends_with(2).error();
    assert_eq!(error["code"], "records/index");
    holdall(["records", path, "--range", "5..2"]).ends_with(2);
    let error = holdall(["records", path, "--path", "sett", "--json"]).ends_with(2).error();
    assert_eq!(error["hint"], "did you mean `set`?");
    let plain = command::accept("ztensor/v1.2-dense_all.zt");
    let error = holdall(["records", &plain, "--json"]).ends_with(2).error();
    assert_eq!(error["code"], "records/which-dataset");
}

#[test]
fn columns_are_members_at_any_depth() {
    let file = file(6);
    let args = ["--columns", "id,shape.circle.r,box[1],flag", "--json"];
    let found = lines(&shown(&file, &args));
    assert_eq!(found[0], json!({"id": 0, "shape.circle.r": 1.5, "box[1]": -1, "flag": true}));
    assert_eq!(found[1], json!({"id": 1, "box[1]": -1}));
    let csv = shown(&file, &["--columns", "id,text,tags,flag", "--csv", "--range", "0..3"]);
    let expected = "id,text,tags,flag\n0,record 0 — ünïcode,[],true\n\
        1,record 1 — ünïcode,\"[{\"\"name\"\":\"\"tag0\"\",\"\"at\"\":0}]\",\n\
        2,record 2 — ünïcode,\"[{\"\"name\"\":\"\"tag0\"\",\"\"at\"\":0},{\"\"name\"\":\"\"tag1\"\",\"\"at\"\":1}]\",\n";
    assert_eq!(csv, expected);
    assert_eq!(shown(&file, &["--columns", "id", "--csv", "--range", "0..0"]), "id\n");
    let path = file.path().to_str().unwrap();
    for (columns, code) in [("size", "schema/unknown-path"), ("a[", "schema/path")] {
        let error = holdall(["records", path, "--columns", columns, "--json"]).ends_with(2).error();
        assert_eq!(error["code"], code);
    }
}

#[test]
fn conditions_hold_all_at_once() {
    let file = file(40);
    let ids = |conditions: &[&str]| {
        let mut args = vec!["--json", "--columns", "id"];
        conditions.iter().for_each(|c| args.extend(["--where", c]));
        let found = lines(&shown(&file, &args));
        found.iter().map(|r| r["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let wanted = |holds: &dyn Fn(u64) -> bool| (0..40).filter(|i| holds(*i)).collect::<Vec<_>>();
    assert_eq!(ids(&["label=cat"]), wanted(&|i| i % 3 == 0));
    assert_eq!(ids(&["label!=cat", "id>=30"]), wanted(&|i| i % 3 != 0 && i >= 30));
    assert_eq!(ids(&["x<2", "id > 1"]), wanted(&|i| i > 1 && i < 8));
    // A Boolean member alone is a condition.
    assert_eq!(ids(&["flag"]), wanted(&|i| i % 8 == 0));
    assert_eq!(ids(&["flag in (true, false)"]), wanted(&|i| i % 4 == 0));
    assert_eq!(ids(&["!flag", "id<=5"]), [1, 2, 3, 4, 5]);
    assert_eq!(ids(&["flag=true"]), wanted(&|i| i % 8 == 0));
    // A missing value equals nothing, and so it is different.
    assert_eq!(ids(&["flag!=true"]), wanted(&|i| i % 8 != 0));
    assert_eq!(ids(&["shape=circle"]), wanted(&|i| i % 2 == 0));
    assert_eq!(ids(&["shape.named.name=n7"]), [7]);
    assert_eq!(ids(&["text=record 11 — ünïcode"]), [11]);
    assert_eq!(ids(&["box[0]>37"]), [38, 39]);
    let path = file.path().to_str().unwrap();
    for (condition, code) in [
        ("label=cow", "records/condition"),
        ("label<cat", "records/condition"),
        ("id=1.5", "records/condition"),
        ("x=big", "records/condition"),
        ("flag=yes", "records/condition"),
        ("tags=1", "records/condition"),
        ("", "records/condition"),
        (" ", "records/condition"),
        ("!", "records/condition"),
        (" =1", "records/condition"),
        ("size=1", "schema/unknown-path"),
    ] {
        let args = ["records", path, "--where", condition, "--json"];
        assert_eq!(holdall(args).ends_with(2).error()["code"], code, "{condition}");
    }
}

#[test]
fn samples_are_the_same_each_time() {
    let file = file(500);
    let some = |args: &[&str]| {
        let found = lines(&shown(&file, &[args, &["--json", "--columns", "id"]].concat()));
        found.iter().map(|r| r["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let first = some(&["--sample", "10"]);
    assert!(first.len() == 10 && first.is_sorted());
    assert_eq!(first, some(&["--sample", "10", "--seed", "0"]));
    assert_ne!(first, some(&["--sample", "10", "--seed", "1"]));
    let of_range = some(&["--sample", "10", "--range", "100..120", "--where", "label=cat"]);
    assert!(of_range.iter().all(|i| (100..120).contains(i) && i % 3 == 0) && of_range.len() == 6);
}

#[test]
fn a_table_fits_the_terminal() {
    let file = file(50);
    let text = shown(&file, &[]);
    let all: Vec<&str> = text.lines().collect();
    assert!(all[0].trim_start().starts_with("#  id  x") && all[0].contains("shape"), "{text}");
    assert_eq!(all.len(), 1 + 20 + 2);
    assert!(all[22].starts_with("20 of 50 records; `--range A..B`"), "{text}");
    assert_eq!(shown(&file, &["--table"]).lines().count(), 1 + 50 + 2);
    let some = shown(&file, &["--columns", "label,flag", "--range", "3..5"]);
    assert_eq!(some, "#  label  flag\n3  cat\n4  dog    false\n\n2 of 50 records\n");
}

#[test]
fn blobs_are_their_runs() {
    let write = |content: &str, runs: &[&[u8]], align| {
        records_files::write(&blob(content, runs, align), &WriteOptions::new())
    };
    let text = write("utf-8", &[b"one", b"", "zwölf".as_bytes()], 1);
    assert_eq!(shown(&text, &["--json"]), "\"one\"\n\"\"\n\"zwölf\"\n");
    assert_eq!(shown(&text, &["--csv", "--range", "1.."]), "value\n\"\"\nzwölf\n");
    assert!(shown(&text, &[]).ends_with("2  zwölf\n\n3 of 3 entries\n"));
    assert_eq!(shown(&text, &["--json", "--sample", "1"]).lines().count(), 1);
    assert_eq!(shown(&text, &["--count"]), "3\n");
    assert_eq!(shown(&text, &["--count", "--range", "1..", "--json"]), "{\"count\":2}\n");
    let bytes = write("bytes", &[&[0, 1, 2]], 1);
    assert_eq!(shown(&bytes, &["--json"]), "\"AAEC\"\n");
    let json = write("json", &[b"{\"a\": [1]}", b"null"], 1);
    assert_eq!(lines(&shown(&json, &["--json"])), [json!({"a": [1]}), json!(null)]);
    let floats = [1.5f32, -2.0].map(f32::to_le_bytes).concat();
    let rows = write("F32", &[&floats, b""], 4);
    assert_eq!(lines(&shown(&rows, &["--json"])), [json!([1.5, -2.0]), json!([])]);
    let path = text.path().to_str().unwrap();
    holdall(["records", path, "--columns", "a"]).ends_with(2);
    let error = holdall(["records", path, "--range", "2..4", "--json"]).ends_with(2).error();
    assert_eq!(error["code"], "records/index");
}

#[test]
fn the_layout_of_a_file_goes_into_its_records() {
    let file = file(3);
    let path = file.path().to_str().unwrap();
    let report = holdall(["schema", "layout", path, "--json"]).ends_with(0).json();
    let paths: Vec<&str> =
        report["paths"].as_array().unwrap().iter().map(|r| r["path"].as_str().unwrap()).collect();
    assert_eq!(paths[..4], ["set", "set[]", "set[].id", "set[].x"]);
    assert!(paths.contains(&"set[].tags[].name") && paths.contains(&"set[].shape.circle.r"));
    assert_eq!(report["paths"][0]["kind"], "Struct [3]");
    holdall(["schema", "diff", path, path, "--path", "set"]).ends_with(0);
}

#[test]
fn records_are_sorted_counted_and_grouped() {
    let file = file(20);
    let out = shown(
        &file,
        &["--json", "--columns", "id", "--where", "id in (3, 5) or text contains 12", "--sort=-id"],
    );
    assert_eq!(out, "{\"id\":12}\n{\"id\":5}\n{\"id\":3}\n");
    assert_eq!(shown(&file, &["--count", "--where", "label=cat"]), "7\n");
    assert_eq!(shown(&file, &["--count", "--where", "label=cat", "--json"]), "{\"count\":7}\n");
    assert_eq!(shown(&file, &["--group", "label", "--csv"]), "label,count\ndog,13\ncat,7\n");
    let out = shown(&file, &["--group", "label,flag", "--json"]);
    assert_eq!(lines(&out)[0], json!({"label": "dog", "count": 10}));
    let out = shown(&file, &["--group", "label"]);
    assert!(out.contains("dog    13") && out.contains("2 of 2 groups"), "{out}");
    let out = shown(&file, &["--group", "label", "--aggregate", "sum(id),max(text)", "--csv"]);
    assert_eq!(
        out,
        "label,count,sum(id),max(text)\ndog,13,127,record 8 — ünïcode\ncat,7,63,record 9 — ünïcode\n"
    );
    let out = shown(&file, &["--aggregate", "mean(id)", "--where", "id between 3 and 5", "--json"]);
    assert_eq!(lines(&out)[0], json!({"count": 3, "mean(id)": 4.0}));
    assert_eq!(
        shown(&file, &["--count", "--where", "text like 'record 1_ %' and id<member(id)"]),
        "0\n"
    );
    assert_eq!(shown(&file, &["--count", "--where", "text like %1_ — % and flag is null"]), "8\n");
    let path = file.path().to_str().unwrap();
    let no = holdall(["records", path, "--aggregate", "median(id)"]).ends_with(2);
    assert!(no.err.contains("records/aggregate") && no.err.contains("mean(stars)"), "{no:?}");
    let error = holdall(["records", path, "--where", "label=dgo", "--json"]).ends_with(2).error();
    assert_eq!(error["hint"], "did you mean `dog`?");
    let error = holdall(["records", path, "--sort", "idd", "--json"]).ends_with(2).error();
    assert_eq!(error["hint"], "did you mean `id`?");
}

/// From a table and a folder to a dataset, and back.
#[test]
fn files_become_members_and_members_files() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(at("images")).unwrap();
    std::fs::write(at("images/a.png"), b"\x89PNG\r\n\x1a\n1").unwrap();
    std::fs::write(at("images/b.png"), b"\x89PNG\r\n\x1a\n22").unwrap();
    std::fs::write(at("t.csv"), "id,image\n1,a.png\n2,b.png\n").unwrap();
    let files = ["--files", &at("images"), "--file-member", "image"];
    let infer = ["schema", "infer", &at("t.csv"), "-o", &at("s.json")];
    holdall([&infer[..], &files, &["--enums", "9"]].concat()).ends_with(0);
    let (schema, table, made) = (at("s.json"), at("t.csv"), at("t.mt"));
    let build = ["build", "--schema", &schema, "--records", &table, "-o", &made];
    holdall([&build[..], &files].concat()).ends_with(0);
    let found = holdall(["inspect", &made]).ends_with(0).out;
    assert!(found.contains("members     records: id, image"), "{found}");
    let found = holdall(["inspect", &made, "-t", "records"]).ends_with(0).out;
    assert!(found.contains("image   Bytes") && found.contains("id      Int64"), "{found}");

    let files = ["--files", &at("out"), "--file-member", "image"];
    let out = holdall([&["records", &made, "--csv"], &files[..]].concat()).ends_with(0).out;
    assert_eq!(out, "id,image\n1,0.png\n2,1.png\n");
    assert_eq!(std::fs::read(at("out/1.png")).unwrap(), b"\x89PNG\r\n\x1a\n22");
    let out =
        [&["records", &made, "--json"], &files[..], &["--file-names", "id", "--where", "id=2"]]
            .concat();
    assert_eq!(holdall(&out).ends_with(0).out, "{\"id\":2,\"image\":\"2.png\"}\n");
    let error = holdall(&out).ends_with(2).error();
    assert_eq!(error["code"], "write/exists");
    holdall([&out[..], &["--force"]].concat()).ends_with(0);

    let wrong =
        ["schema", "infer", &table, "--json", "--files", &at("images"), "--file-member", "imag"];
    let error = holdall(wrong).ends_with(2).error();
    assert_eq!(
        (&error["code"], &error["hint"]),
        (&json!("schema/unknown-path"), &json!("did you mean `image`?"))
    );
}

/// A table shows NumPy's times and texts as NumPy prints them; lines of JSON have the stored values.
#[test]
fn a_table_shows_times_and_texts_of_numpy() {
    let path = command::accept("numpy/numpy_records.npz");
    let args = ["records", &path, "--path", "big", "--columns", "t,d,u,s"];
    let table = holdall(args).ends_with(0).out;
    let row = table.lines().nth(2).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    let (time, span) = ("-189806-11-19T06:05:39.044140", "383570273116232196");
    assert_eq!(cells, ["1", time, span, "s", "語", "ab"]);
    let json = lines(&holdall([&args[..], &["--json"]].concat()).ends_with(0).out);
    assert_eq!((&json[1]["u"], &json[1]["s"]), (&json!("語"), &json!("ab")));
    assert_eq!((&json[1]["t"], &json[1]["d"]), (&json!(time), &json!("383570273116232196 s")));
}
