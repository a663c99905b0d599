//! Inputs and outputs of models, for which the Python half has arrays.
//!
//! A tensor is a tuple of its element type, its shape, and a buffer or a list of strings; a
//! nested tensor is a list of such tuples.

use crate::errors::{Raise, misuse};
use crate::memory::{BorrowedBuffer, Buffer};
use bytes::Bytes;
use holdall::carton::{TensorValue, ValueType};
use holdall_run::NamedValues;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// Converts a value for the Python half.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &TensorValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        TensorValue::Numbers { ty, shape, data } => {
            let shape = PyTuple::new(py, shape)?;
            let buffer = Buffer::frozen(data.clone());
            Ok((ty.as_str(), shape, buffer).into_pyobject(py)?.into_any())
        }
        TensorValue::Strings { shape, data } => {
            let shape = PyTuple::new(py, shape)?;
            let texts = PyList::new(py, data)?;
            Ok((ValueType::String.as_str(), shape, texts).into_pyobject(py)?.into_any())
        }
        TensorValue::Nested(inner) => {
            let out = PyList::empty(py);
            for value in inner {
                out.append(to_python(py, value)?)?;
            }
            Ok(out.into_any())
        }
    }
}

/// Converts values by name, in their order.
pub(crate) fn named<'py>(py: Python<'py>, all: &NamedValues) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (name, value) in all {
        out.set_item(name, to_python(py, value)?)?;
    }
    Ok(out)
}

/// Converts a value from the Python half. Its bytes are copied, since other code may write to
/// them.
pub(crate) fn from_python(object: &Bound<'_, PyAny>) -> PyResult<TensorValue> {
    let py = object.py();
    if let Ok(inner) = object.cast::<PyList>() {
        let values = inner.iter().map(|value| tensor(&value)).collect::<PyResult<_>>()?;
        return TensorValue::nested(values).raise(py);
    }
    tensor(object)
}

fn tensor(object: &Bound<'_, PyAny>) -> PyResult<TensorValue> {
    let py = object.py();
    let (ty, shape, data): (String, Vec<u64>, Bound<'_, PyAny>) = object.extract()?;
    match ty_of(py, &ty)? {
        ValueType::String => TensorValue::strings(shape, data.extract()?),
        ty => {
            let bytes = Bytes::copy_from_slice(BorrowedBuffer::from_object(&data)?.bytes());
            TensorValue::numbers(ty, shape, bytes)
        }
    }
    .raise(py)
}

/// Parses an element type.
pub(crate) fn ty_of(py: Python<'_>, name: &str) -> PyResult<ValueType> {
    ValueType::by_name(name).ok_or_else(|| {
        let message = format!("packages have no elements of {name:?}");
        let known: Vec<_> = ValueType::ALL.iter().map(|ty| ty.as_str()).collect();
        misuse(py, "python/dtype", &message, Some(&format!("there are {}", known.join(", "))))
    })
}
