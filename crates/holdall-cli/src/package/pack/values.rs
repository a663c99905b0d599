//! Tensors for self-tests and examples, as users bring them.

use crate::exit::LENGTH;
use crate::model::given;
use holdall::carton::TensorValue;
use holdall::{Error, Result};
use std::path::{Path, PathBuf};

/// `NAME=FILE`.
pub(super) fn pair(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=FILE, as `x=x.npy`")?;
    Ok((name.to_owned(), path.into()))
}

/// The tensor in an `.npy` or `.json` file.
pub(super) fn read(path: &Path) -> Result<TensorValue> {
    let failed = |e: std::io::Error| holdall::error::io(e, "opening");
    let read = || {
        let bytes = std::fs::read(path).map_err(failed)?;
        if !path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) {
            return given::of_npy(&bytes);
        }
        let json = serde_json::from_slice(&bytes)
            .map_err(|e| LENGTH.broken("this is not JSON").because(e))?;
        given::of_json(&json, None)
    };
    read().map_err(|e: Error| e.in_source(path.display()))
}
