//! Attributes that say which values of Python tensors were written for: `docs/spec/values.md`.

use crate::file::NativeFile;
use crate::value;
use holdall::{Attributes, Value, npy};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The attribute that names a type of ml_dtypes.
const DTYPE: &str = "numpy.dtype";
/// The prefixes of the names of these attributes; the last one is of arrays whose elements are not
/// stored in row-major order.
const PREFIXES: [&str; 5] = ["numpy.", "scipy.", "torch.layout", "torch.block", "strides"];

/// Returns NumPy's type of a tensor whose elements are stored as numbers of another type.
pub(crate) fn descr(attributes: &Attributes) -> Option<&str> {
    let found = attributes.get(npy::DESCR_KEYWORD).or_else(|| attributes.get(DTYPE));
    found.and_then(Value::as_text)
}

/// Returns the index of each tensor that has such attributes, and these attributes.
#[pyfunction]
pub(crate) fn noted<'py>(
    py: Python<'py>,
    file: &NativeFile,
) -> PyResult<Vec<(usize, Bound<'py, PyDict>)>> {
    let file = file.get(py)?;
    let mut out = Vec::new();
    for tensor in file.index().tensors() {
        let mut found: Option<Bound<'py, PyDict>> = None;
        for (key, value) in tensor.attributes().iter() {
            if PREFIXES.iter().any(|prefix| key.starts_with(prefix)) {
                let dict = found.get_or_insert_with(|| PyDict::new(py));
                dict.set_item(key, value::to_python(py, value)?)?;
            }
        }
        if let Some(found) = found {
            out.push((tensor.position(), found));
        }
    }
    Ok(out)
}

/// Returns an attribute of the file; `None` if it has none of that name.
#[pyfunction]
pub(crate) fn file_attribute<'py>(
    py: Python<'py>,
    file: &NativeFile,
    key: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let file = file.get(py)?;
    file.attributes().get(key).map(|value| value::to_python(py, value)).transpose()
}
