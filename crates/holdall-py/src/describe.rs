//! What a package says of its model, as plain Python values and back.

use crate::errors::misuse;
use crate::values::ty_of;
use holdall::carton::{
    Description, DimSpec, OptionValue, Reference, SelfTest, ShapeSpec, TensorSpec, Tolerance,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Everything in `carton.toml`.
pub(crate) fn description<'py>(py: Python<'py>, d: &Description) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    let version = holdall::formats::carton::FORMAT.reads.last();
    out.set_item("version", version)?;
    out.set_item("name", &d.model_name)?;
    out.set_item("short_description", &d.short_description)?;
    out.set_item("description", &d.model_description)?;
    out.set_item("license", &d.license)?;
    out.set_item("repository", &d.repository)?;
    out.set_item("homepage", &d.homepage)?;
    out.set_item("platforms", PyTuple::new(py, &d.required_platforms)?)?;
    out.set_item("inputs", specs(py, &d.inputs)?)?;
    out.set_item("outputs", specs(py, &d.outputs)?)?;
    let tests = d.self_tests.iter().map(|test| self_test(py, test));
    out.set_item("self_tests", PyList::new(py, tests.collect::<PyResult<Vec<_>>>()?)?)?;
    let examples = PyList::empty(py);
    for e in &d.examples {
        let all = |named: &[(String, Reference)]| {
            pairs(py, named.iter().map(|(name, of)| (name.as_str(), reference(of))))
        };
        let example = PyDict::new(py);
        example.set_item("name", &e.name)?;
        example.set_item("description", &e.description)?;
        example.set_item("inputs", all(&e.inputs)?)?;
        example.set_item("outputs", all(&e.outputs)?)?;
        examples.append(example)?;
    }
    out.set_item("examples", examples)?;
    let runner = PyDict::new(py);
    runner.set_item("name", &d.runner.name)?;
    runner.set_item("framework_version", &d.runner.framework_version)?;
    runner.set_item("compat_version", d.runner.compat_version)?;
    let options = PyDict::new(py);
    for (name, value) in &d.runner.options {
        match value {
            OptionValue::Integer(n) => options.set_item(name, n)?,
            OptionValue::Double(x) => options.set_item(name, x)?,
            OptionValue::String(text) => options.set_item(name, text)?,
            OptionValue::Boolean(yes) => options.set_item(name, yes)?,
        }
    }
    runner.set_item("options", options)?;
    out.set_item("runner", runner)?;
    out.set_item("card", pairs(py, d.card.iter().map(|(k, v)| (k.as_str(), v.clone())))?)?;
    out.set_item("base_models", PyTuple::new(py, &d.base_models)?)?;
    out.set_item("sbom", &d.sbom)?;
    Ok(out)
}

fn pairs<'a, 'py>(
    py: Python<'py>,
    all: impl Iterator<Item = (&'a str, String)>,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (key, value) in all {
        out.set_item(key, value)?;
    }
    Ok(out)
}

fn reference(of: &Reference) -> String {
    match of {
        Reference::Tensor(name) => format!("@tensor_data/{name}"),
        Reference::Misc(path) => format!("@misc/{path}"),
    }
}

fn self_test<'py>(py: Python<'py>, test: &SelfTest) -> PyResult<Bound<'py, PyDict>> {
    let all = |named: &[(String, String)]| {
        pairs(py, named.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())))
    };
    let out = PyDict::new(py);
    out.set_item("name", &test.name)?;
    out.set_item("description", &test.description)?;
    out.set_item("inputs", all(&test.inputs)?)?;
    out.set_item("expected", test.expected.as_deref().map(all).transpose()?)?;
    out.set_item("rtol", test.tolerance.rtol)?;
    out.set_item("atol", test.tolerance.atol)?;
    out.set_item("equal_nan", test.tolerance.equal_nan)?;
    Ok(out)
}

