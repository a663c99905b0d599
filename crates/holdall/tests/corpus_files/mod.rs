//! The files of the corpus, and their errors.
#![allow(dead_code)] // Each test file uses some of it.

use holdall::{Error, File, Io, OpenOptions, Tensor, VerifyOptions, Work, verify};
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

/// Returns the files in the folders of `corpus/<kind>` that are not descriptions of others, sorted.
pub(crate) fn files(kind: &str) -> Vec<PathBuf> {
    let folders =
        root().join(kind).read_dir().expect("the corpus is there").map(|f| f.unwrap().path());
    let mut all: Vec<PathBuf> = folders
        .flat_map(|folder| folder.read_dir().unwrap().map(|f| f.unwrap().path()))
        .filter(|path| path.extension().is_none_or(|e| e != "json"))
        .collect();
    all.sort();
    assert!(all.len() > 10, "the corpus is missing");
    all
}

/// Returns the code in the name of a file of `corpus/reject`: `area.what.case.zt` breaks `area/what`.
pub(crate) fn code_of(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut parts = name.split('.');
    format!("{}/{}", parts.next().unwrap(), parts.next().unwrap())
}

/// Returns the first error of opening a file, of verifying it, or of making each of its tensors dense.
pub(crate) fn error_of(path: &Path, io: Io) -> Option<Error> {
    let file = match OpenOptions::new().with_io(io).open(path) {
        Ok(file) => file,
        Err(e) => return Some(e),
    };
    error_in(&file)
}

/// The same for an open file.
pub(crate) fn error_in(file: &File) -> Option<Error> {
    let report = match verify(file, &VerifyOptions::new().with_work(Work::new().with_threads(2))) {
        Ok(report) => report,
        Err(e) => return Some(e),
    };
    if let Some(e) = report.findings.into_iter().next() {
        return Some(e);
    }
    let dense = |tensor: Tensor| tensor.to_dense().err();
    let is_fault = |e: &Error| !matches!(e.code(), "file/wrong-layout" | "file/unknown-layout");
    file.tensors().find_map(|t| dense(t).filter(is_fault))
}
