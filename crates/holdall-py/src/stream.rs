//! Tensors in the order in which they are needed, returned to Python as they arrive.

use crate::dtype;
use crate::errors::Raise;
use crate::memory::Buffer;
use crate::work::LOOK;
use holdall::{Layout, LoadOptions, TensorInfo, TensorStream};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::sync::{Mutex, PoisonError};

/// A stream of tensors.
#[pyclass(frozen, name = "Arriving", module = "holdall._holdall")]
pub(crate) struct NativeArriving(Mutex<Option<TensorStream>>);

/// A loaded component: role, element type, storage element type, and its bytes.
type StreamedComponent = (String, String, &'static str, Buffer);
/// A loaded tensor: name, shape, whether it is dense, and its components.
type Here<'py> = (Bound<'py, PyString>, Bound<'py, PyTuple>, bool, Vec<StreamedComponent>);

impl NativeArriving {
    /// Begins to load tensors of a file.
    pub(crate) fn begin(
        py: Python<'_>,
        file: &holdall::File,
        names: &[String],
        options: &LoadOptions,
    ) -> PyResult<NativeArriving> {
        let begin = || file.stream(names.iter().map(String::as_str), options);
        Ok(NativeArriving(Mutex::new(Some(py.detach(begin).raise(py)?))))
    }

    /// Calls `with`, unless the stream is closed, without the GIL, which the loading threads may
    /// need.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        with: impl FnOnce(&mut TensorStream) -> T + Send,
    ) -> Option<T> {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(with))
    }
}

#[pymethods]
impl NativeArriving {
    /// Returns the next loaded tensor; `None` after the last.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Here<'py>>> {
        loop {
            let turn = self.with(py, |arriving| arriving.wait(LOOK).then(|| arriving.next()));
            let arrived = match turn {
                None | Some(Some(None)) => return Ok(None),
                Some(None) => {
                    py.check_signals()?;
                    continue;
                }
                Some(Some(Some(arrived))) => arrived.raise(py)?,
            };
            let tensor = arrived.tensor();
            let info: &TensorInfo = tensor.info();
            let mut parts = Vec::new();
            for c in info.components() {
                let bytes = tensor.bytes(&c.role).raise(py)?.clone();
                let type_name = dtype::name(c.dtype, c.logical_type.as_ref());
                let role = c.role.as_str().to_owned();
                parts.push((role, type_name, dtype::storage(c.dtype), Buffer::frozen(bytes)));
            }
            let (name, shape) = (PyString::new(py, info.name()), PyTuple::new(py, info.shape())?);
            return Ok(Some((name, shape, *info.layout() == Layout::Dense, parts)));
        }
    }

    /// Loads a tensor before the others.
    fn prefer(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.with(py, |arriving| arriving.prefer(name)).transpose().raise(py).map(drop)
    }

    /// Returns the number of tensors that have not been taken.
    fn left(&self, py: Python<'_>) -> usize {
        self.with(py, |arriving| arriving.left()).unwrap_or(0)
    }

    /// Stops loading.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

impl Drop for NativeArriving {
    fn drop(&mut self) {
        let arriving = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Loading threads may need the interpreter to end.
        let _ = Python::try_attach(|py| py.detach(|| drop(arriving)));
    }
}