fn specs<'py>(py: Python<'py>, all: &[TensorSpec]) -> PyResult<Bound<'py, PyList>> {
    let out = PyList::empty(py);
    for spec in all {
        let d = PyDict::new(py);
        d.set_item("name", &spec.name)?;
        d.set_item("dtype", spec.ty.as_str())?;
        match &spec.shape {
            ShapeSpec::Any => d.set_item("shape", "*")?,
            ShapeSpec::Symbol(symbol) => d.set_item("shape", symbol)?,
            ShapeSpec::Dims(dims) => {
                let dim = |dim: &DimSpec| match dim {
                    DimSpec::Size(n) => Ok(n.into_pyobject(py)?.into_any()),
                    DimSpec::Symbol(symbol) => Ok(PyString::new(py, symbol).into_any()),
                    DimSpec::Any => Ok(PyString::new(py, "*").into_any()),
                };
                let dims = dims.iter().map(dim).collect::<PyResult<Vec<_>>>()?;
                d.set_item("shape", PyTuple::new(py, dims)?)?;
            }
        }
        d.set_item("description", &spec.description)?;
        d.set_item("internal_name", &spec.internal_name)?;
        out.append(d)?;
    }
    Ok(out)
}

/// A declared input or output: name, element type, shape, description, internal name.
pub(crate) type Declared<'py> = (String, String, Bound<'py, PyAny>, Option<String>, Option<String>);

/// Declared inputs or outputs as the library has them.
pub(crate) fn declared(py: Python<'_>, all: Vec<Declared<'_>>) -> PyResult<Vec<TensorSpec>> {
    let one = |(name, ty, shape, description, internal_name): Declared<'_>| {
        let shape = match shape.cast::<PyString>() {
            Ok(text) if text.to_str()? == "*" => ShapeSpec::Any,
            Ok(text) => ShapeSpec::Symbol(text.to_str()?.to_owned()),
            Err(_) => {
                let dims = shape.try_iter()?.map(|dim| dimension(&dim?));
                ShapeSpec::Dims(dims.collect::<PyResult<_>>()?)
            }
        };
        let mut spec = TensorSpec::new(name, ty_of(py, &ty)?, shape);
        (spec.description, spec.internal_name) = (description, internal_name);
        Ok(spec)
    };
    all.into_iter().map(one).collect()
}

fn dimension(of: &Bound<'_, PyAny>) -> PyResult<DimSpec> {
    match of.cast::<PyString>() {
        Ok(text) if text.to_str()? == "*" => Ok(DimSpec::Any),
        Ok(text) => Ok(DimSpec::Symbol(text.to_str()?.to_owned())),
        Err(_) => Ok(DimSpec::Size(of.extract()?)),
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

/// A self-test as the library has it.
pub(crate) fn tested((name, description, inputs, expected, (rtol, atol, nan)): Tested) -> SelfTest {
    let mut test = SelfTest::default();
    (test.name, test.description) = (name, description);
    (test.inputs, test.expected) = (inputs, expected);
    test.tolerance = Tolerance { rtol, atol, equal_nan: nan };
    test
}

/// Options of a runner: numbers, texts, yes and no.
pub(crate) fn options(of: &Bound<'_, PyDict>) -> PyResult<Vec<(String, OptionValue)>> {
    let py = of.py();
    let mut out = Vec::new();
    for (key, value) in of {
        let key: String = key.extract()?;
        let value = if let Ok(yes) = value.cast::<PyBool>() {
            OptionValue::Boolean(yes.is_true())
        } else if value.is_instance_of::<PyInt>() {
            OptionValue::Integer(value.extract()?)
        } else if value.is_instance_of::<PyFloat>() {
            OptionValue::Double(value.extract()?)
        } else if value.is_instance_of::<PyString>() {
            OptionValue::String(value.extract()?)
        } else {
            let message = format!("the option {key:?} is a number, a text or a bool");
            return Err(misuse(py, "python/option", &message, None));
        };
        out.push((key, value));
    }
    Ok(out)
}
