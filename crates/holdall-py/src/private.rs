//! Tensors over private maps of their files.

use crate::arrays::width;
use crate::file::NativeFile;
use crate::memory::Buffer;
use crate::{dtype, errors};
use holdall::{Extent, File, Layout, Role, Tensor};
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

/// The location of a tensor's elements in a private map.
struct MappedElements<'py> {
    shape: Bound<'py, PyTuple>,
    dtype: Bound<'py, PyString>,
    /// The bytes per element; `None` if elements share bytes.
    width: Option<u64>,
    buffer: Py<Buffer>,
    start: usize,
}

/// Shape, element type, buffer, start in it and number of elements.
type Aligned<'py> = (Bound<'py, PyTuple>, Bound<'py, PyString>, Py<Buffer>, usize, u64);

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

    /// Returns where the elements of a tensor are; `None` if it must be read.
    fn elements<'py>(
        &self,
        py: Python<'py>,
        tensor: &Tensor,
    ) -> PyResult<Option<MappedElements<'py>>> {
        let raise = |e| errors::raise(py, &e);
        if *tensor.layout() != Layout::Dense {
            return Ok(None);
        }
        let stored = tensor.stored_as_is(&Role::Data).map_err(raise)?;
        let Some(stored) = stored.filter(|stored| !stored.is_empty()) else { return Ok(None) };
        let Some((buffer, start)) = self.locate(py, stored)? else { return Ok(None) };
        let c = tensor.require(&Role::Data).map_err(raise)?;
        let dtype = dtype::py_name(py, c.dtype, c.logical_type.as_ref());
        let width = width(c.dtype, c.logical_type.as_ref());
        Ok(Some(MappedElements {
            shape: PyTuple::new(py, tensor.shape())?,
            dtype,
            width,
            buffer,
            start,
        }))
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
        let (out, mut rest) = (PyDict::new(py), Vec::new());
        for at in positions {
            let tensor = self.file.at(at);
            let found =
                tensor.as_ref().map(|tensor| self.elements(py, tensor)).transpose()?.flatten();
            match (tensor, found) {
                (Some(tensor), Some(place)) => {
                    let name = PyString::new(py, tensor.name());
                    out.set_item(name, (place.shape, place.dtype, place.buffer, place.start))?;
                }
                _ => rest.push(at),
            }
        }
        Ok((out, rest))
    }

    /// Returns shape, element type, buffer, start in it and number of elements of the dense tensor of that name. `None`
    /// if there is no such tensor, if it must be read instead, or if its elements are not aligned or share bytes.
    fn tensor<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Aligned<'py>>> {
        let found = self.file.index().position(name).and_then(|at| self.file.at(at));
        let Some(tensor) = found else { return Ok(None) };
        let Some(place) = self.elements(py, &tensor)? else { return Ok(None) };
        let Some(width) = place.width else { return Ok(None) };
        let address = place.buffer.get().start().wrapping_add(place.start);
        // Dimensions multiply to what a file has room for.
        let count = tensor.shape().iter().fold(1u64, |n, dim| n.saturating_mul(*dim));
        let is_aligned = (address as u64).is_multiple_of(width);
        Ok(is_aligned.then_some((place.shape, place.dtype, place.buffer, place.start, count)))
    }
}

/// Returns another handle of an open file, which stays open when the first is closed.
#[pyfunction]
pub(crate) fn another_handle(py: Python<'_>, file: &NativeFile) -> PyResult<NativeFile> {
    file.get(py).map(NativeFile::new)
}
