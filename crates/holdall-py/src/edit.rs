//! Editing files: the changes that `holdall edit` makes.

use crate::errors::{Raise, misuse};
use crate::file::NativeFile;
use crate::options::{self, Writing};
use crate::work::{run, run_with};
use crate::{plain, value};
use holdall::plain::ToPlain as _;
use holdall::{Edit, Rename, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Pending changes to a model.
#[pyclass(frozen, name = "Edit", module = "holdall._holdall")]
pub(crate) struct NativeEdit(Mutex<Option<Edit>>);

impl NativeEdit {
    /// Makes a change.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut Edit) -> Result<T> + Send,
    ) -> PyResult<T> {
        let mut edit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match edit.as_mut() {
            Some(edit) => py.detach(|| change(edit)).raise(py),
            None => Err(ended(py)),
        }
    }
}

#[cold]
fn ended(py: Python<'_>) -> PyErr {
    misuse(py, "python/closed", "the edit has ended", None)
}

#[pymethods]
impl NativeEdit {
    /// Starts an edit of the model at a path.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        check: &str,
        limits: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<NativeEdit> {
        let options = options::open(py, "auto", check, limits)?;
        let edit = run(py, u64::MAX, |_| Edit::open_with(&path, &options))?;
        Ok(NativeEdit(Mutex::new(Some(edit))))
    }

    /// Adds tensors of another open file, and returns their number.
    fn append(
        &self,
        py: Python<'_>,
        other: &NativeFile,
        include: Option<Vec<String>>,
        exclude: Option<Vec<String>>,
        rename: Vec<String>,
        replace: bool,
    ) -> PyResult<usize> {
        let other = other.get(py)?;
        let select = options::select(py, include, exclude)?;
        self.with(py, |edit| {
            let tensors = select.tensors(&other)?;
            edit.append_all(&tensors, &rules(&rename)?, replace)?;
            Ok(tensors.len())
        })
    }

    /// Replaces a tensor by the tensor of that name of another open file; it keeps its attributes.
    fn replace(&self, py: Python<'_>, name: &str, other: &NativeFile) -> PyResult<()> {
        let other = other.get(py)?;
        self.with(py, |edit| {
            let old = edit.file().tensor(name)?;
            let new = other.tensor(name)?;
            edit.remove(name)?;
            edit.append(&new, name)?;
            for (key, value) in old.attributes().iter() {
                edit.set_tensor_attribute(name, key, value.clone())?;
            }
            Ok(())
        })
    }

    /// Removes the tensors that match patterns, and returns their number.
    fn remove(&self, py: Python<'_>, patterns: Vec<String>) -> PyResult<usize> {
        let select = options::select(py, Some(patterns), None)?;
        self.with(py, |edit| edit.remove_all(&select))
    }

    /// Renames tensors by rules, and returns their number.
    fn rename(&self, py: Python<'_>, all: Vec<String>) -> PyResult<usize> {
        self.with(py, |edit| edit.rename_all(&rules(&all)?))
    }

    /// Sets attributes of the file, or of a tensor.
    fn set(
        &self,
        py: Python<'_>,
        attributes: &Bound<'_, PyAny>,
        tensor: Option<&str>,
    ) -> PyResult<()> {
        let attributes = value::from_mapping(attributes)?;
        self.with(py, |edit| {
            for (key, value) in attributes.iter() {
                match tensor {
                    Some(tensor) => edit.set_tensor_attribute(tensor, key, value.clone())?,
                    None => edit.set_attribute(key, value.clone()),
                }
            }
            Ok(())
        })
    }

    /// Removes attributes of the file, or of a tensor.
    fn unset(&self, py: Python<'_>, keys: Vec<String>, tensor: Option<&str>) -> PyResult<()> {
        self.with(py, |edit| {
            for key in &keys {
                match tensor {
                    Some(tensor) => edit.unset_tensor_attribute(tensor, key)?,
                    None => edit.unset_attribute(key)?,
                }
            }
            Ok(())
        })
    }

    /// Makes all changes, and returns the report.
    fn commit<'py>(
        &self,
        py: Python<'py>,
        writing: Writing<'py>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let edit = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let edit = edit.ok_or_else(|| ended(py))?;
        let (write, threads) = (writing.options(py)?, writing.threads);
        let report = run_with(py, u64::MAX, threads, progress, |work| {
            edit.with_write(write.with_work(work)).commit()
        })?;
        plain::to_python(py, report.to_plain())
    }

    /// Drops the changes.
    fn discard(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn rules(all: &[String]) -> Result<Vec<Rename>> {
    all.iter().map(|rule| Rename::new(rule)).collect()
}

/// Rewrites a model without unused bytes.
#[pyfunction]
pub(crate) fn compact<'py>(
    py: Python<'py>,
    path: PathBuf,
    check: &str,
    limits: Option<&Bound<'py, PyDict>>,
    writing: Writing<'py>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = options::open(py, "auto", check, limits)?;
    let (write, threads) = (writing.options(py)?, writing.threads);
    let report = run_with(py, u64::MAX, threads, progress, |work| {
        holdall::compact_with(&path, write.with_work(work), &options)
    })?;
    plain::to_python(py, report.to_plain())
}
