//! `diff`: equal files, files equal within a tolerance, and different files.

use crate::command::{accept, holdall, holdall_with};
use serde_json::json;

const DENSE: &str = "ztensor/v1.2-dense_all.zt";

#[test]
fn how_something_is_stored_is_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let source = accept(DENSE);
    for (name, args) in [
        ("a.safetensors", &[][..]),
        ("b.zt", &["--encoding", "zstd", "--digest", "sha256"]),
        ("c.zt", &["--to", "ztensor@0.1", "--digest", "none"]),
    ] {
        holdall([&["convert", &source, &path(name)], args].concat()).ends_with(0);
        let found = holdall(["diff", &source, &path(name)]).ends_with(0);
        assert!(
            found.out.starts_with("same: ") && found.out.ends_with(", 13 tensors, bit for bit\n")
        );
        let report = holdall(["diff", "--json", &source, &path(name)]).ends_with(0).json();
        assert_eq!((&report["identical"], &report["compared"]), (&json!(true), &json!(13)));
    }
}

#[test]
fn each_difference_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.zt");
    let b = path.to_str().unwrap();
    let a = accept(DENSE);
    holdall(["convert", &a, b]).ends_with(0);
    holdall(["edit", b, "remove", "t_bool"]).ends_with(0);
    holdall(["edit", b, "rename", "t_i8=renamed"]).ends_with(0);
    holdall(["edit", b, "set", "key=value"]).ends_with(0);
    let halves = [1.0f32, 2.0, 3.5].map(f32::to_le_bytes).concat();
    let edit =
        |args: &[&str]| holdall_with([&["edit", b], args, &["--from", "-"]].concat(), &halves);
    edit(&["replace", "t_f16", "--dtype", "f32", "--shape", "3"]).ends_with(0);
    edit(&["replace", "t_u8", "--dtype", "u8", "--shape", "12"]).ends_with(0);

    let report = holdall(["diff", "--json", &a, b]).ends_with(1).json();
    let names = |key: &str| {
        let all = report[key].as_array().unwrap().iter();
        all.map(|t| t["name"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names("removed"), ["t_bool", "t_i8"]);
    assert_eq!(names("added"), ["renamed"]);
    assert_eq!(names("changed"), ["t_f16", "t_u8"]);
    assert_eq!(report["attributes"], json!([{"key": "key", "b": "value"}]));
    assert_eq!(report["changed"][0]["types"][0]["dtype"], "f16");
    assert_eq!(report["changed"][0]["shapes"], json!([[3, 5], [3]]));
    assert_eq!(report["changed"][1]["types"], json!(null));
    let text = holdall(["diff", &a, b]).ends_with(1).out;
    for line in ["-  t_bool ", "+  renamed ", "f16 → f32", "[3, 5] → [12]", "none → value"] {
        assert!(text.contains(line), "`{line}` is not in\n{text}");
    }
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("differ: "), "{last}");
    assert!(last.contains(": 2 only in the first, 1 only in the second, 2 changed, 9 the same"));
    // With `-q` only the exit status is reported.
    let quiet = holdall(["diff", "-q", &a, b]).ends_with(1);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
    // After the difference is removed, the files are equal.
    holdall(["edit", b, "unset", "key"]).ends_with(0);
    holdall(["diff", "-s", "t_i??", &a, b]).ends_with(0);
}

