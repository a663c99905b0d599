//! Types of elements as NumPy has them, and arrays made without the Python half where nothing is odd about them.

use crate::dtype;
use crate::memory::Buffer;
use crate::numpy;
use holdall::{DType, LogicalType};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

/// `numpy.ndarray`.
pub(crate) fn ndarray(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static NDARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let found = NDARRAY
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("numpy")?.getattr("ndarray")?.unbind()))?;
    Ok(found.bind(py))
}

/// A type of elements, as the Python half and NumPy have it.
pub(crate) struct ElementType<'py> {
    dtype: DType,
    logical_type: Option<LogicalType>,
    /// NumPy's dtype and the bytes of one element, where there is one and an array has its elements as a file does.
    numpy: Option<(Bound<'py, PyAny>, u64)>,
}

/// The types of elements met so far: there are few, and many tensors.
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

    /// Its name.
    pub(crate) fn name(&self, py: Python<'py>) -> Bound<'py, PyString> {
        dtype::py_name(py, self.dtype, self.logical_type.as_ref())
    }

    /// Bytes of one element, where arrays have them as files do.
    pub(crate) fn width(&self) -> Option<u64> {
        self.numpy.as_ref().map(|(_, width)| *width)
    }

    /// The array of `shape` whose elements start `start` bytes into `buffer`. `None` where the Python half
    /// is to make it, or to say why there is none.
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

/// NumPy's dtype of elements that arrays have as files do, and its width; `None` where there is none, or none was asked
/// for yet.
///
/// It is only looked up: the Python half imports what knows it. Nothing written in Python runs below frames of this crate,
/// because Python ends a daemon thread there when the interpreter ends, and the process would be aborted.
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

/// Bytes of one element in NumPy's memory; none where several share bytes in a file.
pub(crate) fn width(dtype: DType, logical_type: Option<&LogicalType>) -> Option<u64> {
    let bits = logical_type.map_or(Some(8 * dtype.width()), LogicalType::bits)?;
    bits.is_multiple_of(8).then_some(bits / 8)
}
