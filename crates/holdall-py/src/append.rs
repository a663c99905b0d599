//! Rows that are added to a dataset.

use crate::file::NativeFile;
use crate::options::Writing;
use crate::schemas::{Filling, Given, Source};
use crate::work::run_with;
use holdall::records::Append;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Writes a file with further rows in one of its datasets.
#[pyfunction]
#[pyo3(signature = (file, source, form, to, path, filling, writing, progress))]
#[allow(clippy::too_many_arguments)] // Keywords of one Python function.
pub(crate) fn append<'py>(
    py: Python<'py>,
    file: &NativeFile,
    source: Given<'py>,
    form: Option<&str>,
    to: PathBuf,
    path: Option<String>,
    filling: Filling,
    writing: Writing<'py>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let file = file.get(py)?;
    let options = writing.options(py)?;
    let source = Source::from_given(py, &source, form)?;
    let mut append = Append::new().with_filling(filling.options());
    if let Some(path) = path {
        append = append.with_dataset(path);
    }
    if writing.chooses_encoding() {
        append = append.reencode();
    }
    let report = run_with(py, u64::MAX, writing.threads, progress, |work| {
        let options = options.with_work(work.clone());
        let rows = source.rows(work.clone())?;
        append.with_work(work).run(&file, rows, to, &options)
    })?;
    let d = PyDict::new(py);
    d.set_item("dataset", report.dataset)?;
    d.set_item("records", report.records)?;
    d.set_item("added", report.added)?;
    d.set_item("nbytes", report.target_len)?;
    d.set_item("left_behind", report.left_behind)?;
    Ok(d)
}