#[test]
fn values_within_a_tolerance_agree() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, values: [f32; 3]| {
        let path = dir.path().join(name).to_str().unwrap().to_owned();
        holdall(["convert", &accept("ztensor/v1.0-empty.zt"), &path]).ends_with(0);
        let bytes = values.map(f32::to_le_bytes).concat();
        let args = ["edit", &path, "add", "w", "--from", "-", "--dtype", "f32", "--shape", "3"];
        holdall_with(args, &bytes).ends_with(0);
        path
    };
    let (a, b) = (write("a.zt", [1.0, 2.0, 3.0]), write("b.zt", [1.0, 2.5, 3.0]));
    let text = holdall(["diff", &a, &b]).ends_with(1).out;
    let expected = "1 of 3 differ, by at most 0.5 (0.2 relative), first at [1]: 2 → 2.5";
    assert!(text.contains(expected), "{text}");
    let report = holdall(["diff", "--json", &a, &b]).ends_with(1).json();
    let values = &report["changed"][0]["values"];
    assert_eq!((&values["max_abs"], &values["max_rel"]), (&json!(0.5), &json!(0.2)));
    assert_eq!(values["first"], json!({"index": [1], "a": 2.0, "b": 2.5}));
    for tolerance in [["--atol", "0.5"], ["--rtol", "0.2"]] {
        let args = ["diff", &a, &b, tolerance[0], tolerance[1]];
        let text = holdall(args).ends_with(0).out;
        assert!(text.contains("0 bit for bit, 1 within the tolerance"), "{text}");
    }
    holdall(["diff", &a, &b, "--atol", "0.4"]).ends_with(1);
    // Another number type that represents these values exactly.
    let f64s = [1.0f64, 2.0, 3.0].map(f64::to_le_bytes).concat();
    let args = ["edit", &b, "replace", "w", "--from", "-", "--dtype", "f64", "--shape", "3"];
    holdall_with(args, &f64s).ends_with(0);
    let text = holdall(["diff", &a, &b]).ends_with(1).out;
    assert!(text.contains("f32 → f64") && text.contains("equal values"), "{text}");
    let text = holdall(["diff", &a, &b, "--values-only"]).ends_with(0).out;
    assert!(text.contains("0 bit for bit, 1 with values that agree"), "{text}");
    for bad in ["-1", "nan", "inf", "x"] {
        holdall(["diff", &a, &b, &format!("--atol={bad}")]).ends_with(2);
    }
    // Files that cannot be compared.
    holdall(["diff", &a, "no-such-file"]).ends_with(3);
    holdall(["diff", "-", "-"]).ends_with(2);
}

/// Each frame is below the limit, but the component is above it.
#[test]
fn tensors_above_a_limit_are_not_differences() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (from, packed) = (path("a.safetensors"), path("a.zt"));
    let header = r#"{"t":{"dtype":"U8","shape":[6291456],"data_offsets":[0,6291456]}}   "#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..6_u32 << 20).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 24) as u8));
    std::fs::write(&from, bytes).unwrap();
    holdall(["convert", &from, &packed, "--encoding", "zstd"]).ends_with(0);
    let limits = ["--limit", "decoded-len=5M", "--limit", "expansion=0"];
    let run = |args: &[&str]| holdall([args, &limits[..]].concat());

    holdall(["diff", &packed, &packed]).ends_with(0);
    let found = run(&["diff", &packed, &from]).ends_with(4).out;
    assert!(found.contains("?  t ") && found.contains("[zstd/decoded-len]"), "{found}");
    assert!(found.contains("\nnot compared: ") && found.contains(": 1 not compared\n"), "{found}");
    let report = run(&["diff", "--json", &packed, &from]).ends_with(4).json();
    let verdicts = ["identical", "same", "undecided"].map(|key| report[key].as_bool().unwrap());
    assert_eq!(verdicts, [false, false, true]);
    let why = &report["changed"][0]["incomparable"];
    assert_eq!(why["code"], "zstd/decoded-len");
    let hint = why["hint"].as_str().unwrap();
    assert!(hint.contains("`--limit decoded-len="), "{hint}");
    run(&["diff", "--values-only", &packed, &from]).ends_with(4);
    // A definite difference takes precedence over values that were not compared.
    let other = path("b.zt");
    holdall(["convert", &packed, &other]).ends_with(0);
    holdall(["edit", &other, "set", "key=value"]).ends_with(0);
    run(&["diff", &packed, &other]).ends_with(1);
    run(&["diff", "--values-only", &packed, &other]).ends_with(4);

    let found = run(&["verify", &packed]).ends_with(4).out;
    assert!(found.starts_with("not fully verified: "), "{found}");
}
