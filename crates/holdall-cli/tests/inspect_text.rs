//! Text output: one tensor in detail, statistics, and groups.

use crate::command::{self, accept, holdall, holdall_with};
use serde_json::json;

/// Writes a file with one tensor `w` of these elements.
fn file(dir: &tempfile::TempDir, shape: &str, values: &[f32]) -> String {
    let path = dir.path().join("w.zt").to_str().unwrap().to_owned();
    holdall(["convert", "-f", &accept("ztensor/v1.0-empty.zt"), &path]).ends_with(0);
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let args = ["edit", &path, "add", "w", "--from", "-", "--dtype", "f32", "--shape", shape];
    holdall_with(args, &bytes).ends_with(0);
    path
}

#[test]
fn a_tensor_in_detail() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "2,3", &[0.0, -1.5, 2.0, 1.0, f32::NAN, 0.25]);
    let text = holdall(["inspect", &path, "-t", "w"]).ends_with(0).out;
    for line in [
        "w\n  file        ",
        "  dtype       f32\n",
        "  shape       [2, 3], 6 elements\n",
        "  size        24 bytes\n",
        "  data       f32        64       64      24  raw            24  crc32c:0x",
        "  [[ 0.00 -1.50  2.00]\n   [ 1.00   NaN  0.25]]\n",
    ] {
        assert!(text.contains(line), "`{line}` is not in\n{text}");
    }
    let error = holdall(["inspect", &path, "-t", "W", "--json"]).ends_with(2).error();
    assert_eq!(
        (&error["code"], &error["hint"]),
        (&json!("file/no-tensor"), &json!("did you mean `w`?"))
    );
}

#[test]
fn every_tensor_of_golden_files_has_a_preview() {
    for (path, _) in command::golden() {
        let path = path.to_str().unwrap();
        for line in holdall(["inspect", "--plain", path]).ends_with(0).out.lines() {
            let name = line.split('\t').next().unwrap();
            let text = holdall(["inspect", path, "-t", name]).ends_with(0).out;
            // A layout that is kept as it is but not interpreted.
            if text.contains("no values to show: unknown layout") {
                continue;
            }
            assert!(!text.contains("no values to show"), "{path} {name}\n{text}");
            let preview = text.rsplit("\n\n").next().unwrap();
            let empty =
                [", 0 elements", ", 0 records", "0 of "].iter().any(|none| text.contains(none));
            let is_value = |c: char| c.is_ascii_digit() || preview.contains("true");
            assert!(empty || preview.contains(is_value), "{text}");
        }
    }
}

#[test]
fn statistics_as_text_and_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "8", &[0.0, 1.0, 2.0, 3.0, f32::NAN, f32::INFINITY, 0.0, 0.0]);
    let text = holdall(["inspect", &path, "--stats"]).ends_with(0).out;
    let row = text.lines().find(|l| l.starts_with("  w ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["w", "f32", "[8]", "0", "3", "1", "1.1547", "37.5%", "1", "1"]);
    let text = holdall(["inspect", &path, "--stats", "-t", "w"]).ends_with(0).out;
    for line in
        ["min         0", "max         3", "mean  ", "std  ", "3 of 8 (37.5%)", "1 NaN, 1 inf", "█"]
    {
        assert!(text.contains(line), "`{line}` is not in\n{text}");
    }
    let found = holdall(["inspect", &path, "--stats", "--json"]).ends_with(0).json();
    let stats = &found["tensors"][0]["stats"];
    assert_eq!(
        (&stats["count"], &stats["zeros"], &stats["nan"]),
        (&json!(8), &json!(3), &json!(1))
    );
    assert_eq!(
        (&stats["min"], &stats["max"], &stats["mean"]),
        (&json!(0.0), &json!(3.0), &json!(1.0))
    );
    let counts = stats["histogram"]["counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|n| n.as_u64().unwrap()).sum::<u64>(), 6);
}

#[test]
fn repeated_layers_are_one_row_by_default() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("layers.zt").to_str().unwrap().to_owned();
    holdall(["convert", &accept("ztensor/v1.0-empty.zt"), &path]).ends_with(0);
    for layer in 0..4 {
        let name = format!("layers.{layer}.w");
        let args = ["edit", &path, "add", &name, "--from", "-", "--dtype", "u8", "--shape", "5"];
        holdall_with(args, b"abcde").ends_with(0);
    }
    let text = holdall(["inspect", &path]).ends_with(0).out;
    assert!(
        text.contains("  layers.{0..3}.w ×4  u8     [5]    4 × 5 B  dense   raw       crc32c\n"),
        "{text}"
    );
    let text = holdall(["inspect", &path, "--no-group"]).ends_with(0).out;
    assert!(
        text.contains("  layers.3.w  u8     [5]     5 B  dense   raw       crc32c:0x"),
        "{text}"
    );
    // The glob that the group is shown as selects its tensors.
    let names = holdall(["inspect", &path, "--plain", "-s", "layers.{0..3}.w"]).ends_with(0).out;
    assert_eq!(names.lines().count(), 4);
}

#[test]
fn names_that_would_play_tricks_are_escaped() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "1", &[1.0]);
    let name = "\u{1b}[31mred\u{202e}\n";
    holdall(["edit", &path, "rename", &format!("w={name}")]).ends_with(0);
    let text = holdall(["inspect", &path]).ends_with(0).out;
    assert!(text.contains(r"\u{1b}[31mred\u{202e}\n"), "{text:?}");
    let json = holdall(["inspect", "--json", &path]).ends_with(0).json();
    assert_eq!(json["tensors"][0]["name"], name);
    let error = holdall(["inspect", &path, "-t", "\u{1b}[31m"]).ends_with(2).err;
    assert!(!error.contains('\u{1b}'), "{error:?}");
}

