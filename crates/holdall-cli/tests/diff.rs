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

/// Writes a model of f32 tensors.
fn model(path: &std::path::Path, tensors: &[(String, Vec<f32>)]) -> String {
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, values) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        let (rows, end) = (values.len() / 64, data.len());
        header.push(format!(
            r#""{name}":{{"dtype":"F32","shape":[{rows},64],"data_offsets":[{start},{end}]}}"#
        ));
    }
    let mut header = format!("{{{}}}", header.join(","));
    header.push_str(&" ".repeat((8 - header.len() % 8) % 8));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend(data);
    std::fs::write(path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns numbers that look random.
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn what_changed_most_is_first_and_layers_are_summed() {
    let dir = tempfile::tempdir().unwrap();
    let base: Vec<(String, Vec<f32>)> = (0..12)
        .map(|n| (format!("model.layers.{n}.w"), noise(n + 1, 640)))
        .chain([("embed.weight".to_owned(), noise(99, 640))])
        .collect();
    let mut tuned = base.clone();
    // The relative changes of layers 9, 10 and 11, and of 4 and 2.
    for (layer, factor) in [(4, 1.5), (9, 1.001), (10, 1.01), (11, 1.1)] {
        tuned[layer].1.iter_mut().for_each(|x| *x *= factor);
    }
    tuned[2].1[0] = f32::NAN;
    let a = model(&dir.path().join("a.safetensors"), &base);
    let b = model(&dir.path().join("b.safetensors"), &tuned);
    let found = holdall(["diff", &a, &b]).ends_with(1).out;
    let order = |text: &str, start: &str| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.strip_prefix("~  "));
        let names = names.filter_map(|line| line.split_whitespace().next());
        names.filter_map(|name| name.strip_prefix(start)).map(str::to_owned).collect()
    };
    // First the tensors, then the layers: the one with a NaN comes first.
    let tables = ["2.w", "4.w", "11.w", "10.w", "9.w", "2", "4", "11", "10", "9"];
    assert_eq!(order(&found, "model.layers."), tables, "{found}");
    for part in ["100.0%", "0.5 ", "1 NaN or infinite on one side", "7 layers did not change"] {
        assert!(found.contains(part), "`{part}` is not in\n{found}");
    }
    let by = |sort: &str| {
        let args = ["diff", &a, &b, "--by-layer", "--sort", sort];
        order(&holdall(args).ends_with(1).out, "model.layers.").join(" ")
    };
    assert_eq!(by("relative"), "2 4 11 10 9");
    assert_eq!(by("name"), "2 4 9 10 11");
    assert_eq!(by("file"), "2 4 9 10 11");
    assert_eq!(by("share"), "4 9 10 11 2");
    let report = holdall(["diff", "--json", &a, &b]).ends_with(1).json();
    let layers = report["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 13);
    assert_eq!(layers[4]["name"], "model.layers.4");
    assert_eq!((&layers[4]["changed"], &layers[4]["share"]), (&json!(1), &json!(1.0)));
    assert!((layers[4]["relative"].as_f64().unwrap() - 0.5).abs() < 1e-6, "{}", layers[4]);
    assert_eq!((&layers[12]["name"], &layers[12]["relative"]), (&json!(null), &json!(0.0)));
    assert_eq!(layers[2]["non_finite"], 1);
    let values = &report["changed"][1]["values"];
    assert!((values["cosine"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{values}");
    // Another type is named.
    let c = dir.path().join("c.safetensors");
    holdall(["convert", &b, c.to_str().unwrap(), "--dtype", "bf16"]).ends_with(0);
    let found = holdall(["diff", &a, c.to_str().unwrap()]).ends_with(1).out;
    let line = "13 tensors have another type in the second: the values were compared as numbers";
    assert!(found.contains(line), "{found}");
}

#[test]
fn a_sample_is_enough_for_a_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, seed: u64, change: f32| {
        let all: Vec<(String, Vec<f32>)> = (0..4)
            .map(|n| {
                let mut values = noise(seed + n, 1 << 16);
                let other = noise(1000 + n, 1 << 16);
                values.iter_mut().zip(other).for_each(|(x, y)| *x += change * y);
                (format!("h.{n}.w"), values)
            })
            .collect();
        model(&dir.path().join(name), &all)
    };
    let base = write("base.safetensors", 1, 0.0);
    let (tuned, other) = (write("tuned.safetensors", 1, 0.05), write("other.safetensors", 50, 0.0));
    for (b, status, verdict) in [
        (&base, 0, "the same, as far as sampled:"),
        (&tuned, 1, "same base, fine-tuned:"),
        (&other, 1, "unrelated:"),
    ] {
        let found = holdall(["diff", &base, b, "--sample=20%"]).ends_with(status).out;
        let last = found.lines().last().unwrap();
        assert!(last.starts_with(verdict), "{found}");
        for part in ["read", "compared", "correlation", "certainty"] {
            assert!(found.contains(&format!("  {part}")), "{found}");
        }
    }
    let report = holdall(["diff", &base, &tuned, "--sample", "--json"]).ends_with(1).json();
    assert_eq!((&report["verdict"], &report["confidence"]), (&json!("same_base"), &json!(0.999)));
    let (read, all) = (&report["bytes_read"], &report["bytes"]);
    assert_eq!(all, &json!([1 << 20, 1 << 20]));
    assert!(read[0].as_u64().unwrap() * 100 <= 1 << 20, "{report}");
    let tiny = accept(DENSE);
    let found = holdall(["diff", &tiny, &tiny, "--sample"]).ends_with(4).out;
    assert!(found.contains("not enough to say:"), "{found}");
    for bad in ["0", "2", "x", "-1%"] {
        holdall(["diff", &base, &tuned, &format!("--sample={bad}")]).ends_with(2);
    }
    holdall(["diff", &base, &tuned, "--sample", "--by-layer"]).ends_with(2);
}
