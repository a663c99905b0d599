//! `holdall salvage`.

use crate::command::{accept, holdall};
use serde_json::json;

#[test]
fn salvaged_and_lost_tensors_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (whole, cut, out) = (path("whole.safetensors"), path("cut.safetensors"), path("out.zt"));
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tiny.zt");
    holdall(["convert", tiny, &whole, "--dense", "--raw-types", "--drop-attributes"]).ends_with(0);
    let bytes = std::fs::read(&whole).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 1000]).unwrap();

    let text = holdall(["salvage", &cut, &out]).ends_with(1).out;
    for part in
        ["damaged: ", "[safetensors/truncated]", "left out: ", "[index/cut-short]", " taken, "]
    {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    holdall(["verify", &out]).ends_with(0);
    // An existing file is kept, except with `--force`.
    holdall(["salvage", &cut, &out]).ends_with(2);
    let report = holdall(["salvage", &cut, &out, "--force", "--json"]).ends_with(1).json();
    assert_eq!(report["open_error"]["code"], json!("safetensors/truncated"));
    assert_eq!(report["left_out"].as_array().unwrap().len() as u64, report["left_out_count"]);
    let all = holdall(["inspect", "--plain", &whole]).ends_with(0).out.lines().count() as u64;
    let (taken, left) = (report["tensors"].as_u64().unwrap(), report["left_out_count"].as_u64());
    assert_eq!(taken + left.unwrap(), all);
    let differ = holdall(["diff", &whole, &out, "--json"]).ends_with(1).json();
    assert_eq!(differ["changed"], json!([]));

    let sound = accept("ztensor/v1.0-empty.zt");
    holdall(["salvage", &sound, &path("sound.zt")]).ends_with(0);
    holdall(["salvage", &path("nothing"), &path("x.zt")]).ends_with(3);
    std::fs::write(path("junk.zt"), [7; 100]).unwrap();
    holdall(["salvage", &path("junk.zt"), &path("x.zt")]).ends_with(4);
    assert!(!dir.path().join("x.zt").exists());
}

#[test]
fn a_package_without_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let whole = accept("carton/made-full.carton");
    let bytes = std::fs::read(&whole).unwrap();
    let (cut, out) = (path("cut.carton"), path("out.carton"));
    std::fs::write(&cut, &bytes[..bytes.len() - 22]).unwrap();
    let text = holdall(["salvage", &cut, &out]).ends_with(1).out;
    assert!(text.contains("[zip/end]") && text.contains(" files taken, 0 left out"), "{text}");
    let same = holdall(["diff", &whole, &out, "--json"]).ends_with(0).json();
    assert_eq!(same["same"], json!(true), "{same}");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let report = holdall(["salvage", &cut, &out, "--force", "--json"]).ends_with(1).json();
    assert!(
        report["files"].as_u64().unwrap() > 0 && report["left_out_count"].as_u64().unwrap() > 0
    );
    let error = holdall(["salvage", &cut, &path("out.zt"), "--json"]).ends_with(2).error();
    assert_eq!(error["code"], "write/extension");
}