/// A fault in one tensor is reported, and the others are shown.
#[test]
fn a_tensor_that_cannot_be_read() {
    let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"bad":{"dtype":"X99","shape":[4],"data_offsets":[8,16]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + 16, 0);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broken.safetensors");
    std::fs::write(&path, bytes).unwrap();
    let path = path.to_str().unwrap();

    let text = holdall(["inspect", path]).ends_with(0).out;
    let row = text.lines().find(|line| line.trim_start().starts_with("bad ")).unwrap();
    assert!(row.contains("unreadable") && row.contains("[4]"), "{text}");
    assert!(text.contains("unreadable: ") && text.contains("unknown dtype `X99`"), "{text}");
    let plain = holdall(["inspect", "--plain", path]).ends_with(0);
    assert!(plain.out.contains("bad\tunreadable\t[4]\t0\t"), "{}", plain.out);
    assert!(plain.err.contains("safetensors/dtype"), "{}", plain.err);
    let stats = holdall(["inspect", "--stats", path]).ends_with(0).out;
    assert!(stats.contains("unreadable"), "{stats}");
    let json = holdall(["inspect", "--json", "--stats", path]).ends_with(0).json();
    let (sound, bad) = (&json["tensors"][0], &json["tensors"][1]);
    assert_eq!((sound.get("fault"), &bad["fault"]["code"]), (None, &json!("safetensors/dtype")));
    assert_eq!((&bad["components"], &bad["stats"]), (&json!({}), &json!(null)));

    holdall(["inspect", path, "-t", "bad"]).ends_with(4);
    holdall(["extract", path, "bad", "-o", "-", "--format", "raw"]).ends_with(4);
    holdall(["verify", path]).ends_with(4);
    let target = dir.path().join("out.zt");
    let target = target.to_str().unwrap();
    let refused = holdall(["convert", path, target]).ends_with(4).err;
    assert!(refused.contains("--exclude"), "{refused}");
    holdall(["convert", path, target, "--exclude", "bad"]).ends_with(0);
    holdall(["verify", target]).ends_with(0);
}

/// The contents of a pipe can be read only once.
#[cfg(all(unix, feature = "http"))]
#[test]
fn the_file_of_authorities_is_read_once() {
    use std::io::Write as _;
    let path = accept("ztensor/v1.2-dense_all.zt");
    let (read, mut write) = std::io::pipe().unwrap();
    write.write_all(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    drop(write);
    let mut looking = command::command(["inspect", &path, &path]);
    looking.env("SSL_CERT_FILE", "/dev/stdin").stdin(read);
    let found = command::ran(looking.output().unwrap()).ends_with(0);
    assert_eq!(found.err, "");
}
