//! Saving many tensors with one call. NumPy arrays lend their memory, and no Python code runs for
//! them; the Python half describes all other values.

use crate::arrays::{ndarray, width};
use crate::dtype;
use crate::errors::Raise;
use crate::file::NativeFile;
use crate::memory::{BorrowedBuffer, Elements};
use crate::options::Writing;
use crate::work::{Meter, part};
use crate::writer::{Open, Spec, spec};
use holdall::ledger::{Expected, TieRule};
use holdall::{Cancel, ComponentRef, ComponentSpec, DType, Layout, LogicalType, Role, TensorSpec};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::mem::take;

/// The number of bytes between two checks for signals and calls of the listener.
const CHUNK: usize = 32 << 20;
/// The number of cached NumPy dtypes: files usually have few, unless each array has a separate
/// dtype object.
const DTYPES: usize = 32;

/// Writes arrays to a file.
///
/// `tensors` yields names and values. `half` is the `_Half` object of the Python half:
/// `half.described(name, value)` returns the spec of a tensor, and for each component its part,
/// its elements if their memory layout is that of a file, and its identity, which equal arrays
/// share; `half.stored_as(dtype)` is the name of NumPy elements whose memory layout is that of a
/// file. With `tie`, arrays over the same memory are written once; with `ordered`, tensors are in
/// the format's own order. If all of the tensors are from one file, `source` is that file, and
/// the parts of it that were not written are returned.
/// then what of it was left behind is returned.
#[pyfunction]
#[pyo3(signature = (target, writing, tensors, half, tie, ordered, progress, source))]
#[allow(clippy::too_many_arguments)] // As Python calls it.
pub(crate) fn save(
    target: &Bound<'_, PyAny>,
    writing: Writing<'_>,
    tensors: &Bound<'_, PyAny>,
    half: &Bound<'_, PyAny>,
    tie: bool,
    ordered: bool,
    progress: Option<&Bound<'_, PyAny>>,
    source: Option<(Bound<'_, NativeFile>, bool)>,
) -> PyResult<Vec<String>> {
    let py = target.py();
    let source = match &source {
        Some((file, keeps_attributes)) => Some((file.get().get(py)?, expected(*keeps_attributes))),
        None => None,
    };
    let mut given = Given::new(half)?;
    for pair in tensors.try_iter()? {
        let (name, value) = pair?.extract()?;
        given.add(&name, &value)?;
    }
    if tie {
        given.tie()?;
    }
    let cancel = Cancel::new();
    let mut writer = Open::new(target, &writing, &cancel)?;
    if ordered {
        given.arrange(&writer.order(&given.specs));
    }
    let Given { specs, parts, .. } = given;
    let own = specs.iter().flat_map(|s| &s.components).filter(|c| c.shares.is_none());
    let total = own.fold(0u64, |n, c| n.saturating_add(c.decoded_len));
    let meter = Meter::new(total);
    let progress = progress.map(|listener| (listener, &meter));
    let write = Write {
        cancel: &cancel,
        progress,
        meter: &meter,
        quick: total < QUICK && !writing.compresses(),
    };
    let written = write.all(py, &mut writer, specs, &parts);
    // Without the GIL, like everything that the writer does: it may take long, and may call
    // Python.
    match written {
        Ok(()) => {
            let source = source.as_ref().map(|(file, expected)| (file, expected));
            write.part(py, || writer.finish_from(source))
        }
        Err(e) => {
            py.detach(|| drop(writer));
            Err(e)
        }
    }
}

/// The expected differences when an open file is saved: its arrays are written as Python gets
/// them, with separate bytes and with new digests.
fn expected(keeps_attributes: bool) -> Expected {
    let mut expected = Expected::new();
    expected.choose_digests();
    expected.set_ties(TieRule::Asked);
    if !keeps_attributes {
        expected.replace_attributes();
    }
    expected
}

/// The source of a component's bytes.
enum ComponentData {
    /// Memory in the layout of a file.
    Elements(Elements),
    /// An object of the Python half that returns chunks.
    Chunks(Py<PyAny>),
    /// The bytes of an earlier component.
    Shared,
}

/// The element type for a NumPy dtype; `None` if its memory layout is not that of a file.
type Known = Option<(DType, Option<LogicalType>)>;

/// Tensors to be written.
struct Given<'py> {
    half: &'py Bound<'py, PyAny>,
    ndarray: &'py Bound<'py, PyAny>,
    dtypes: Vec<(Bound<'py, PyAny>, Known)>,
    specs: Vec<TensorSpec>,
    /// For each tensor, the sources of its components.
    parts: Vec<Vec<ComponentData>>,
    /// Identities of tensors from the Python half, which equal arrays share.
    identities: Vec<(usize, Bound<'py, PyAny>)>,
}

impl<'py> Given<'py> {
    fn new(half: &'py Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        let ndarray = ndarray(half.py())?;
        let (dtypes, specs, parts, identities) = Default::default();
        Ok(Given { half, ndarray, dtypes, specs, parts, identities })
    }

    fn add(&mut self, name: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<()> {
        if let Ok(name) = name.cast::<PyString>()
            && value.get_type().is(self.ndarray)
            && let Some((dtype, logical_type)) = self.element(value)?
            && let Some(elements) = Elements::from_array(value)
            && Some(elements.width()) == width(dtype, logical_type.as_ref())
            // The Python half converts them to 0 and 1.
            && (dtype != DType::Bool || elements.bytes().iter().all(|byte| *byte <= 1))
        {
            let mut data = ComponentSpec::new(Role::Data, dtype, elements.bytes().len() as u64);
            data.logical_type = logical_type;
            self.specs.push(TensorSpec {
                name: name.to_str()?.to_owned(),
                shape: elements.shape(),
                layout: Layout::Dense,
                attributes: holdall::Attributes::new(),
                components: vec![data],
            });
            self.parts.push(vec![ComponentData::Elements(elements)]);
            return Ok(());
        }
        self.add_described(name, value)
    }

    /// Returns the element type of an array, if its memory layout is that of a file.
    fn element(&mut self, array: &Bound<'py, PyAny>) -> PyResult<Known> {
        let dtype = array.getattr(pyo3::intern!(array.py(), "dtype"))?;
        if let Some((_, known)) = self.dtypes.iter().find(|(known, _)| known.is(&dtype)) {
            return Ok(known.clone());
        }
        let name = self.half.call_method1("stored_as", (&dtype,))?;
        let name: Option<String> = name.extract()?;
        let known = name.as_deref().and_then(dtype::from_name);
        if self.dtypes.len() < DTYPES {
            self.dtypes.push((dtype, known.clone()));
        }
        Ok(known)
    }

    fn add_described(
        &mut self,
        name: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        type Described<'py> =
            (Spec<'py>, Vec<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Bound<'py, PyAny>)>);
        let py = value.py();
        let described: Described<'py> =
            self.half.call_method1("described", (name, value))?.extract()?;
        let spec = spec(py, described.0)?;
        if described.1.len() != spec.components.len() {
            return Err(PyTypeError::new_err("a part for each component"));
        }
        let mut parts = Vec::new();
        for ((part, array, identity), component) in described.1.into_iter().zip(&spec.components) {
            if !identity.is_none() && spec.layout == Layout::Dense {
                self.identities.push((self.specs.len(), identity));
            }
            let elements = array.and_then(|array| Elements::from_array(&array));
            let whole = elements.filter(|e| e.bytes().len() as u64 == component.decoded_len);
            parts.push(
                whole.map_or_else(|| ComponentData::Chunks(part.unbind()), ComponentData::Elements),
            );
        }
        self.specs.push(spec);
        self.parts.push(parts);
        Ok(())
    }

    /// Reorders the tensors; `order` contains each index once.
    fn arrange(&mut self, order: &[usize]) {
        let all = take(&mut self.specs).into_iter().zip(take(&mut self.parts));
        let mut slots: Vec<_> = all.map(Some).collect();
        let in_order = order.iter().filter_map(|at| slots.get_mut(*at).and_then(Option::take));
        (self.specs, self.parts) = in_order.unzip();
    }

    /// Makes dense and strided tensors that are the same array share their bytes.
    fn tie(&mut self) -> PyResult<()> {
        let mut same: Vec<(usize, usize)> = Vec::new();
        if let Some((_, first)) = self.identities.first() {
            let seen = PyDict::new(first.py());
            for (at, identity) in &self.identities {
                let first: usize = seen.call_method1("setdefault", (identity, at))?.extract()?;
                if first != *at {
                    same.push((*at, first));
                }
            }
        }
        let mut described = self.identities.iter().map(|(at, _)| *at).peekable();
        let mut starts: Vec<(usize, usize)> = Vec::with_capacity(self.parts.len());
        for (at, (spec, parts)) in self.specs.iter().zip(&self.parts).enumerate() {
            if described.next_if_eq(&at).is_none()
                && matches!(spec.layout, Layout::Dense | Layout::Strided)
                && let [ComponentData::Elements(elements)] = &parts[..]
                && !elements.bytes().is_empty()
            {
                starts.push((elements.start(), at));
            }
        }
        starts.sort_unstable();
        for of_one in starts.chunk_by(|a, b| a.0 == b.0).filter(|all| all.len() > 1) {
            let mut firsts: Vec<usize> = Vec::new();
            for &(_, at) in of_one {
                let spec = &self.specs[at];
                let is_same = |first: &&usize| {
                    let first = &self.specs[**first];
                    let is_alike = first.layout == spec.layout
                        && (spec.layout == Layout::Dense || first.attributes == spec.attributes);
                    is_alike && first.shape == spec.shape && first.components == spec.components
                };
                match firsts.iter().find(is_same) {
                    Some(first) => same.push((at, *first)),
                    None => firsts.push(at),
                }
            }
        }
        for (at, first) in same {
            let shares = ComponentRef { tensor: self.specs[first].name.clone(), role: Role::Data };
            if let (Some(data), [part]) =
                (self.specs[at].components.first_mut(), &mut self.parts[at][..])
            {
                data.shares = Some(shares);
                *part = ComponentData::Shared;
            }
        }
        Ok(())
    }
}

/// Less than this is written fast enough to be uninterruptible, unless it is compressed.
const QUICK: u64 = 16 << 20;

/// The state of writing a file.
struct Write<'a, 'py> {
    cancel: &'a Cancel,
    progress: Option<(&'a Bound<'py, PyAny>, &'a Meter)>,
    meter: &'a Meter,
    quick: bool,
}

impl Write<'_, '_> {
    /// Does a part of the work; Ctrl-C, and exceptions of the listener, end it.
    fn part<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> holdall::Result<T> + Send,
    ) -> PyResult<T> {
        part(py, self.cancel, self.progress, work)
    }

    fn all(
        &self,
        py: Python<'_>,
        writer: &mut Open,
        specs: Vec<TensorSpec>,
        parts: &[Vec<ComponentData>],
    ) -> PyResult<()> {
        py.detach(|| writer.declare(&specs)).raise(py)?;
        let tell = |bytes: usize| -> PyResult<()> {
            self.meter.add(bytes as u64);
            py.check_signals()?;
            let listener = self.progress.filter(|_| bytes > 0);
            listener.map_or(Ok(()), |(listener, meter)| meter.tell(listener))
        };
        let mut lent = Lending::default();
        let mut specs = specs.into_iter().zip(parts);
        loop {
            let run = || lent.write(writer, &mut specs);
            let (bytes, then) =
                if self.quick { py.detach(run).raise(py)? } else { self.part(py, run)? };
            tell(bytes)?;
            match then {
                Then::More => {}
                Then::Chunks(part) => {
                    for chunk in part.bind(py).call_method0("chunks")?.try_iter()? {
                        let chunk = BorrowedBuffer::from_object(&chunk?)?;
                        let bytes = chunk.bytes();
                        let run = || writer.write(bytes);
                        match self.quick {
                            true => py.detach(run).raise(py)?,
                            false => self.part(py, run)?,
                        }
                        tell(bytes.len())?;
                    }
                }
                Then::End => return Ok(()),
            }
        }
    }
}

/// The tensor that is being written: its remaining parts, and the progress in the first.
#[derive(Default)]
struct Lending<'p> {
    parts: &'p [ComponentData],
    written: usize,
}

/// The item after a run of borrowed bytes.
enum Then<'p> {
    More,
    Chunks(&'p Py<PyAny>),
    End,
}

impl<'p> Lending<'p> {
    /// Writes tensors that lend their memory, up to [`CHUNK`] bytes; returns the number written.
    fn write(
        &mut self,
        writer: &mut Open,
        specs: &mut impl Iterator<Item = (TensorSpec, &'p Vec<ComponentData>)>,
    ) -> holdall::Result<(usize, Then<'p>)> {
        let mut bytes = 0;
        loop {
            match self.parts {
                [] => match specs.next() {
                    Some((spec, parts)) => {
                        writer.tensor(spec)?;
                        (self.parts, self.written) = (parts, 0);
                    }
                    None => return Ok((bytes, Then::End)),
                },
                [ComponentData::Elements(elements), rest @ ..] => {
                    let left = &elements.bytes()[self.written..];
                    let now = &left[..left.len().min(CHUNK - bytes)];
                    writer.write(now)?;
                    bytes += now.len();
                    self.written += now.len();
                    if now.len() == left.len() {
                        (self.parts, self.written) = (rest, 0);
                    }
                    if bytes == CHUNK {
                        return Ok((bytes, Then::More));
                    }
                }
                [ComponentData::Chunks(part), rest @ ..] => {
                    (self.parts, self.written) = (rest, 0);
                    return Ok((bytes, Then::Chunks(part)));
                }
                [ComponentData::Shared, rest @ ..] => (self.parts, self.written) = (rest, 0),
            }
        }
    }
}
