//! Files under another schema: rewriting them, reading them through a view, and planning a
//! migration.

use crate::errors::Raise;
use crate::file::NativeFile;
use crate::options::Writing;
use crate::plain;
use crate::schemas::{FirstException, Given, Own, document, first_of};
use crate::work::{run_apart, run_with};
use holdall::error::io;
use holdall::json::parse;
use holdall::records::{Conversion, ConverterInput, Migration};
use holdall::schema::{Document, Reading};
use holdall::{Limits, Result};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// A converter: names of built-in converters, or a function of a value's JSON text and one of a
/// tensor by its index.
type By = (Option<String>, Option<(Py<PyAny>, Py<PyAny>)>);

/// The changes to the contents of a file, from keywords of the Python half.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Evolution {
    path: Option<String>,
    renames: Vec<(String, String)>,
    converters: Vec<(String, By)>,
    drop: bool,
}

impl Evolution {
    fn migration(self, py: Python<'_>, schema: Document) -> PyResult<Migration> {
        let mut migration = Migration::new(schema);
        if let Some(path) = self.path {
            migration = migration.with_dataset(path);
        }
        for (new, old) in self.renames {
            migration = migration.with_rename(new, old);
        }
        for (path, by) in self.converters {
            let conversion = match by {
                (Some(names), _) => names.parse().raise(py)?,
                (None, Some((values, tensors))) => functions(values, tensors),
                (None, None) => Conversion::default(),
            };
            migration = migration.with_converter(path, conversion);
        }
        Ok(if self.drop { migration.with_drop() } else { migration })
    }
}

/// Wraps an exception of a Python function, to be raised again in Python.
fn raised(e: PyErr) -> holdall::Error {
    io(std::io::Error::other(e), "calling a converter")
}

fn functions(values: Py<PyAny>, tensors: Py<PyAny>) -> Conversion {
    let by_value = Conversion::values(move |value| {
        let made = Python::attach(|py| -> PyResult<String> {
            values.call1(py, (value.to_string(),))?.extract(py)
        });
        parse(made.map_err(raised)?.as_bytes(), Limits::default().schema_limits().depth)
    });
    by_value.with_tensor_function(move |part: ConverterInput<'_>| -> Result<Vec<u8>> {
        let data = part.target.components.first();
        let dtype = data.map(|c| crate::dtype::name(c.dtype, c.logical_type.as_ref()));
        let name = part.tensor.name();
        let made = Python::attach(|py| -> PyResult<PyBackedBytes> {
            Ok(tensors.call1(py, (name, dtype, part.target.shape.clone()))?.extract(py)?)
        });
        Ok(made.map_err(raised)?.to_vec())
    })
}

/// Writes a file under another schema.
#[pyfunction]
#[pyo3(signature = (file, schema, to, evolution, own, writing, progress))]
#[allow(clippy::too_many_arguments)] // Keywords of one Python function.
pub(crate) fn schema_migrate<'py>(
    py: Python<'py>,
    file: &NativeFile,
    schema: Given<'py>,
    to: PathBuf,
    evolution: Evolution,
    own: Own,
    writing: Writing<'py>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let file = file.get(py)?;
    let options = writing.options(py)?;
    let raised = FirstException::default();
    let schema = document(py, &schema, Reading::ByContent)?;
    let schema = schema.with_vocabulary(own.vocabulary(&raised)).raise(py)?;
    let migration = evolution.migration(py, schema)?;
    let report = run_with(py, u64::MAX, writing.threads, progress, |work| {
        let options = options.with_work(work.clone());
        migration.with_work(work).run(&file, to, &options)
    });
    let report = first_of(&raised).map_or(report, Err)?;
    let d = PyDict::new(py);
    d.set_item("records", report.records)?;
    d.set_item("tensors", report.tensors)?;
    d.set_item("dropped", report.dropped)?;
    d.set_item("left_behind", report.left_behind)?;
    d.set_item("nbytes", report.target_len)?;
    Ok(d)
}

/// Returns the steps of that migration.
#[pyfunction]
#[pyo3(signature = (file, schema, evolution))]
pub(crate) fn schema_plan<'py>(
    py: Python<'py>,
    file: &NativeFile,
    schema: Given<'py>,
    evolution: Evolution,
) -> PyResult<Bound<'py, PyAny>> {
    let file = file.get(py)?;
    let migration = evolution.migration(py, document(py, &schema, Reading::ByContent)?)?;
    let plan = py.detach(|| migration.plan(&file)).raise(py)?;
    plain::to_python(py, &plan)
}

/// Returns a file as read with another schema.
#[pyfunction]
#[pyo3(signature = (file, schema, evolution))]
pub(crate) fn schema_view(
    py: Python<'_>,
    file: &NativeFile,
    schema: Given<'_>,
    evolution: Evolution,
) -> PyResult<NativeFile> {
    let file = file.get(py)?;
    let migration = evolution.migration(py, document(py, &schema, Reading::ByContent)?)?;
    run_apart(py, u64::MAX, move || migration.view(&file)).map(NativeFile::new)
}
