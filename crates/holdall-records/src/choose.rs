//! Chooses a tensor of a file by its path, or the only suitable one if no path is given.

use super::rules::WHICH_DATASET;
use holdall_core::error::Escape as _;
use holdall_core::{Layout, Result};
use holdall_io::{File, Tensor};

/// Returns the tensor at `path`, or the only dataset of the file if `path` is `None`.
///
/// # Errors
/// Returns `file/no-tensor` if the file has no tensor at `path`, `records/which-dataset` if there is no dataset or more
/// than one.
pub fn dataset(file: &File, path: Option<&str>) -> Result<Tensor> {
    only(file, path, "dataset of records", |layout| matches!(layout, Layout::Records))
}

/// Returns the tensor at `path`, or the only dataset or blob of the file if `path` is `None`.
///
/// # Errors
/// Returns the same errors as [`dataset`].
pub fn dataset_or_blob(file: &File, path: Option<&str>) -> Result<Tensor> {
    let is = |layout: &Layout| matches!(layout, Layout::Records | Layout::Blob);
    only(file, path, "dataset of records or blob", is)
}

fn only(
    file: &File,
    path: Option<&str>,
    what: &str,
    is: impl Fn(&Layout) -> bool,
) -> Result<Tensor> {
    if let Some(path) = path {
        return file.tensor(path);
    }
    let mut all = file.tensors().filter(|tensor| is(tensor.layout()));
    let e = match (all.next(), all.next()) {
        (Some(only), None) => return Ok(only),
        (None, _) => WHICH_DATASET.broken(format!("the file has no {what}")),
        (Some(first), Some(second)) => {
            let more = all.take(6);
            let names = [first, second].into_iter().chain(more);
            let names: Vec<String> =
                names.map(|tensor| format!("`{}`", tensor.name().escaped())).collect();
            let e = WHICH_DATASET.broken(format!("the file has more than one {what}"));
            e.with_hint(format!("name one of them: {}", names.join(", ")))
        }
    };
    Err(e.in_source(file.name()))
}
