//! Packages with symbolic links, of the zip: every command sees the file behind the link.

use super::write;
use crate::command::{accept, holdall};
use std::os::unix::fs::symlink;

const CARD: &str = r#"
spec_version = 1
[[input]]
name = "x"
dtype = "float32"
shape = [2]
[[output]]
name = "x"
dtype = "float32"
shape = [2]
[[self_test]]
inputs = { x = "@tensor_data/p" }
expected_out = { x = "@tensor_data/p" }
[runner]
runner_name = "noop"
required_framework_version = "=1.0.0"
runner_compat_version = 1
"#;

#[test]
fn every_command_follows_symbolic_links() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for folder in ["f/model/blobs", "f/tensor_data"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    write(dir.path(), "f/carton.toml", CARD);
    let weights = std::fs::read(accept("../../examples/tiny.zt")).unwrap();
    write(dir.path(), "f/model/blobs/0123", &weights);
    symlink("blobs/0123", at("f/model/tiny.zt")).unwrap();
    let index =
        "[[tensor]]\nname = \"p\"\ndtype = \"float32\"\nshape = [2]\nfile = \"linked.bin\"\n";
    write(dir.path(), "f/tensor_data/index.toml", index);
    write(dir.path(), "f/tensor_data/p.bin", [0u8; 8]);
    symlink("p.bin", at("f/tensor_data/linked.bin")).unwrap();
    let made = holdall(["pack", &at("f"), "--json"]).ends_with(0).json();
    assert_eq!(made["left_behind"], serde_json::json!([]));
    let package = at("f.carton");

    let shown = holdall(["inspect", &package, "--json"]).ends_with(0).json();
    let target = |path: &str| {
        let files = shown["files"].as_array().unwrap();
        files.iter().find(|file| file["path"] == path).unwrap()["target"].clone()
    };
    assert_eq!(target("model/tiny.zt"), "model/blobs/0123");
    assert_eq!(target("tensor_data/linked.bin"), "tensor_data/p.bin");
    let verified = holdall(["verify", "--strict", &package, "--json"]).ends_with(0).json();
    assert_eq!(verified["verdict"], "sound");
    holdall(["test", &package]).ends_with(0);
    holdall(["convert", &package, &at("p.safetensors")]).ends_with(0);
    holdall(["extract", &package, "p", "-o", &at("p.npy")]).ends_with(0);
    // The model behind the link, in place.
    let inside = format!("{package}!/model/tiny.zt");
    let there = holdall(["inspect", &inside, "--json"]).ends_with(0).json();
    let here = holdall(["inspect", &accept("../../examples/tiny.zt"), "--json"]).json();
    assert_eq!(there["tensors"], here["tensors"]);
    holdall(["convert", &inside, &at("w.zt")]).ends_with(0);
    holdall(["diff", &inside, &at("w.zt")]).ends_with(0);
    // Out and in again.
    let out = holdall(["unpack", &package, "-o", &at("out"), "--json"]).ends_with(0).json();
    assert_eq!((&out["files"], &out["left_behind"]), (&7.into(), &serde_json::json!([])));
    assert_eq!(std::fs::read_link(at("out/model/tiny.zt")).unwrap().to_str(), Some("blobs/0123"));
    let again = holdall(["pack", &at("out"), "--json"]).ends_with(0).json();
    assert_eq!(again["hash"], made["hash"]);
    assert!(std::fs::read(&package).unwrap() == std::fs::read(at("out.carton")).unwrap());
    holdall(["diff", &package, &at("out")]).ends_with(0);
}

#[test]
fn a_folder_that_contradicts_its_manifest_differs_from_itself() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir_all(at("f/model")).unwrap();
    let card = CARD.split("[[self_test]]").next().unwrap().to_owned()
        + CARD.split_once("[runner]").map(|_| "[runner]\n").unwrap()
        + CARD.split_once("[runner]\n").unwrap().1;
    write(dir.path(), "f/carton.toml", card);
    write(dir.path(), "f/model/w", "weights");
    holdall(["pack", &at("f")]).ends_with(0);
    holdall(["unpack", &at("f.carton"), "-o", &at("out")]).ends_with(0);
    holdall(["diff", &at("out"), &at("out")]).ends_with(0);
    write(dir.path(), "out/model/w", "changed");
    let found = holdall(["diff", &at("out"), &at("out"), "--json"]).ends_with(1).json();
    assert_eq!((&found["same"], &found["files"][0]["name"]), (&false.into(), &"model/w".into()));
    let text = found["files"][0]["a"].as_str().unwrap();
    assert!(text.starts_with("altered") && found["files"][0]["b"] == text, "{found}");
}
