//! Functions of folders, archives and damaged files.

use crate::errors::Raise;
use crate::options::Writing;
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
use crate::work::run;
use crate::work::run_with;
use crate::{options, plain};
use holdall::{Limits, ModelFolder};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Recovers the intact parts of a damaged file.
#[pyfunction]
#[pyo3(signature = (path, target, io, limits, writing, progress))]
pub(crate) fn salvage<'py>(
    py: Python<'py>,
    path: PathBuf,
    target: PathBuf,
    io: &str,
    limits: Option<&Bound<'py, PyDict>>,
    writing: Writing<'py>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = options::open(py, io, "fast", limits)?;
    let (write, threads) = (writing.options(py)?, writing.threads);
    let report = run_with(py, u64::MAX, threads, progress, |work| {
        holdall::salvage(&path, &target, write.with_work(work), &options)
    })?;
    plain::to_python(py, &report)
}

/// Describes the other files in a model's folder besides its tensors; `None` if the path is not such a folder.
#[pyfunction]
pub(crate) fn model_folder(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    match ModelFolder::detect(path, &Limits::default()).raise(py)? {
        Some(folder) => plain::to_python(py, &folder),
        None => Ok(py.None().into_bound(py)),
    }
}

/// Lists the files in an archive.
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
#[pyfunction]
pub(crate) fn contents(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let options = options::open(py, "auto", "fast", None)?;
    let found = run(py, u64::MAX, |_| {
        let (source, name) = options.unchecked_source_at(&holdall::Location::new(&path))?;
        holdall::archive::contents(source, &name, options.limits())
    })?;
    plain::to_python(py, &found)
}

/// Scans pickles in a file or folder for imports.
#[cfg(feature = "pytorch")]
#[pyfunction]
#[pyo3(signature = (path, io, limits, progress))]
pub(crate) fn scan<'py>(
    py: Python<'py>,
    path: PathBuf,
    io: &str,
    limits: Option<&Bound<'py, PyDict>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = options::open(py, io, "fast", limits)?;
    let report =
        run_with(py, u64::MAX, None, progress, |work| holdall::scan(&path, &options, &work))?;
    plain::to_python(py, &report)
}
