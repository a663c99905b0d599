//! Conversion of Python's description of a package for the library.

use crate::errors::misuse;
use crate::values::ty_of;
use holdall::carton::{
    DimSpec, Example, OptionValue, Reference, SelfTest, ShapeSpec, Tolerance, ValueSpec,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// A declared input or output: name, element type, shape, description, internal name.
pub(crate) type Declared<'py> = (String, String, Bound<'py, PyAny>, Option<String>, Option<String>);

/// Converts declared inputs or outputs.
pub(crate) fn declared(py: Python<'_>, all: Vec<Declared<'_>>) -> PyResult<Vec<ValueSpec>> {
    let one = |(name, ty, shape, description, internal_name): Declared<'_>| {
        let shape = match shape.cast::<PyString>() {
            Ok(text) if text.to_str()? == "*" => ShapeSpec::Any,
            Ok(text) => ShapeSpec::Symbol(text.to_str()?.to_owned()),
            Err(_) => {
                let dims = shape.try_iter()?.map(|dim| dimension(&dim?));
                ShapeSpec::Dims(dims.collect::<PyResult<_>>()?)
            }
        };
        let mut spec = ValueSpec::new(name, ty_of(py, &ty)?, shape);
        (spec.description, spec.internal_name) = (description, internal_name);
        Ok(spec)
    };
    all.into_iter().map(one).collect()
}

fn dimension(dimension: &Bound<'_, PyAny>) -> PyResult<DimSpec> {
    match dimension.cast::<PyString>() {
        Ok(text) if text.to_str()? == "*" => Ok(DimSpec::Any),
        Ok(text) => Ok(DimSpec::Symbol(text.to_str()?.to_owned())),
        Err(_) => Ok(DimSpec::Size(dimension.extract()?)),
    }
}

/// A self-test: name, description, names of tensors for inputs and for expected outputs, and the tolerances.
pub(crate) type Tested = (
    Option<String>,
    Option<String>,
    Vec<(String, String)>,
    Option<Vec<(String, String)>>,
    (f64, f64, bool),
);

/// Converts a self-test.
pub(crate) fn tested((name, description, inputs, expected, (rtol, atol, nan)): Tested) -> SelfTest {
    let mut test = SelfTest::default();
    (test.name, test.description) = (name, description);
    (test.inputs, test.expected) = (inputs, expected);
    test.tolerance = Tolerance { rtol, atol, equal_nan: nan, integers: false };
    test
}

/// An example: name, description, and the references for inputs and for outputs by name: whether
/// it is a file in `misc`, and the name of the file or the tensor.
pub(crate) type ExampleInput = (Option<String>, Option<String>, Vec<Refers>, Vec<Refers>);
type Refers = (String, bool, String);

/// Converts an example.
pub(crate) fn to_example((name, description, inputs, outputs): ExampleInput) -> Example {
    let one = |(name, is_file, to): Refers| match is_file {
        true => (name, Reference::Misc(to)),
        false => (name, Reference::Tensor(to)),
    };
    let mut example = Example::default();
    (example.name, example.description) = (name, description);
    example.inputs = inputs.into_iter().map(one).collect();
    example.outputs = outputs.into_iter().map(one).collect();
    example
}

/// Converts options of a runner: any values that TOML supports.
pub(crate) fn options(options: &Bound<'_, PyDict>) -> PyResult<Vec<(String, OptionValue)>> {
    let mut out = Vec::new();
    for (key, value) in options {
        let key: String = key.extract()?;
        let value = option(&key, &value)?;
        out.push((key, value));
    }
    Ok(out)
}

fn option(key: &str, value: &Bound<'_, PyAny>) -> PyResult<OptionValue> {
    Ok(if let Ok(yes) = value.cast::<PyBool>() {
        OptionValue::Boolean(yes.is_true())
    } else if value.is_instance_of::<PyInt>() {
        OptionValue::Integer(value.extract()?)
    } else if value.is_instance_of::<PyFloat>() {
        OptionValue::Double(value.extract()?)
    } else if value.is_instance_of::<PyString>() {
        OptionValue::String(value.extract()?)
    } else if let Ok(all) = value.cast::<PyDict>() {
        OptionValue::Table(options(all)?)
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let all = value.try_iter()?.map(|one| option(key, &one?));
        OptionValue::Array(all.collect::<PyResult<_>>()?)
    } else if let Some(time) = datetime(value)? {
        time
    } else {
        let message = format!(
            "the option {key:?} is a number, a string, a bool, a date or time, or a list or dict of such"
        );
        return Err(misuse(value.py(), "python/option", &message, None));
    })
}

/// Converts a date, a time or both: an object whose `isoformat` is valid TOML.
fn datetime(value: &Bound<'_, PyAny>) -> PyResult<Option<OptionValue>> {
    if !value.hasattr("isoformat")? {
        return Ok(None);
    }
    let text: String = value.call_method0("isoformat")?.extract()?;
    Ok(OptionValue::parse(&text).ok().filter(|v| matches!(v, OptionValue::Datetime(_))))
}
