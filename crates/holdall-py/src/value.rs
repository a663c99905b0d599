//! Lossless conversion of attributes to Python values and back.

use crate::errors::misuse;
use holdall::{Attributes, Value};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};

/// The maximum nesting of values from Python.
const MAX_DEPTH: usize = 100;
/// CBOR's simple value for undefined, which is a separate variant of `Value`.
const UNDEFINED: u8 = 23;

/// Converts attributes to a dict in the file's order.
pub(crate) fn attributes<'py>(py: Python<'py>, from: &Attributes) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (key, value) in from.iter() {
        out.set_item(key, to_python(py, value)?)?;
    }
    Ok(out)
}

/// Converts a value. Null is `None`, a tagged value is a `holdall.Tag`, a simple value is a
/// `holdall.Simple`.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Undefined => simple(py)?.call1((UNDEFINED,))?,
        Value::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::Integer(i) => i.into_pyobject(py)?.into_any(),
        Value::Float(x) => PyFloat::new(py, *x).into_any(),
        Value::Bytes(b) => PyBytes::new(py, b).into_any(),
        Value::Text(s) => PyString::new(py, s).into_any(),
        Value::Array(items) => {
            let out = PyList::empty(py);
            for item in items {
                out.append(to_python(py, item)?)?;
            }
            out.into_any()
        }
        Value::Map(pairs) => {
            let out = PyDict::new(py);
            for (key, value) in pairs {
                out.set_item(key_to_python(py, key)?, to_python(py, value)?)?;
            }
            out.into_any()
        }
        Value::Tag(tag, value) => tagged(py)?.call1((*tag, to_python(py, value)?))?,
        Value::Simple(n) => simple(py)?.call1((*n,))?,
        other => PyString::new(py, &other.to_json()).into_any(),
    })
}

/// Converts a key of a map: lists become tuples, because keys must be hashable.
fn key_to_python<'py>(py: Python<'py>, key: &Value) -> PyResult<Bound<'py, PyAny>> {
    let all = |items: &mut dyn Iterator<Item = PyResult<Bound<'py, PyAny>>>| {
        let items = items.collect::<PyResult<Vec<_>>>()?;
        Ok::<_, PyErr>(PyTuple::new(py, items)?.into_any())
    };
    match key {
        Value::Array(items) => all(&mut items.iter().map(|item| key_to_python(py, item))),
        Value::Map(pairs) => all(&mut pairs.iter().map(|(k, v)| {
            let pair = [key_to_python(py, k)?, key_to_python(py, v)?];
            Ok(PyTuple::new(py, pair)?.into_any())
        })),
        Value::Tag(tag, value) => tagged(py)?.call1((*tag, key_to_python(py, value)?)),
        other => to_python(py, other),
    }
}

/// Converts a mapping with text keys to attributes.
pub(crate) fn from_mapping(from: &Bound<'_, PyAny>) -> PyResult<Attributes> {
    let mapping = from.cast::<PyMapping>().map_err(|_| unsuitable(from, "attributes"))?;
    let mut pairs = Vec::new();
    for item in mapping.items()?.iter() {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let key =
            key.cast::<PyString>().map_err(|_| unsuitable(&key, "the key of an attribute"))?;
        pairs.push((key.to_str()?.to_owned(), from_python(&value, 0)?));
    }
    Ok(pairs.into_iter().collect())
}

/// Converts a Python value. `depth` is the number of values around it.
pub(crate) fn from_python(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let py = value.py();
    if depth > MAX_DEPTH {
        let message = format!("an attribute is nested deeper than {MAX_DEPTH} levels");
        return Err(misuse(py, "python/attribute", &message, None));
    }
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(b) = value.cast::<PyBool>() {
        return Ok(Value::Bool(b.is_true()));
    }
    if value.is_instance(tagged(py)?)? {
        let (tag, inner): (u64, Bound<'_, PyAny>) = value.extract()?;
        return Ok(Value::Tag(tag, Box::new(from_python(&inner, depth + 1)?)));
    }
    if value.is_instance(simple(py)?)? {
        let (number,): (u8,) = value.extract()?;
        return Ok(if number == UNDEFINED { Value::Undefined } else { Value::Simple(number) });
    }
    if value.is_instance_of::<PyInt>() {
        let range = -(1i128 << 64)..1i128 << 64;
        return match value.extract::<i128>() {
            Ok(i) if range.contains(&i) => Ok(Value::Integer(i)),
            _ => {
                let message = "an integer of an attribute lies in -2**64..2**64";
                Err(misuse(py, "python/attribute", message, None))
            }
        };
    }
    if let Ok(x) = value.cast::<PyFloat>() {
        return Ok(Value::Float(x.value()));
    }
    if let Ok(s) = value.cast::<PyString>() {
        return Ok(Value::Text(s.to_str()?.to_owned()));
    }
    if let Ok(b) = value.cast::<PyBytes>() {
        return Ok(Value::Bytes(b.as_bytes().to_vec()));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| from_python(&item?, depth + 1));
        return Ok(Value::Array(items.collect::<PyResult<_>>()?));
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let mut pairs = Vec::new();
        for item in mapping.items()?.iter() {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            pairs.push((from_python(&key, depth + 1)?, from_python(&value, depth + 1)?));
        }
        return Ok(Value::Map(pairs));
    }
    // NumPy scalars.
    if value.hasattr("dtype")? && value.hasattr("item")? {
        let plain = value.call_method0("item")?;
        if !plain.is_instance(&value.get_type())? {
            return from_python(&plain, depth + 1);
        }
    }
    Err(unsuitable(value, "the value of an attribute"))
}

#[cold]
fn unsuitable(value: &Bound<'_, PyAny>, what: &str) -> PyErr {
    let name = value.get_type().name().map_or_else(|_| "?".to_owned(), |n| n.to_string());
    let hint = "None, bool, int, float, str, bytes, lists and dicts of these, Tag, Simple";
    let message = format!("{what} cannot be of type {name}");
    misuse(value.py(), "python/attribute", &message, Some(hint))
}

fn tagged(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    class(py, &CLASS, "Tag")
}

fn simple(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    class(py, &CLASS, "Simple")
}

fn class<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    let found = cell.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("holdall._values")?.getattr(name)?.unbind())
    })?;
    Ok(found.bind(py))
}
