//! Conversion of errors to Python's exception classes, which `holdall.errors` defines.

use crate::remedies::{listed, spelled};
use holdall::{Error, Remedy};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use std::io;

/// Returns the error for an invalid call, with its code.
pub(crate) fn misuse(py: Python<'_>, code: &str, message: &str, hint: Option<&str>) -> PyErr {
    let fields = Fields { code, kind: "misuse", hint, ..Fields::default() };
    build(py, message, &fields).unwrap_or_else(|e| e)
}

/// Returns the error as an instance of the class of its kind. An exception that a Python object
/// raised in between (such as a writer) is returned unchanged.
pub(crate) fn raise(py: Python<'_>, e: &Error) -> PyErr {
    let behind = e.io().and_then(io::Error::get_ref);
    if let Some(raised) = behind.and_then(|e| e.downcast_ref::<PyErr>()) {
        return raised.clone_ref(py);
    }
    let text = e.to_string();
    let hint = e.advice(spelled);
    let range = e.range().map(|r| (r.start, r.end));
    let fields = Fields {
        code: e.code(),
        kind: e.kind().as_str(),
        source: e.source_name(),
        tensor: e.tensor(),
        component: e.component(),
        range,
        hint: hint.as_deref(),
        remedies: e.remedies(),
        errno: e.io().and_then(errno),
    };
    build(py, &text, &fields).unwrap_or_else(|e| e)
}

/// Returns the `errno` in Python for an error of the operating system, if it has one.
fn errno(e: &io::Error) -> Option<i32> {
    // Error numbers on Windows differ from `errno`.
    if let Some(number) = e.raw_os_error().filter(|_| cfg!(not(windows))) {
        return Some(number);
    }
    Some(match e.kind() {
        io::ErrorKind::NotFound => ENOENT,
        io::ErrorKind::PermissionDenied => EACCES,
        io::ErrorKind::AlreadyExists => EEXIST,
        _ => return None,
    })
}

/// The same on all systems that Python supports.
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;

#[derive(Default)]
struct Fields<'a> {
    code: &'a str,
    kind: &'a str,
    source: Option<&'a str>,
    tensor: Option<&'a str>,
    component: Option<&'a str>,
    range: Option<(u64, u64)>,
    hint: Option<&'a str>,
    remedies: &'a [Remedy],
    errno: Option<i32>,
}

fn build(py: Python<'_>, message: &str, fields: &Fields<'_>) -> PyResult<PyErr> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("holdall.errors")?.getattr("_make")?.unbind())
    })?;
    let keywords = PyDict::new(py);
    keywords.set_item("code", fields.code)?;
    keywords.set_item("kind", fields.kind)?;
    keywords.set_item("source", fields.source)?;
    keywords.set_item("tensor", fields.tensor)?;
    keywords.set_item("component", fields.component)?;
    keywords.set_item("range", fields.range)?;
    keywords.set_item("hint", fields.hint)?;
    keywords.set_item("remedies", listed(py, fields.remedies)?)?;
    keywords.set_item("errno", fields.errno)?;
    let args = PyTuple::new(py, [message])?;
    let made = make.bind(py).call(args, Some(&keywords))?;
    if made.is_instance_of::<pyo3::exceptions::PyBaseException>() {
        Ok(PyErr::from_value(made))
    } else {
        Err(PyRuntimeError::new_err(message.to_owned()))
    }
}

/// Converts a `Result` with Holdall's error to one with a Python exception.
pub(crate) trait Raise<T> {
    fn raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Raise<T> for holdall::Result<T> {
    fn raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|e| raise(py, &e))
    }
}
