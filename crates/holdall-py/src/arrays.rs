//! NumPy's arrays over memory of the native half, made without the Python half where nothing is odd about
//! them.

use crate::dtype;
use crate::memory::Buffer;
use holdall::{DType, LogicalType};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};

/// The most dimensions that an array of any NumPy has.
const MOST_DIMS: usize = 32;

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
    /// Its name.
    pub(crate) name: Bound<'py, PyString>,
    /// NumPy's dtype, where there is one and an array has its elements as a file does.
    numpy: Option<Bound<'py, PyAny>>,
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
                let name = dtype::name(dtype, logical_type);
                let numpy = numpy_dtype(py, dtype, logical_type, &name)?;
                let (name, logical_type) = (PyString::new(py, &name), logical_type.cloned());
                self.0.push(ElementType { dtype, logical_type, name, numpy });
                self.0.len() - 1
            }
        };
        Ok(&self.0[at])
    }
}

impl<'py> ElementType<'py> {
    /// The array of `shape` whose elements start `start` bytes into `buffer`. `None` where the Python half
    /// is to make it, or to say why there is none.
    pub(crate) fn array(
        &self,
        buffer: &Bound<'py, Buffer>,
        start: usize,
        shape: &[u64],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(numpy) = &self.numpy else { return Ok(None) };
        if shape.len() > MOST_DIMS || shape.contains(&0) {
            return Ok(None);
        }
        let py = buffer.py();
        let shape = PyTuple::new(py, shape)?;
        Ok(ndarray(py)?.call1((shape, numpy, buffer, start)).ok())
    }
}

/// NumPy's dtype of elements that arrays have as files do; `None` where there is none.
fn numpy_dtype<'py>(
    py: Python<'py>,
    dtype: DType,
    logical_type: Option<&LogicalType>,
    name: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    static OF_NAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let of_name = OF_NAME.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("holdall._arrays")?.getattr("numpy_dtype")?.unbind())
    })?;
    if width(dtype, logical_type).is_none() {
        return Ok(None);
    }
    // Without ml_dtypes there is none of some types; the Python half says so.
    Ok(of_name.bind(py).call1((name,)).ok())
}

/// Bytes of one element in NumPy's memory; none where several share bytes in a file.
pub(crate) fn width(dtype: DType, logical_type: Option<&LogicalType>) -> Option<u64> {
    let bits = logical_type.map_or(Some(8 * dtype.width()), LogicalType::bits)?;
    bits.is_multiple_of(8).then_some(bits / 8)
}
