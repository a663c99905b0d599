//! Tensors over private maps of their files.

use crate::arrays::ElementTypes;
use crate::errors;
use crate::file::NativeFile;
use crate::memory::Buffer;
use holdall::{Extent, File, Role};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Copy-on-write maps of the files of a model, each created when the first of its tensors is requested.
///
/// A tensor over such a map takes no memory and no time until its values are touched. The memory of touched pages is
/// shared between processes until it is written to, and writes do not reach the file.
#[pyclass(frozen, module = "holdall._holdall")]
pub(crate) struct PrivateMaps {
    file: File,
    /// The map of each source; `None` if it cannot be mapped.
    maps: Mutex<BTreeMap<u32, Option<Py<Buffer>>>>,
}

impl PrivateMaps {
    /// Returns the map of a source.
    fn map(&self, py: Python<'_>, source: u32) -> PyResult<Option<Py<Buffer>>> {
        // Mapping takes microseconds and runs no Python code, so the GIL stays.
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = maps.get(&source) {
            return Ok(known.as_ref().map(|buffer| buffer.clone_ref(py)));
        }
        let local = self.file.all_sources().get(source as usize).and_then(|source| source.local());
        let mapped = match local {
            Some(local) => local
                .map_private()
                .map_err(|e| errors::raise(py, &e.in_source(self.file.name())))?,
            None => None,
        };
        let buffer = mapped.map(|memory| Py::new(py, Buffer::writable(memory))).transpose()?;
        maps.insert(source, buffer.as_ref().map(|buffer| buffer.clone_ref(py)));
        Ok(buffer)
    }

    /// Returns the buffer that holds these stored bytes, and where they start in it.
    fn locate(&self, py: Python<'_>, stored: Extent) -> PyResult<Option<(Py<Buffer>, usize)>> {
        let Some(buffer) = self.map(py, stored.source)? else { return Ok(None) };
        let len = buffer.get().len() as u64;
        let is_inside = stored.start <= stored.end && stored.end <= len;
        Ok(is_inside.then_some((buffer, stored.start as usize)))
    }
}

#[pymethods]
impl PrivateMaps {
    #[new]
    fn new(py: Python<'_>, file: &NativeFile) -> PyResult<PrivateMaps> {
        Ok(PrivateMaps { file: file.get(py)?, maps: Mutex::default() })
    }

    /// Returns the dense tensors at these indices: a dict from names to shape, element type, buffer and start in it,
    /// and the indices of the tensors that must be read instead, because their bytes are encoded, checked, in no mapped
    /// file, or empty.
    fn tensors<'py>(
        &self,
        py: Python<'py>,
        positions: Vec<usize>,
    ) -> PyResult<(Bound<'py, PyDict>, Vec<usize>)> {
        let mut types = ElementTypes::new();
        let (out, mut rest) = (PyDict::new(py), Vec::new());
        for at in positions {
            let raise = |e| errors::raise(py, &e);
            let tensor = self.file.at(at).filter(|t| *t.layout() == holdall::Layout::Dense);
            let stored = match &tensor {
                Some(tensor) => tensor.stored_as_is(&Role::Data).map_err(raise)?,
                None => None,
            };
            let stored = stored.filter(|stored| !stored.is_empty());
            let found = match stored {
                Some(stored) => self.locate(py, stored)?,
                None => None,
            };
            let (Some(tensor), Some((buffer, start))) = (tensor, found) else {
                rest.push(at);
                continue;
            };
            let c = tensor.require(&Role::Data).map_err(raise)?;
            let name = types.get(py, c.dtype, c.logical_type.as_ref())?.name(py);
            let shape = PyTuple::new(py, tensor.shape())?;
            out.set_item(PyString::new(py, tensor.name()), (shape, name, buffer, start))?;
        }
        Ok((out, rest))
    }
}

/// Returns another handle of an open file, which stays open when the first is closed.
#[pyfunction]
pub(crate) fn another_handle(py: Python<'_>, file: &NativeFile) -> PyResult<NativeFile> {
    file.get(py).map(NativeFile::new)
}
