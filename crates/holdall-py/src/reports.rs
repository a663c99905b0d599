//! Reports of the library as plain Python values, which the Python half gives classes.

use crate::errors::raise;
use crate::value;
use holdall::diff::{ComponentDiff, TensorDiff, ValueDiff};
use holdall::stats::Measure;
use holdall::{ConvertReport, Diff, Number, Stats, VerifyReport, Warning};
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyDict, PyList};

/// A number: int, float or complex.
fn number<'py>(py: Python<'py>, n: Number) -> PyResult<Bound<'py, PyAny>> {
    Ok(match n {
        Number::Integer(i) => i.into_pyobject(py)?.into_any(),
        Number::Float(x) => x.into_pyobject(py)?.into_any(),
        Number::Complex(re, im) => PyComplex::from_doubles(py, re, im).into_any(),
        other => other.to_f64().into_pyobject(py)?.into_any(),
    })
}

/// What is odd about a file.
pub(crate) fn warnings<'py>(py: Python<'py>, all: &[Warning]) -> PyResult<Bound<'py, PyList>> {
    let out = PyList::empty(py);
    for w in all {
        let d = PyDict::new(py);
        d.set_item("code", w.code)?;
        d.set_item("message", &w.message)?;
        d.set_item("tensor", &w.tensor)?;
        d.set_item("component", &w.component)?;
        d.set_item("count", w.count)?;
        out.append(d)?;
    }
    Ok(out)
}

/// Statistics of a tensor.
pub(crate) fn stats<'py>(py: Python<'py>, s: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    let measure = if s.measure == Measure::Magnitude { "magnitude" } else { "value" };
    d.set_item("measure", measure)?;
    d.set_item("count", s.count)?;
    d.set_item("zeros", s.zeros)?;
    d.set_item("implied_zeros", s.implied_zeros)?;
    d.set_item("nan", s.nan)?;
    d.set_item("inf", s.inf)?;
    d.set_item("neg_inf", s.neg_inf)?;
    d.set_item("min", s.min.map(|n| number(py, n)).transpose()?)?;
    d.set_item("max", s.max.map(|n| number(py, n)).transpose()?)?;
    d.set_item("mean", s.mean)?;
    d.set_item("std", s.std)?;
    let histogram = s.histogram.as_ref().map(|h| (h.low, h.high, h.counts.clone()));
    d.set_item("histogram", histogram)?;
    Ok(d)
}

/// What a verification found.
pub(crate) fn verify<'py>(py: Python<'py>, r: &VerifyReport) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("verdict", r.verdict().as_str())?;
    d.set_item("tensors", r.tensors)?;
    d.set_item("components", r.components)?;
    d.set_item("stored_len", r.stored_len)?;
    d.set_item("read_len", r.read_len)?;
    let digests = PyDict::new(py);
    for (algorithm, count) in &r.digests {
        digests.set_item(algorithm.as_str(), count)?;
    }
    d.set_item("digests", digests)?;
    let findings = PyList::empty(py);
    for e in &r.findings {
        findings.append(raise(py, e).into_value(py))?;
    }
    d.set_item("findings", findings)?;
    d.set_item("finding_count", r.finding_count)?;
    let unverified = PyList::empty(py);
    for u in &r.unverified {
        let one = PyDict::new(py);
        one.set_item("reason", u.reason.as_str())?;
        one.set_item("message", &u.message)?;
        one.set_item("tensor", &u.tensor)?;
        one.set_item("component", &u.component)?;
        one.set_item("count", u.count)?;
        unverified.append(one)?;
    }
    d.set_item("unverified", unverified)?;
    d.set_item("warnings", warnings(py, &r.warnings)?)?;
    Ok(d)
}

/// What a conversion did.
pub(crate) fn convert<'py>(py: Python<'py>, r: &ConvertReport) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("tensors", r.tensors)?;
    d.set_item("shared", r.shared)?;
    d.set_item("decoded_len", r.decoded_len)?;
    d.set_item("source_len", r.source_len)?;
    d.set_item("target_len", r.target_len)?;
    Ok(d)
}

/// What differs between two files.
pub(crate) fn diff<'py>(py: Python<'py>, diff: &Diff) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("is_identical", diff.is_identical())?;
    d.set_item("is_same", diff.is_same())?;
    d.set_item("compared", diff.compared)?;
    d.set_item("identical", diff.identical)?;
    let names = |all: &[holdall::TensorInfo]| -> Vec<String> {
        all.iter().map(|t| t.name().to_owned()).collect()
    };
    d.set_item("removed", names(&diff.removed))?;
    d.set_item("added", names(&diff.added))?;
    d.set_item("attributes", attribute_diffs(py, &diff.attributes)?)?;
    let changed = PyList::empty(py);
    for t in &diff.changed {
        changed.append(tensor_diff(py, t)?)?;
    }
    d.set_item("changed", changed)?;
    Ok(d)
}

fn attribute_diffs<'py>(
    py: Python<'py>,
    all: &[holdall::diff::AttributeDiff],
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for a in all {
        let of =
            |v: &Option<holdall::Value>| v.as_ref().map(|v| value::to_python(py, v)).transpose();
        out.set_item(&a.key, (of(&a.a)?, of(&a.b)?))?;
    }
    Ok(out)
}

fn tensor_diff<'py>(py: Python<'py>, t: &TensorDiff) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("name", &t.name)?;
    let spelled = |t: &Option<holdall::ElementType>| t.as_ref().map(ToString::to_string);
    d.set_item("types", t.types.as_ref().map(|(a, b)| (spelled(a), spelled(b))))?;
    d.set_item("shapes", t.shapes.clone())?;
    let layouts = t.layouts.as_ref().map(|(a, b)| (a.to_string(), b.to_string()));
    d.set_item("layouts", layouts)?;
    d.set_item("attributes", attribute_diffs(py, &t.attributes)?)?;
    let components: Vec<&ComponentDiff> = t.components.iter().collect();
    let roles: Vec<String> = components.iter().map(|c| c.role.to_string()).collect();
    d.set_item("components", roles)?;
    d.set_item("values", t.values.as_ref().map(|v| values(py, v)).transpose()?)?;
    let incomparable = t.incomparable.as_ref().map(|e| raise(py, e).into_value(py));
    d.set_item("incomparable", incomparable)?;
    Ok(d)
}

fn values<'py>(py: Python<'py>, v: &ValueDiff) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("count", v.count)?;
    d.set_item("unequal", v.unequal)?;
    d.set_item("differing", v.differing)?;
    d.set_item("max_abs", v.max_abs)?;
    d.set_item("max_rel", v.max_rel)?;
    let first = match &v.first {
        Some(f) => Some((f.index.clone(), number(py, f.a)?, number(py, f.b)?)),
        None => None,
    };
    d.set_item("first", first)?;
    Ok(d)
}
