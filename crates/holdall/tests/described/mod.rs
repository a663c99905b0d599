//! Files of other writers, each with a description of its contents; and files made to break a rule.
#![allow(dead_code)] // Each test file uses its own part.

use holdall::layout::Dense;
use holdall::{Algorithm, Component, ErrorKind, File, OpenOptions, Result};
use holdall_core::model::Hasher;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

/// Returns the folder of accepted files of a format.
pub(crate) fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept").join(format)
}

/// Returns the described files, each with its tensors.
pub(crate) fn files(format: &str) -> Vec<(PathBuf, Vec<Json>)> {
    let paths = folder(format).read_dir().unwrap().map(|entry| entry.unwrap().path());
    let described = |path: PathBuf| {
        let text = std::fs::read(format!("{}.expect.json", path.display())).ok()?;
        let expected: Json = serde_json::from_slice(&text).unwrap();
        Some((path, expected["tensors"].as_array().unwrap().clone()))
    };
    paths.filter_map(described).collect()
}

/// Returns the SHA-256 of bytes, in hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(bytes);
    hasher.finish().to_string().trim_start_matches("sha256:").to_owned()
}

/// Returns the name of the element type of a component.
pub(crate) fn dtype(c: &Component) -> String {
    match &c.logical_type {
        Some(t) => t.as_str().to_owned(),
        None => c.dtype.to_string(),
    }
}

/// Compares elements with their description: type, shape, and the SHA-256 of the bytes.
pub(crate) fn compare(dense: &Dense, expected: &Json, sum: &Json, place: &str) {
    let dtype = match dense.logical_type() {
        Some(t) => t.as_str().to_owned(),
        None => dense.dtype().to_string(),
    };
    assert_eq!(dtype, expected["dtype"], "{place}");
    assert_eq!(serde_json::json!(dense.shape()), expected["shape"], "{place}");
    assert_eq!(hex(dense.bytes()), *sum, "{place}");
}

/// Opens a file of these bytes.
pub(crate) fn open(bytes: Vec<u8>) -> Result<File> {
    OpenOptions::new().open_bytes(bytes, "made")
}

/// Returns the code of the rule that the bytes break when opened or loaded; empty if they are sound.
pub(crate) fn code(bytes: Vec<u8>) -> &'static str {
    match open(bytes).and_then(|file| file.load_all().map(drop)) {
        Ok(()) => "",
        Err(e) => {
            assert_ne!(e.kind(), ErrorKind::Io, "{e}");
            e.code()
        }
    }
}

/// Checks that each of these breaks the rule with which its name begins.
pub(crate) fn all_fail(rejects: Vec<(&str, Vec<u8>)>) {
    for (what, bytes) in rejects {
        let mut parts = what.split('.');
        let wanted = format!("{}/{}", parts.next().unwrap(), parts.next().unwrap());
        assert_eq!(code(bytes), wanted, "{what}");
    }
}
