//! Metatensor with all operations: conversion there and back, verification, comparison, edits.

use crate::corpus_files::{self, files};
use holdall::{
    Convert, DiffOptions, Edit, File, OpenOptions, Role, Value, VerifyOptions, WriteOptions,
    convert_to, diff, formats, verify,
};
use std::path::PathBuf;

fn accepted() -> Vec<PathBuf> {
    let all: Vec<PathBuf> =
        files("accept").into_iter().filter(|p| p.extension().is_some_and(|e| e == "mt")).collect();
    assert!(all.len() > 20, "{}", all.len());
    all
}

fn open(bytes: Vec<u8>) -> File {
    OpenOptions::new().open_bytes(bytes, "memory").unwrap()
}

fn converted(file: &File, format: &str) -> holdall::Result<File> {
    let options = WriteOptions::new().with_format(formats::by_name(format).unwrap());
    convert_to(file, Vec::new(), &Convert::new(options)).map(|(_, bytes)| open(bytes))
}

/// Returns `true` if two files have the same contents and values.
fn same(a: &File, b: &File) -> bool {
    let diff = diff(a, b, &DiffOptions::new()).unwrap();
    diff.is_same()
}

#[test]
fn everything_comes_back_from_ztensor() {
    for path in accepted() {
        let file = holdall::open(&path).unwrap();
        let there = converted(&file, "ztensor").unwrap_or_else(|e| panic!("{e}"));
        assert!(same(&file, &there), "{}", path.display());
        let report = verify(&there, &VerifyOptions::new()).unwrap();
        assert!(report.is_sound(), "{}: {:?}", path.display(), report.findings);
        let back = converted(&there, "metatensor").unwrap_or_else(|e| panic!("{e}"));
        assert!(same(&file, &back), "{}", path.display());
    }
}

#[test]
fn dense_tensors_come_back_from_safetensors() {
    let mut dense = 0;
    for path in accepted() {
        let file = holdall::open(&path).unwrap();
        match converted(&file, "safetensors") {
            Ok(there) => {
                let back = converted(&there, "metatensor").unwrap_or_else(|e| panic!("{e}"));
                assert!(same(&file, &back), "{}", path.display());
                dense += 1;
            }
            Err(e) => {
                let has_layouts = file.tensors().any(|t| t.layout().as_str() != "dense");
                assert_eq!(e.code(), "convert/cannot-hold", "{}: {e}", path.display());
                assert!(has_layouts, "{}: {e}", path.display());
            }
        }
    }
    assert!(dense > 10, "{dense}");
    // The other direction: contents of safetensors keep their names, values and attributes.
    for path in files("accept") {
        if path.extension().is_some_and(|e| e == "safetensors") {
            let file = holdall::open(&path).unwrap();
            let there = converted(&file, "metatensor").unwrap_or_else(|e| panic!("{e}"));
            assert!(same(&file, &there), "{}", path.display());
            assert!(there.attributes().get("metatensor.schema").is_none(), "{}", path.display());
        }
    }
}

#[test]
fn verification_counts_the_checked_items() {
    let report = |name: &str| {
        let path = corpus_files::root().join("accept/metatensor").join(name);
        verify(&holdall::open(path).unwrap(), &VerifyOptions::new()).unwrap()
    };
    assert_eq!((report("made-strings.mt").records, report("made-blob-json.mt").blobs), (1, 1));
    let nested = report("made-nested.mt");
    assert_eq!((nested.records, nested.blobs, nested.is_sound()), (0, 0, true));
}

#[test]
fn edits_change_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for path in accepted() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let target = folder.path().join(name);
        std::fs::copy(&path, &target).unwrap();
        let before = holdall::open(&path).unwrap();
        if !before.index().unrepresented().is_empty() {
            continue;
        }
        let mut edit = Edit::open(&target).unwrap();
        edit.set_attribute("license", Value::Text("MIT".into()));
        edit.commit().unwrap_or_else(|e| panic!("{name}: {e}"));
        let after = holdall::open(&target).unwrap();
        assert_eq!(after.attributes().get("license"), Some(&Value::Text("MIT".into())), "{name}");
        let found = diff(&before, &after, &DiffOptions::new()).unwrap();
        assert!(found.changed.is_empty() && found.added.is_empty() && found.removed.is_empty());
        for tensor in before.tensors() {
            for c in tensor.components() {
                let other = after.tensor(tensor.name()).unwrap();
                assert_eq!(tensor.bytes(&c.role).unwrap(), other.bytes(&c.role).unwrap(), "{name}");
            }
        }
    }
    // Without a schema of its own, tensors can be added and removed.
    let target = folder.path().join("made-written_raw.mt");
    let mut edit = Edit::open(&target).unwrap();
    edit.remove("head").unwrap();
    edit.rename("embed", "model.embed").unwrap();
    edit.commit().unwrap();
    let file = holdall::open(&target).unwrap();
    assert!(file.tensor("model.embed").unwrap().bytes(&Role::Data).is_ok());
    // With a schema, it determines the tensors.
    let target = folder.path().join("made-nested.mt");
    let mut edit = Edit::open(&target).unwrap();
    edit.remove("head").unwrap();
    let e = edit.commit().unwrap_err();
    assert_eq!(e.code(), "metatensor/schema-fit", "{e}");
    let mut edit = Edit::open(&target).unwrap();
    edit.remove("head").unwrap();
    edit.unset_attribute("metatensor.schema").unwrap();
    edit.commit().unwrap();
    assert_eq!(holdall::open(&target).unwrap().len(), 4);
}
