//! Open files. Tensors are identified by index; the Python half has objects for them.

use crate::arrays::{ElementType, ElementTypes};
use crate::errors::{Raise, misuse};
use crate::memory::{BorrowedBuffer, Buffer};
use crate::options::{Converting, Writing};
use crate::source::PythonSource;
use crate::stream::NativeArriving;
use crate::work::{far, run, run_apart, run_with};
use crate::{dtype, errors, noted, options, plain, value, writer};
use bytes::Bytes;
use holdall::diff::SampleOptions;
use holdall::layout::Dense;
use holdall::plain::{Plain, ToPlain as _};
use holdall::verify::Strictness;
use holdall::{
    ByteOrder, Check, DiffOptions, Encoding, Faults, File, Io, Layout, LoadOptions, Role,
    StatsOptions, Tensor, TensorInfo, VerifyOptions,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the formats of this build: id, name, extensions, writable versions, whether it can be written.
#[pyfunction]
pub(crate) fn formats(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let out = PyList::empty(py);
    for f in holdall::FORMATS {
        out.append((f.id, f.name, f.extensions, f.versions, f.encode.is_some()))?;
    }
    Ok(out)
}

/// An open file.
#[pyclass(frozen, name = "File", module = "holdall._holdall")]
pub(crate) struct NativeFile {
    file: Mutex<Option<File>>,
    name: String,
}

impl NativeFile {
    /// Wraps an open file for Python.
    pub(crate) fn new(file: File) -> NativeFile {
        NativeFile { name: file.name().to_owned(), file: Mutex::new(Some(file)) }
    }

    /// Returns the file, unless it is closed. The lock is only held briefly, and no Python code runs under it.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<File> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).clone();
        file.ok_or_else(|| {
            let message = format!("{}: the file is closed", self.name);
            misuse(py, "python/closed", &message, Some("open it again; arrays made before stay"))
        })
    }

    /// Returns the tensor at that index.
    pub(crate) fn tensor(&self, py: Python<'_>, at: usize) -> PyResult<Tensor> {
        let found = self.get(py)?.at(at);
        found.ok_or_else(|| misuse(py, "python/number", "there is no tensor of that number", None))
    }

    fn sized(&self, py: Python<'_>, at: usize, role: &str) -> PyResult<(Tensor, Role, u64)> {
        let tensor = self.tensor(py, at)?;
        let role = Role::from_name(role);
        let c = tensor.component(&role);
        let len = match tensor.layout() {
            Layout::Planes(of) => tensor.count().saturating_mul(of.count as u64),
            _ => c.map_or(0, |c| c.decoded_len.unwrap_or(u64::MAX)),
        };
        Ok((tensor, role, len))
    }
}

/// Returns whether a component's bytes in memory have the layout of an array.
fn is_view(tensor: &Tensor, role: &Role) -> bool {
    let is_borrowed = {
        let sources = tensor.file().all_sources();
        sources.iter().all(|source| source.read_hints().access == holdall::Access::Borrowed)
    };
    let is_plain =
        |c: holdall::Component| c.encoding == Encoding::Raw && c.byte_order == ByteOrder::Little;
    is_borrowed && tensor.component(role).is_some_and(is_plain)
}

/// Returns how to handle tensors that cannot be read.
fn faults(strict: bool) -> Faults {
    if strict { Faults::Refuse } else { Faults::Keep }
}

