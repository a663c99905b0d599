//! NumPy's types of elements, and arrays that are created without the Python half in the common
//! cases.

use crate::dtype;
use crate::memory::Buffer;
use crate::numpy;
use holdall::{DType, LogicalType};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

/// Returns the type `numpy.ndarray`.
pub(crate) fn ndarray(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static NDARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let found = NDARRAY
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("numpy")?.getattr("ndarray")?.unbind()))?;
    Ok(found.bind(py))
}

/// A type of elements, with its names in the Python half and in NumPy.
pub(crate) struct ElementType<'py> {
    dtype: DType,
    logical_type: Option<LogicalType>,
    /// NumPy's dtype and the bytes per element, if known and if arrays have the same memory
    /// layout as files.
    numpy: Option<(Bound<'py, PyAny>, u64)>,
}

/// The types of elements seen so far: usually few, for many tensors.
pub(crate) struct ElementTypes<'py>(Vec<ElementType<'py>>);

impl<'py> ElementTypes<'py> {
    pub(crate) fn new() -> ElementTypes<'py> {
        ElementTypes(Vec::new())
    }

    pub(crate) fn get(
        &mut self,
        py: Python<'py>,
        dtype: DType,
        logical_type: Option<&LogicalType>,
    ) -> PyResult<&ElementType<'py>> {
        let known =
            |e: &ElementType<'_>| e.dtype == dtype && e.logical_type.as_ref() == logical_type;
        let at = match self.0.iter().position(known) {
            Some(at) => at,
            None => {
                self.0.push(ElementType::from_dtype(py, dtype, logical_type)?);
                self.0.len() - 1
            }
        };
        Ok(&self.0[at])
    }
}

impl<'py> ElementType<'py> {
    pub(crate) fn from_dtype(
        py: Python<'py>,
        dtype: DType,
        logical_type: Option<&LogicalType>,
    ) -> PyResult<ElementType<'py>> {
        let numpy = numpy_dtype(py, dtype, logical_type)?;
        Ok(ElementType { dtype, logical_type: logical_type.cloned(), numpy })
    }

    /// Returns its name.
    pub(crate) fn name(&self, py: Python<'py>) -> Bound<'py, PyString> {
        dtype::py_name(py, self.dtype, self.logical_type.as_ref())
    }

    /// Returns the bytes per element, if arrays have the same memory layout as files.
    pub(crate) fn width(&self) -> Option<u64> {
        self.numpy.as_ref().map(|(_, width)| *width)
    }

    /// Returns the array of `shape` whose elements start `start` bytes into `buffer`; `None` if
    /// the Python half must create it, or raise an error.
    pub(crate) fn array(
        &self,
        buffer: &Bound<'py, Buffer>,
        start: usize,
        shape: &[u64],
    ) -> Option<Bound<'py, PyAny>> {
        let (dtype, width) = self.numpy.as_ref()?;
        if shape.contains(&0) {
            return None;
        }
        numpy::array(buffer, start, shape, dtype, *width)
    }
}

/// Returns NumPy's dtype and its width for elements with the same memory layout in arrays and
/// files; `None` for other elements, or if the dtype was not requested yet.
///
/// It is only looked up: the Python half imports NumPy and ml_dtypes. No Python code runs below
/// frames of this crate, because Python ends daemon threads there when the interpreter ends,
/// which would abort the process.
fn numpy_dtype<'py>(
    py: Python<'py>,
    dtype: DType,
    logical_type: Option<&LogicalType>,
) -> PyResult<Option<(Bound<'py, PyAny>, u64)>> {
    static KNOWN: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let Some(width) = width(dtype, logical_type) else { return Ok(None) };
    let known = KNOWN.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("holdall._arrays")?.getattr("DTYPES")?.cast_into()?.unbind())
    })?;
    match known.bind(py).get_item(dtype::py_name(py, dtype, logical_type))? {
        Some(found) if found.getattr("itemsize")?.extract::<u64>()? == width => {
            Ok(Some((found, width)))
        }
        _ => Ok(None),
    }
}

/// Returns the bytes per element in NumPy's memory; `None` if elements share bytes in a file.
pub(crate) fn width(dtype: DType, logical_type: Option<&LogicalType>) -> Option<u64> {
    let bits = logical_type.map_or(Some(8 * dtype.width()), LogicalType::bits)?;
    bits.is_multiple_of(8).then_some(bits / 8)
}
