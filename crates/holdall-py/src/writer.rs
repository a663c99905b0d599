//! Writing a file tensor by tensor, to a path or to a Python object with `write`.

use crate::errors::{Raise, misuse};
use crate::memory::BorrowedBuffer;
use crate::options::Writing;
use crate::work::part;
use crate::{dtype, value};
use holdall::ledger::{self, Expected};
use holdall::{
    Cancel, ComponentRef, ComponentSpec, File, FileSink, Layout, Role, Sink, StreamSink,
    TensorSpec, Writer,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The target of a file.
pub(crate) enum Target {
    /// To a path.
    Path(PathBuf),
    /// To an object with `write`.
    Object(Py<PyAny>),
}

impl Target {
    /// Returns the target for a Python value.
    pub(crate) fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Target> {
        if let Ok(path) = object.extract::<PathBuf>() {
            return Ok(Target::Path(path));
        }
        if object.hasattr("write")? {
            return Ok(Target::Object(object.clone().unbind()));
        }
        Err(PyTypeError::new_err("the target is a path or an object with `write`"))
    }
}

/// An object with `write` as [`Write`].
pub(crate) struct PyWrite(Py<PyAny>);

impl PyWrite {
    /// Creates a writer to that object.
    pub(crate) fn new(object: Py<PyAny>) -> PyWrite {
        PyWrite(object)
    }
}

impl Write for PyWrite {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = Python::try_attach(|py| {
            let written = self.0.bind(py).call_method1("write", (PyBytes::new(py, bytes),))?;
            // A raw file may write less; other objects return None, or write everything.
            let count = if written.is_none() { bytes.len() } else { written.extract::<usize>()? };
            Ok(count.min(bytes.len()))
        });
        match written {
            Some(written) => written.map_err(|e: PyErr| std::io::Error::other(e)),
            None => Err(std::io::Error::other("the interpreter has ended")),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writing at least this many bytes may take long.
const LONG: usize = 16 << 20;

/// A writer to any target. Used without the GIL: a writer that calls Python acquires it.
pub(crate) enum Open {
    Path(Box<Writer<FileSink>>),
    Object(Box<Writer<StreamSink<PyWrite>>>),
}

impl Open {
    /// Creates a writer to a target.
    pub(crate) fn new(
        target: &Bound<'_, PyAny>,
        writing: &Writing<'_>,
        cancel: &Cancel,
    ) -> PyResult<Open> {
        let py = target.py();
        let options = writing.options(py)?;
        let work = options.work.clone().with_cancel(cancel);
        let options = options.with_work(work);
        match Target::from_object(target)? {
            Target::Path(path) => {
                let writer = py.detach(|| Writer::create(path, &options)).raise(py)?;
                Ok(Open::Path(Box::new(writer)))
            }
            Target::Object(object) => {
                let to = PyWrite::new(object);
                let writer = py.detach(|| Writer::stream(to, &options)).raise(py)?;
                Ok(Open::Object(Box::new(writer)))
            }
        }
    }

    /// Returns the format's own order of these tensors.
    pub(crate) fn order(&self, specs: &[TensorSpec]) -> Vec<usize> {
        match self {
            Open::Path(w) => w.order(specs),
            Open::Object(w) => w.order(specs),
        }
    }

    pub(crate) fn declare(&mut self, specs: &[TensorSpec]) -> holdall::Result<()> {
        match self {
            Open::Path(w) => w.declare(specs),
            Open::Object(w) => w.declare(specs),
        }
    }

    pub(crate) fn tensor(&mut self, spec: TensorSpec) -> holdall::Result<()> {
        match self {
            Open::Path(w) => w.tensor(spec),
            Open::Object(w) => w.tensor(spec),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> holdall::Result<()> {
        match self {
            Open::Path(w) => w.write(bytes),
            Open::Object(w) => w.write(bytes),
        }
    }

    /// Returns whether writing this many more bytes may take long.
    pub(crate) fn may_block(&self, more: usize) -> bool {
        more >= LONG
            || match self {
                Open::Path(w) => w.may_block(more),
                Open::Object(w) => w.may_block(more),
            }
    }

    pub(crate) fn finish(self) -> holdall::Result<()> {
        self.finish_from(None).map(drop)
    }

    /// Finishes like [`Open::finish`], for a file that is written from an open file with expected
    /// differences. Returns the parts that were not written.
    pub(crate) fn finish_from(self, source: Source<'_>) -> holdall::Result<Vec<String>> {
        match self {
            Open::Path(w) => finish_from(*w, source),
            Open::Object(w) => finish_from(*w, source),
        }
    }
}

/// The file that another one is written from, and the expected differences.
pub(crate) type Source<'a> = Option<(&'a File, &'a Expected)>;

fn finish_from<S: Sink>(writer: Writer<S>, source: Source<'_>) -> holdall::Result<Vec<String>> {
    let finished = writer.close()?;
    let left_behind = match source {
        Some((file, expected)) => ledger::close(file, finished.record(), expected)?,
        None => Vec::new(),
    };
    finished.publish()?;
    Ok(left_behind)
}

/// A component from the Python half: role, element type, decoded bytes, and the tensor and role
/// whose bytes it shares.
type Component = (String, String, u64, Option<(String, String)>);
/// A tensor from the Python half: name, shape, layout, attributes, components.
pub(crate) type Spec<'py> = (String, Vec<u64>, String, Option<Bound<'py, PyAny>>, Vec<Component>);

/// A file that is being written.
#[pyclass(frozen, name = "Writer", module = "holdall._holdall")]
pub(crate) struct NativeWriter {
    open: Mutex<Option<Open>>,
    /// Ctrl-C during a call ends the writer.
    cancel: Cancel,
}

impl NativeWriter {
    /// Calls a function with the open writer, without the GIL.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Open) -> holdall::Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.as_mut().map(work)
        });
        done.ok_or_else(|| closed(py))?.raise(py)
    }
}

#[cold]
fn closed(py: Python<'_>) -> PyErr {
    misuse(py, "python/closed", "the writer is closed", None)
}

#[pymethods]
impl NativeWriter {
    #[new]
    fn new(target: &Bound<'_, PyAny>, writing: Writing<'_>) -> PyResult<Self> {
        let cancel = Cancel::new();
        let open = Mutex::new(Some(Open::new(target, &writing, &cancel)?));
        Ok(NativeWriter { open, cancel })
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.open.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }

    /// Declares all tensors in the order in which they will be written.
    fn declare(&self, py: Python<'_>, specs: Vec<Spec<'_>>) -> PyResult<()> {
        let specs = specs.into_iter().map(|s| spec(py, s)).collect::<PyResult<Vec<_>>>()?;
        self.with(py, |open| open.declare(&specs))
    }

    /// Begins a tensor.
    fn tensor(&self, py: Python<'_>, spec_object: Spec<'_>) -> PyResult<()> {
        let spec = spec(py, spec_object)?;
        self.with(py, |open| open.tensor(spec))
    }

    /// Writes the next bytes.
    fn write(&self, py: Python<'_>, bytes: &Bound<'_, PyAny>) -> PyResult<()> {
        let lent = BorrowedBuffer::from_object(bytes)?;
        let bytes = lent.bytes();
        let waits = |open: &mut Open| Ok(open.may_block(bytes.len()));
        if !self.with(py, waits)? {
            return self.with(py, |open| open.write(bytes));
        }
        let write = || {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.as_mut().map(|open| open.write(bytes)).transpose()
        };
        part(py, &self.cancel, None, write)?.ok_or_else(|| closed(py))
    }

    /// Completes and publishes the file.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let finish = || {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
            open.map(Open::finish).transpose()
        };
        part(py, &self.cancel, None, finish)?.ok_or_else(|| closed(py))
    }

    /// Aborts: no file appears at the path.
    fn abort(&self, py: Python<'_>) {
        py.detach(|| drop(self.open.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

/// Converts a tensor's description from the Python half.
pub(crate) fn spec(py: Python<'_>, spec_object: Spec<'_>) -> PyResult<TensorSpec> {
    let (name, shape, layout, attributes, components) = spec_object;
    let components = components.into_iter().map(|(role, element, decoded_len, shares)| {
        let Some((dtype, logical_type)) = dtype::from_name(&element) else {
            let message = format!("there is no element type {element:?}");
            return Err(misuse(py, "python/dtype", &message, None));
        };
        let shares = shares.map(|(tensor, role)| {
            let role = Role::from_name(&role);
            ComponentRef { tensor, role }
        });
        let mut spec = ComponentSpec::new(Role::from_name(&role), dtype, decoded_len);
        (spec.logical_type, spec.shares) = (logical_type, shares);
        Ok(spec)
    });
    let components = components.collect::<PyResult<_>>()?;
    let attributes = match attributes {
        Some(attributes) => value::from_mapping(&attributes)?,
        None => holdall::Attributes::new(),
    };
    Ok(TensorSpec { name, shape, layout: Layout::from_name(&layout), attributes, components })
}