#[pymethods]
impl NativeFile {
    /// Opens a local or remote file, or several as one.
    #[staticmethod]
    #[pyo3(signature = (paths, io, check, limits, strict, allow, stores, cache, offline, layouts))]
    #[allow(clippy::too_many_arguments)]
    fn open(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        io: &str,
        check: &str,
        limits: Option<&Bound<'_, PyDict>>,
        strict: bool,
        allow: Vec<String>,
        stores: BTreeMap<String, String>,
        cache: Option<PathBuf>,
        offline: bool,
        layouts: Vec<PathBuf>,
    ) -> PyResult<NativeFile> {
        let options = options::open(py, io, check, limits)?.with_faults(faults(strict));
        let options = options::described(py, options, layouts)?;
        // The source that is hardest to reach decides for all: options for addresses are passed
        // to it.
        let farthest = paths.iter().max_by_key(|path| far(path));
        let farthest = farthest.map_or(Path::new(""), PathBuf::as_path);
        let work = far(farthest);
        // For a local file without options for remote files, no link fetcher is needed.
        #[cfg(feature = "carton")]
        let options = match work == 0 && allow.is_empty() && stores.is_empty() && cache.is_none() {
            true => options,
            false => {
                let mut remote = crate::remote::Remote::new(py, &allow, stores, cache, offline)?;
                remote.apply(options, farthest)
            }
        };
        #[cfg(not(feature = "carton"))]
        let _ = (allow, stores, cache, offline);
        run_apart(py, work, move || options.open_all(&paths)).map(NativeFile::new)
    }

    /// Opens a file in memory.
    #[staticmethod]
    #[pyo3(signature = (data, name, check, limits, strict, layouts))]
    fn open_bytes(
        py: Python<'_>,
        data: PyBackedBytes,
        name: String,
        check: &str,
        limits: Option<&Bound<'_, PyDict>>,
        strict: bool,
        layouts: Vec<PathBuf>,
    ) -> PyResult<NativeFile> {
        let options = options::open(py, "auto", check, limits)?.with_faults(faults(strict));
        let options = options::described(py, options, layouts)?;
        let data = Bytes::from_owner(data);
        py.detach(|| options.open_bytes(data, name)).raise(py).map(NativeFile::new)
    }

    /// Opens a file whose bytes a function returns: it takes a list of ranges and returns a list of their bytes.
    #[staticmethod]
    #[pyo3(signature = (read, len, name, is_far, check, limits, strict, layouts))]
    #[allow(clippy::too_many_arguments)]
    fn open_source(
        py: Python<'_>,
        read: Py<PyAny>,
        len: u64,
        name: String,
        is_far: bool,
        check: &str,
        limits: Option<&Bound<'_, PyDict>>,
        strict: bool,
        layouts: Vec<PathBuf>,
    ) -> PyResult<NativeFile> {
        let options = options::open(py, "read", check, limits)?.with_faults(faults(strict));
        let options = options::described(py, options, layouts)?;
        let source = Arc::new(PythonSource::new(read, len, name.clone(), is_far));
        let work = if is_far { u64::MAX } else { 0 };
        run_apart(py, work, move || options.open_source(source, name)).map(NativeFile::new)
    }

    /// Returns whether the layout of tensor `at` has a description.
    fn is_described(&self, py: Python<'_>, at: usize) -> PyResult<bool> {
        Ok(self.tensor(py, at)?.description().is_some())
    }

