//! Reports of the library as Python values, for which the Python half has classes.

use crate::errors::raise;
use crate::value;
use holdall::plain::Plain;
use holdall::{DType, ElementType, LogicalType, Number};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyList, PyString};

/// Converts a report: objects become dicts with the same names, errors become exceptions,
/// attributes and elements are converted as elsewhere.
fn plain_to_python<'py>(py: Python<'py>, plain: &Plain<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match plain {
        Plain::Null => py.None().into_bound(py),
        Plain::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Plain::Integer(n) | Plain::Number(Number::Integer(n)) => n.into_pyobject(py)?.into_any(),
        Plain::Float(x) | Plain::Number(Number::Float(x)) => PyFloat::new(py, *x).into_any(),
        Plain::Number(Number::Complex(re, im)) => PyComplex::from_doubles(py, *re, *im).into_any(),
        Plain::Number(other) => PyFloat::new(py, other.to_f64()).into_any(),
        Plain::Text(s) => PyString::new(py, s).into_any(),
        Plain::List(all) => {
            let out = PyList::empty(py);
            for one in all {
                out.append(plain_to_python(py, one)?)?;
            }
            out.into_any()
        }
        Plain::Object(fields) => {
            let out = PyDict::new(py);
            for (name, value) in fields {
                out.set_item(&**name, plain_to_python(py, value)?)?;
            }
            out.into_any()
        }
        Plain::Value(v) => value::to_python(py, v)?,
        Plain::Attributes(all) => value::attributes(py, all)?.into_any(),
        Plain::Error(e) => raise(py, e).into_value(py).into_bound(py).into_any(),
        other => {
            PyString::new(py, &other.to_json(|e| e.advice(crate::remedies::spelled))).into_any()
        }
    })
}

/// Returns an element type as in reports: `f32`, `f8_e4m3fn`, `u8 (q7_x)`.
#[pyfunction]
pub(crate) fn type_name(dtype: &str, logical_type: Option<&str>) -> Option<String> {
    let logical_type = logical_type.map(LogicalType::from_name);
    Some(ElementType::new(DType::from_name(dtype)?, logical_type).to_string())
}

/// Converts any value with a plain form to a Python object.
pub(crate) fn to_python<'py, 'a>(
    py: Python<'py>,
    value: impl Into<Plain<'a>>,
) -> PyResult<Bound<'py, PyAny>> {
    plain_to_python(py, &value.into())
}
