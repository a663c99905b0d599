//! What differs between systems, in one suite for all of them: each test says what every system does.

use crate::command::{Folder, accept, holdall};
use serde_json::json;
use std::path::Path;

const IS_WINDOWS: bool = cfg!(windows);

/// Writes a file of the corpus as safetensors.
fn model(folder: &Folder, name: &str) -> String {
    let to = folder.at(name);
    holdall(["convert", &accept("ztensor/v1.2-dense_all.zt"), &to, "--quiet", "--force"])
        .ends_with(0);
    to
}

/// Returns the names in a folder.
fn names(folder: &Folder) -> Vec<String> {
    let entries = folder.0.path().read_dir().unwrap();
    let mut all: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

#[test]
fn names_that_a_system_reserves_are_refused_there() {
    let folder = Folder::new();
    let from = accept("ztensor/v1.2-dense_all.zt");
    for name in ["con.zt", "NUL.zt", "com1.zt", "a?.zt", "a|b.zt"] {
        let ran = holdall(["convert", &from, &folder.at(name), "--json"]);
        match IS_WINDOWS {
            true => assert_eq!(ran.ends_with(2).error()["code"], "write/name", "{name}"),
            false => drop(ran.ends_with(0)),
        }
    }
    let read = holdall(["inspect", &folder.at("con.zt"), "--json"]);
    match IS_WINDOWS {
        true => assert_eq!(read.error()["code"], "io/not-regular"),
        false => drop(read.ends_with(0)),
    }
}

#[test]
fn a_path_is_shown_as_it_was_given() {
    let folder = Folder::new();
    let path = model(&folder, "a b.safetensors");
    let shown = holdall(["inspect", &path]).ends_with(0).out;
    assert_eq!(shown.lines().next(), Some(&*path));
    assert!(holdall(["verify", &path]).ends_with(0).out.contains(&path));
}

#[test]
fn edits_leave_one_file_whether_it_was_changed_in_place_or_not() {
    let folder = Folder::new();
    for name in ["a.zt", "a.safetensors"] {
        let to = folder.at(name);
        holdall(["convert", &accept("ztensor/v1.2-dense_all.zt"), &to, "--quiet"]).ends_with(0);
        for value in ["1", "2", "a text that needs more room than a number"] {
            holdall(["edit", &to, "set", &format!("note={value}"), "--quiet"]).ends_with(0);
            let shown = holdall(["inspect", &to, "--json"]).ends_with(0);
            assert!(shown.out.contains(value), "{name} {value}");
            holdall(["verify", &to, "--quiet"]).ends_with(0);
        }
    }
    assert_eq!(names(&folder), ["a.safetensors", "a.zt"]);
}

#[test]
fn a_file_that_is_open_is_replaced_if_the_system_can() {
    let folder = Folder::new();
    let path = model(&folder, "a.safetensors");
    let before = std::fs::read(&path).unwrap();
    // Mapped, as on every local disk.
    let reader = holdall::open(&path).unwrap();
    let edit =
        || holdall(["edit", &path, "set", "note=long enough to move every tensor", "--json"]);
    let ran = edit();
    match IS_WINDOWS {
        true => {
            assert_eq!(ran.ends_with(3).error()["code"], "write/in-use");
            assert_eq!(std::fs::read(&path).unwrap(), before);
        }
        false => drop(ran.ends_with(0)),
    }
    assert!(reader.tensors().all(|tensor| tensor.components().all(|c| c.digest.is_none())));
    drop(reader);
    edit().ends_with(0);
    assert_ne!(std::fs::read(&path).unwrap(), before);
    assert_eq!(names(&folder), ["a.safetensors"]);
}

#[test]
fn what_a_killed_process_left_is_removed() {
    let folder = Folder::new();
    folder.write(".holdall-abcdef.part", "left");
    folder.write(".holdall-ghijkl.part/model/deep", "left");
    folder.write(".holdall-notes.part", "not ours: this name has another length");
    model(&folder, "a.safetensors");
    let mut left = names(&folder);
    left.retain(|name| name != "a.safetensors");
    // `notes` has five characters, `abcdef` six.
    assert_eq!(left, [".holdall-notes.part"]);
}

#[test]
fn long_paths_are_usual_paths() {
    let folder = Folder::new();
    let deep = (0..6).map(|n| format!("{n}{}", "x".repeat(60))).collect::<Vec<_>>().join("/");
    let deep = Path::new(&deep).iter().collect::<std::path::PathBuf>();
    std::fs::create_dir_all(folder.0.path().join(&deep)).unwrap();
    let path = model(&folder, deep.join("a.safetensors").to_str().unwrap());
    assert!(path.len() > 300);
    holdall(["edit", &path, "set", "note=x", "--quiet"]).ends_with(0);
    holdall(["verify", &path, "--quiet"]).ends_with(0);
}

#[test]
fn names_that_differ_by_case_alone_are_one_file_where_the_system_says_so() {
    let folder = Folder::new();
    model(&folder, "model.safetensors");
    let other = folder.at("MODEL.safetensors");
    let is_one = Path::new(&other).exists();
    let from = accept("ztensor/v1.2-dense_all.zt");
    let ran = holdall(["convert", &from, &other, "--json"]);
    match is_one {
        true => assert_eq!(ran.error()["code"], "write/exists"),
        false => drop(ran.ends_with(0)),
    }
    assert_eq!(names(&folder).len(), if is_one { 1 } else { 2 });
}

#[test]
fn written_bytes_are_the_same_on_every_system() {
    let folder = Folder::new();
    let hash = |name: &str| {
        let to = folder.at(name);
        holdall(["convert", &accept("ztensor/v1.2-dense_all.zt"), &to, "--quiet"]).ends_with(0);
        let bytes = std::fs::read(&to).unwrap();
        let digest = <sha2::Sha256 as sha2::Digest>::digest(&bytes);
        digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let found = json!({
        "zt": hash("a.zt"),
        "safetensors": hash("a.safetensors"),
        "npz": hash("a.npz"),
    });
    let expected = json!({
        "zt": "4efee5ed10fde9e684ea6795863e8a377623327092eea18b4c2bb59669ba59ec",
        "safetensors": "423d1afb53a055d7a8a0501971f3ee56a1d6c65a88ba8a4ec8fe61571f0dd770",
        "npz": "7582c70f5a154b2aada6ebebae693033ecec62bfd19aa2f9c4a43a2df2e4cc4e",
    });
    assert_eq!(found, expected);
}