    /// Returns the error of tensor `at` as an exception; `None` if it can be read.
    fn fault<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let fault = self.tensor(py, at)?.sound().err();
        Ok(fault.map(|e| errors::raise(py, &e).into_value(py).into_bound(py).into_any()))
    }

    /// Returns the errors of single tensors as exceptions, in the file's own order.
    fn faults<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let one = |e| errors::raise(py, &e).into_value(py).into_bound(py).into_any();
        Ok(self.get(py)?.faults().map(one).collect())
    }

    /// Closes the file.
    fn close(&self, py: Python<'_>) {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(file));
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn closed(&self) -> bool {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Returns the format, the version, and the I/O mode.
    fn head(&self, py: Python<'_>) -> PyResult<(&'static str, String, &'static str)> {
        let file = self.get(py)?;
        let io = match file.io() {
            Io::Map => "map",
            Io::Direct => "direct",
            _ => "read",
        };
        Ok((file.format(), file.version().to_owned(), io))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.len())
    }

    /// Returns the names in the file's own order.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let file = self.get(py)?;
        PyList::new(py, file.names().map(|name| PyString::new(py, name)))
    }

    /// Returns the indices of the tensors that are not dense.
    fn not_dense(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        let file = self.get(py)?;
        let others = file.index().tensors().filter(|t| *t.layout() != Layout::Dense);
        Ok(others.map(|t| t.position()).collect())
    }

    /// Returns the parts of the file that this version does not know.
    fn unrepresented(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.get(py)?.index().unrepresented().to_vec())
    }

    /// Returns the indices of the tensors that patterns select.
    #[pyo3(signature = (include, exclude))]
    fn select(
        &self,
        py: Python<'_>,
        include: Option<Vec<String>>,
        exclude: Option<Vec<String>>,
    ) -> PyResult<Vec<usize>> {
        let (file, select) = (self.get(py)?, options::select(py, include, exclude)?);
        let taken = py.detach(|| select.tensors(&file)).raise(py)?;
        Ok(taken.iter().map(|t| t.position()).collect())
    }

    /// Returns the index of the tensor of that name.
    fn position(&self, py: Python<'_>, name: &str) -> PyResult<Option<usize>> {
        Ok(self.get(py)?.index().position(name))
    }

    /// Returns the same as `position`, but a missing name is an error that suggests the nearest name.
    fn find(&self, py: Python<'_>, name: &str) -> PyResult<usize> {
        let file = self.get(py)?;
        py.detach(|| file.tensor(name).map(|t| t.position())).raise(py)
    }

    /// Returns name, shape, layout, element type and stored bytes of a tensor, and the NumPy type if its elements are
    /// stored as numbers but are strings, bytes or times in NumPy.
    fn info<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyTuple>> {
        let t = self.tensor(py, at)?;
        let shape = PyTuple::new(py, t.shape())?;
        let dtype = t.dtype().map(|d| dtype::py_name(py, d, t.logical_type().as_ref()));
        let layout = match t.layout() {
            Layout::Dense => intern!(py, "dense").clone(),
            other => PyString::new(py, other.as_str()),
        };
        let descr = noted::descr(t.attributes());
        (t.name(), shape, layout, dtype, t.stored_len(), descr).into_pyobject(py)
    }

    /// Returns role, element type, storage element type, encoding, byte order, start, end, decoded length and digest
    /// of each component.
    fn components<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        for c in self.tensor(py, at)?.components() {
            let dtype = dtype::name(c.dtype, c.logical_type.as_ref());
            let order = if c.byte_order == ByteOrder::Little { "little" } else { "big" };
            let digest = c.digest.map(|d| d.to_string());
            let in_file = (!c.stored.is_stated()).then(|| c.stored.range());
            out.append((
                c.role.as_str(),
                dtype,
                dtype::storage(c.dtype),
                c.encoding.as_str(),
                order,
                in_file.as_ref().map(|range| range.start),
                in_file.as_ref().map(|range| range.end),
                c.decoded_len,
                digest,
            ))?;
        }
        Ok(out)
    }

    /// Returns the attributes of the file.
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        value::attributes(py, self.get(py)?.attributes())
    }

    /// Returns the attributes of a tensor.
    fn tensor_attributes<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyDict>> {
        value::attributes(py, self.tensor(py, at)?.attributes())
    }

    /// Returns the warnings about the file.
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain::to_python(py, self.get(py)?.warnings())
    }

    /// Returns whether `read` returns a view of mapped or existing memory, rather than a copy.
    fn is_view(&self, py: Python<'_>, at: usize, role: &str) -> PyResult<bool> {
        let (tensor, role, _) = self.sized(py, at, role)?;
        Ok(is_view(&tensor, &role))
    }

    /// Returns the decoded bytes of a component, read-only.
    fn read(&self, py: Python<'_>, at: usize, role: &str) -> PyResult<Buffer> {
        let (tensor, role, len) = self.sized(py, at, role)?;
        // A view takes no time, however long it is.
        let work = if is_view(&tensor, &role) { 0 } else { len };
        run_apart(py, work, move || tensor.bytes(&role)).map(Buffer::frozen)
    }

    /// Returns the decoded bytes of a component in separate memory, and where they start in it.
    fn read_owned(&self, py: Python<'_>, at: usize, role: &str) -> PyResult<(Buffer, usize)> {
        let (tensor, role, len) = self.sized(py, at, role)?;
        let (memory, range) = run_apart(py, len, move || tensor.memory(&role))?;
        Ok((Buffer::writable(memory), range.start))
    }

    /// Returns the decoded bytes `start..end` of a component, read-only.
    fn read_range(
        &self,
        py: Python<'_>,
        at: usize,
        role: &str,
        start: u64,
        end: u64,
    ) -> PyResult<Buffer> {
        let (tensor, role, _) = self.sized(py, at, role)?;
        let len = end.saturating_sub(start);
        run_apart(py, len, move || tensor.bytes_range(&role, start..end)).map(Buffer::frozen)
    }

    /// Returns the stored bytes of a component, as they are in the file.
    fn stored(&self, py: Python<'_>, at: usize, role: &str) -> PyResult<Buffer> {
        let (tensor, role, len) = self.sized(py, at, role)?;
        run_apart(py, len, move || tensor.stored(&role)).map(Buffer::frozen)
    }

    /// Decodes a component into a buffer.
    fn read_into(
        &self,
        py: Python<'_>,
        at: usize,
        role: &str,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (tensor, role, len) = self.sized(py, at, role)?;
        let mut lent = BorrowedBuffer::writable(buffer)?;
        let out = lent.bytes_mut();
        run(py, len, |_| tensor.read_into(&role, out))
    }

    /// Returns a dense tensor as a read-only array over the map or the memory that holds its bytes; `None` if they
    /// must be decoded, or if arrays have another memory layout than files.
    fn view<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let tensor = self.tensor(py, at)?;
        if *tensor.layout() != Layout::Dense || !is_view(&tensor, &Role::Data) {
            return Ok(None);
        }
        let Some(dtype) = tensor.dtype() else { return Ok(None) };
        // No bytes are read, unless digests of views are checked too.
        let bytes = match tensor.file().check() {
            Check::All => py.detach(|| tensor.bytes(&Role::Data)),
            _ => tensor.bytes(&Role::Data),
        };
        let buffer = Bound::new(py, Buffer::frozen(bytes.raise(py)?))?;
        let element_type = ElementType::from_dtype(py, dtype, tensor.logical_type().as_ref())?;
        Ok(element_type.array(&buffer, 0, tensor.shape()))
    }

    /// Returns the rows `start..end` of a dense tensor as a read-only array; `None` if the Python half must create
    /// it, or raise an error.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        at: usize,
        start: u64,
        end: u64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let tensor = self.tensor(py, at)?;
        let (Layout::Dense | Layout::Planes(_), Some(dtype)) = (tensor.layout(), tensor.dtype())
        else {
            return Ok(None);
        };
        let element_type = ElementType::from_dtype(py, dtype, tensor.logical_type().as_ref())?;
        let mut shape = tensor.shape().to_vec();
        let (Some(width), Some(rows)) = (element_type.width(), shape.first_mut()) else {
            return Ok(None);
        };
        if start >= end || end > *rows {
            return Ok(None);
        }
        *rows = end - start;
        // The product of dimensions fits the range of file lengths.
        let row = shape[1..].iter().fold(width, |n, &dim| n.saturating_mul(dim));
        let range = start.saturating_mul(row)..end.saturating_mul(row);
        let len = range.end - range.start;
        let bytes = run_apart(py, len, move || tensor.bytes_range(&Role::Data, range))?;
        let buffer = Bound::new(py, Buffer::frozen(bytes))?;
        Ok(element_type.array(&buffer, 0, &shape))
    }

    /// Returns tensors as they arrive, in the order of `names`.
    fn stream(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        check: Option<&str>,
    ) -> PyResult<NativeArriving> {
        NativeArriving::begin(py, &self.get(py)?, &names, &load_options(py, check)?)
    }

    /// Returns the element types of tensors (all, or those at these indices) without duplicates.
    #[pyo3(signature = (positions))]
    fn dtypes(&self, py: Python<'_>, positions: Option<Vec<usize>>) -> PyResult<Vec<String>> {
        let file = self.get(py)?;
        let positions = positions.unwrap_or_else(|| (0..file.len()).collect());
        let mut found = Vec::new();
        for tensor in positions.into_iter().filter_map(|at| file.index().at(at)) {
            let one = tensor.dtype().map(|dtype| (dtype, tensor.logical_type()));
            if let Some(one) = one.filter(|one| !found.contains(one)) {
                found.push(one);
            }
        }
        Ok(found.iter().map(|(dtype, logical)| dtype::name(*dtype, logical.as_ref())).collect())
    }

    /// Loads dense tensors (all, or those at these indices) and returns them by name, in separate memory: as NumPy
    /// arrays if `arrays` is true and the type of the elements is known. Other values in the dict are the arguments
    /// with which the Python half creates the tensor (shape, element type, buffer, start in it, and whether to copy),
    /// or, if `share`, the name of the first tensor with the same bytes; their names are returned too, in order.
    #[pyo3(signature = (positions, threads, check, progress, arrays, share))]
    #[allow(clippy::too_many_arguments)] // As Python calls it.
    fn load<'py>(
        &self,
        py: Python<'py>,
        positions: Option<Vec<usize>>,
        threads: Option<usize>,
        check: Option<&str>,
        progress: Option<&Bound<'py, PyAny>>,
        arrays: bool,
        share: bool,
    ) -> PyResult<(Bound<'py, PyDict>, Vec<String>)> {
        let file = self.get(py)?;
        let positions = positions.unwrap_or_else(|| (0..file.len()).collect());
        let base = load_options(py, check)?;
        let len = file.index().source_len();
        let loaded = run_with(py, len, threads, progress, |work| {
            file.load_memory(positions, &base.with_work(work))
        })?;
        let buffers: Vec<Buffer> = loaded.buffers.into_iter().map(Buffer::writable).collect();
        let objects = buffers.iter().map(|b| Bound::new(py, b.clone()));
        let objects = objects.collect::<PyResult<Vec<_>>>()?;
        // If all buffers are contiguous, no two tensors share their bytes.
        let starts = || loaded.ranges.iter().map(|range| (range.buffer, range.range.start));
        let rise = starts().zip(starts().skip(1)).all(|(a, b)| a < b);
        let mut seen = (!rise).then(std::collections::HashMap::new);
        let mut types = ElementTypes::new();
        let (out, mut rest) = (PyDict::new(py), Vec::new());
        let mut ranges = loaded.ranges.iter();
        for (at, t) in loaded.tensors.iter().enumerate() {
            for c in t.components() {
                let Some(range) = ranges.next() else { break };
                if c.role != Role::Data {
                    continue;
                }
                let (start, buffer) = (range.range.start, &objects[range.buffer]);
                let element_type = types.get(py, c.dtype, c.logical_type.as_ref())?;
                let name = PyString::new(py, t.name());
                let first = match (range.range.is_empty(), &mut seen) {
                    (false, Some(seen)) => *seen.entry((range.buffer, start)).or_insert(at),
                    _ => at,
                };
                let of_first = loaded.tensors.get(first).filter(|_| share && first != at);
                if let Some(twin) = of_first.filter(|f| is_alike(f, t)) {
                    out.set_item(name, twin.name())?;
                    rest.push(t.name().to_owned());
                    continue;
                }
                let address = buffers[range.buffer].start().wrapping_add(start);
                let is_aligned = address.is_multiple_of(c.dtype.width() as usize);
                let copy = !is_aligned || (first != at && !share);
                let array = match arrays && !copy {
                    true => element_type.array(buffer, start, t.shape()),
                    false => None,
                };
                match array {
                    Some(array) => out.set_item(name, array)?,
                    None => {
                        let shape = PyTuple::new(py, t.shape())?;
                        out.set_item(name, (shape, element_type.name(py), buffer, start, copy))?;
                        rest.push(t.name().to_owned());
                    }
                }
            }
        }
        Ok((out, rest))
    }

    /// Returns the tensors at these indices in the order of their bytes, for copying them elsewhere: index, element
    /// type, shape, decoded bytes, and the index of the first one with the same bytes and elements.
    fn places<'py>(&self, py: Python<'py>, positions: Vec<usize>) -> PyResult<Bound<'py, PyList>> {
        let mut all = Vec::with_capacity(positions.len());
        for at in positions {
            let tensor = self.tensor(py, at)?;
            let c = tensor.require(&Role::Data).map_err(|e| errors::raise(py, &e))?;
            all.push((c.stored, at, tensor, c));
        }
        all.sort_by_key(|(stored, at, ..)| (*stored, *at));
        let out = PyList::empty(py);
        let mut first: usize = 0;
        for (i, (stored, at, tensor, c)) in all.iter().enumerate() {
            if all[first].0 != *stored {
                first = i;
            }
            let like = all[first..i].iter().find(|(_, _, other, o)| {
                !stored.is_empty() && o.decodes_equally(c) && is_alike(other, tensor)
            });
            let dtype = dtype::name(c.dtype, c.logical_type.as_ref());
            let shape = PyTuple::new(py, tensor.shape())?;
            out.append((
                *at,
                dtype,
                shape,
                c.decoded_len,
                like.map_or(*at, |(_, first, ..)| *first),
            ))?;
        }
        Ok(out)
    }

    /// Decodes components into buffers: tuples of tensor index, role and buffer.
    #[pyo3(signature = (buffers, threads, check, progress))]
    fn load_into<'py>(
        &self,
        py: Python<'py>,
        buffers: Vec<(usize, String, Bound<'py, PyAny>)>,
        threads: Option<usize>,
        check: Option<&str>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let file = self.get(py)?;
        let options = load_options(py, check)?;
        let mut lent = Vec::with_capacity(buffers.len());
        for (at, role, buffer) in &buffers {
            let name = self.tensor(py, *at)?.name().to_owned();
            lent.push((name, Role::from_name(role), BorrowedBuffer::writable(buffer)?));
        }
        let mut taken: Vec<_> = lent.iter().map(|(_, _, l)| l.addresses()).collect();
        taken.retain(|range| !range.is_empty());
        taken.sort_by_key(|range| range.start);
        if taken.windows(2).any(|pair| pair[0].end > pair[1].start) {
            let message = "two of the buffers to read into overlap";
            return Err(misuse(py, "python/buffer", message, None));
        }
        let len = lent.iter().fold(0u64, |n, (_, _, l)| n.saturating_add(l.len() as u64));
        let wanted: Vec<_> = lent
            .iter_mut()
            .map(|(name, role, lent)| (name.as_str(), role.clone(), lent.bytes_mut()))
            .collect();
        run_with(py, len, threads, progress, |work| {
            file.load_into(wanted, &options.with_work(work))
        })
    }

    /// Returns the tensor in dense form: element type, shape, bytes.
    fn to_dense(&self, py: Python<'_>, at: usize) -> PyResult<Given> {
        let tensor = self.tensor(py, at)?;
        run_apart(py, u64::MAX, move || tensor.to_dense()).map(dense)
    }

    /// Returns rows of the tensor in dense form: element type, shape, bytes.
    fn dense_rows(&self, py: Python<'_>, at: usize, start: u64, stop: u64) -> PyResult<Given> {
        let tensor = self.tensor(py, at)?;
        let read = move || {
            let pieces = tensor.dense_pieces(tensor.file().check())?.with_rows(start..stop)?;
            let element_type = pieces.element_type().clone();
            let mut shape = tensor.shape().to_vec();
            if let Some(first) = shape.first_mut() {
                *first = stop.saturating_sub(start);
            }
            let mut bytes = Vec::new();
            for piece in pieces {
                bytes.extend_from_slice(&piece?);
            }
            Ok(Dense::new(element_type.dtype, element_type.logical_type, shape, Bytes::from(bytes)))
        };
        run_apart(py, u64::MAX, read).map(dense)
    }

    /// Returns the same file with each quantized weight as one tensor.
    fn dequantized(&self, py: Python<'_>) -> PyResult<NativeFile> {
        let file = self.get(py)?;
        run_apart(py, u64::MAX, move || file.dequantized()).map(NativeFile::new)
    }

    /// Returns the quantized weights that the model stores as several tensors.
    fn quantized<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let file = self.get(py)?;
        let found = {
            let file = file.clone();
            run_apart(py, u64::MAX, move || file.quantized_weights().map(<[_]>::to_vec))?
        };
        plain::to_python(py, Plain::list(found.iter().map(|weight| weight.to_plain())))
    }

    /// Returns a checked sparse tensor in compressed rows: `indptr` and `indices` (uint64) and values.
    fn csr(&self, py: Python<'_>, at: usize) -> PyResult<(Buffer, Buffer, Given)> {
        let tensor = self.tensor(py, at)?;
        let csr = run_apart(py, u64::MAX, move || tensor.csr())?;
        Ok((words(csr.indptr()), words(csr.indices()), dense(csr.values().clone())))
    }

    /// Returns a checked sparse tensor as coordinates: a buffer of uint64 for each dimension, and values.
    fn coo(&self, py: Python<'_>, at: usize) -> PyResult<(Vec<Buffer>, Given)> {
        let tensor = self.tensor(py, at)?;
        let coo = run_apart(py, u64::MAX, move || tensor.coo())?;
        let coords = (0..coo.shape().len()).map(|d| words(coo.coords(d))).collect();
        Ok((coords, dense(coo.values().clone())))
    }

    /// Returns statistics of a tensor's values.
    #[pyo3(signature = (at, bins, threads, progress))]
    fn stats<'py>(
        &self,
        py: Python<'py>,
        at: usize,
        bins: usize,
        threads: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.tensor(py, at)?;
        let options = StatsOptions::new().with_bins(bins);
        let stats = run_with(py, u64::MAX, threads, progress, |work| {
            holdall::stats::stats(&tensor, &options.with_work(work))
        })?;
        plain::to_python(py, &stats)
    }

    /// Checks everything that can be checked.
    #[pyo3(signature = (include, exclude, strict, threads, progress))]
    fn verify<'py>(
        &self,
        py: Python<'py>,
        include: Option<Vec<String>>,
        exclude: Option<Vec<String>>,
        strict: bool,
        threads: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let file = self.get(py)?;
        let strictness = if strict { Strictness::Strict } else { Strictness::Usual };
        let options = VerifyOptions::new()
            .with_select(options::select(py, include, exclude)?)
            .with_strictness(strictness);
        let report = run_with(py, u64::MAX, threads, progress, |work| {
            holdall::verify::verify(&file, &options.with_work(work))
        })?;
        plain::to_python(py, &report)
    }

    /// Checks one tensor, even if its name contains wildcards.
    fn verify_tensor<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.tensor(py, at)?;
        // A name that is also a pattern selects itself: patterns are also compared literally.
        self.verify(py, Some(vec![tensor.name().to_owned()]), None, false, None, None)
    }

    /// Returns the differences between this file and another.
    #[pyo3(signature = (other, rtol, atol, include, exclude, threads, progress))]
    #[allow(clippy::too_many_arguments)] // Keywords of one Python function.
    fn diff<'py>(
        &self,
        py: Python<'py>,
        other: &NativeFile,
        rtol: Option<f64>,
        atol: Option<f64>,
        include: Option<Vec<String>>,
        exclude: Option<Vec<String>>,
        threads: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (a, b) = (self.get(py)?, other.get(py)?);
        let mut options = DiffOptions::new().with_select(options::select(py, include, exclude)?);
        if rtol.is_some() || atol.is_some() {
            options = options.with_tolerance(rtol.unwrap_or(0.0), atol.unwrap_or(0.0));
        }
        let diff = run_with(py, u64::MAX, threads, progress, |work| {
            holdall::diff::diff(&a, &b, &options.with_work(work))
        })?;
        plain::to_python(py, &diff)
    }

    /// Compares this file with another by a sample of the weights.
    #[pyo3(signature = (other, share, include, exclude, threads, progress))]
    #[allow(clippy::too_many_arguments)] // Keywords of one Python function.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        other: &NativeFile,
        share: Option<f64>,
        include: Option<Vec<String>>,
        exclude: Option<Vec<String>>,
        threads: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (a, b) = (self.get(py)?, other.get(py)?);
        let mut options = SampleOptions::new().with_select(options::select(py, include, exclude)?);
        if let Some(share) = share {
            options = options.with_share(share);
        }
        let found = run_with(py, u64::MAX, threads, progress, |work| {
            holdall::diff::sample(&a, &b, &options.with_work(work))
        })?;
        plain::to_python(py, &found)
    }

    /// Writes the contents of the file to a path, or to an object with `write`.
    #[pyo3(signature = (target, writing, converting, graph, progress))]
    fn convert<'py>(
        &self,
        py: Python<'py>,
        target: &Bound<'py, PyAny>,
        writing: Writing<'py>,
        converting: Converting,
        graph: Option<&NativeFile>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let file = self.get(py)?;
        let (mut options, threads) = (writing.conversion(py, &converting)?, writing.threads);
        if let Some(graph) = graph {
            options = options.with_graph(graph.get(py)?);
        }
        let report = match writer::Target::from_object(target)? {
            writer::Target::Path(path) => run_with(py, u64::MAX, threads, progress, |work| {
                holdall::convert::convert(&file, path, &options.with_work(work))
            })?,
            writer::Target::Object(object) => run_with(py, u64::MAX, threads, progress, |work| {
                let out = writer::PyWrite::new(object);
                let options = options.with_work(work);
                holdall::convert::convert_to(&file, out, &options).map(|(report, _)| report)
            })?,
        };
        plain::to_python(py, &report)
    }
}

/// Returns whether two dense tensors have the same element type and shape.
fn is_alike(a: &TensorInfo, b: &TensorInfo) -> bool {
    a.shape() == b.shape() && a.dtype() == b.dtype() && a.logical_type() == b.logical_type()
}

fn load_options(py: Python<'_>, check: Option<&str>) -> PyResult<LoadOptions> {
    let mut options = LoadOptions::new();
    if let Some(check) = check {
        options = options.with_check(options::check_of(py, check)?);
    }
    Ok(options)
}

/// Elements: their type, shape and bytes.
type Given = (String, Vec<u64>, Buffer);

fn dense(d: Dense) -> Given {
    let name = dtype::name(d.dtype(), d.logical_type());
    (name, d.shape().to_vec(), Buffer::frozen(d.into_bytes()))
}

/// Returns words as little-endian bytes.
fn words(all: &[u64]) -> Buffer {
    let bytes: Vec<u8> = all.iter().flat_map(|w| w.to_le_bytes()).collect();
    Buffer::frozen(bytes.into())
}
