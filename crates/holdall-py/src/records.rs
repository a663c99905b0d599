//! Records of datasets: the functions that need the schema. The Python half creates the arrays.

use crate::decode::{Decode, too_large};
use crate::errors::Raise;
use crate::file::NativeFile;
use crate::kinds::Table;
use crate::memory::{BorrowedBuffer, Buffer};
use crate::schemas::outline;
use crate::work::run;
use holdall::json::parse;
use holdall::records::gather::{ColumnBytes, Gathered, RowSelection, TextForm, Values};
use holdall::records::{Iter, Record, RecordBytes, RecordsAt, Sample};
use holdall::schema::{Accessor, Kind, Schema};
use holdall::{Limits, Records, Result, TensorRecords as _, Work};
use pyo3::Borrowed;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use std::cell::Cell;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The number of records, or strings, between two checks for signals.
pub(crate) const STEP: u64 = 4096;

/// Returns the types of a record of that kind (JSON text); the record itself is last.
#[pyfunction]
pub(crate) fn record_types<'py>(py: Python<'py>, kind: &str) -> PyResult<Bound<'py, PyList>> {
    let limits = Limits::default().schema_limits();
    let kind = parse(kind.as_bytes(), limits.depth).raise(py)?;
    let schema = Schema::compile_record(&kind, &limits).raise(py)?;
    match schema.record() {
        Some(root) => Table::from_type(&schema, root).rows(py, &schema),
        None => Ok(PyList::empty(py)),
    }
}

/// Returns `count` random numbers from a range, sorted; the same ones for the same `seed`.
#[pyfunction]
pub(crate) fn sample(start: u64, stop: u64, count: u64, seed: u64) -> Vec<u64> {
    Sample { count, seed }.draw(start..stop)
}

/// Returns `count` of these numbers at random, in their original order.
#[pyfunction]
pub(crate) fn sample_among(numbers: Vec<u64>, count: u64, seed: u64) -> Vec<u64> {
    Sample { count, seed }.among(numbers)
}

/// The records of one tensor of an open file.
#[pyclass(frozen, name = "Records", module = "holdall._holdall")]
pub(crate) struct NativeRecords {
    file: Py<NativeFile>,
    records: Records,
    table: Table,
}

impl NativeRecords {
    /// Returns the records, unless their file is closed.
    fn get(&self, py: Python<'_>) -> PyResult<&Records> {
        self.file.get().get(py)?;
        Ok(&self.records)
    }

    /// Reads records one after the other, of which only these members are used.
    fn each(
        &self,
        py: Python<'_>,
        indices: Picked,
        part: Option<&Accessor>,
        mut with: impl FnMut(&Record<'_>) -> PyResult<()>,
    ) -> PyResult<()> {
        let records = self.get(py)?;
        let mut all = match indices {
            Picked::Range(range) if range.end.saturating_sub(range.start) != 1 => {
                All::Range(records.iter(range).raise(py)?)
            }
            indices => {
                let whole = records.accessor("").raise(py)?;
                let parts = std::iter::once(part.cloned().unwrap_or(whole));
                All::At(records.at(indices.listed()).with_parts(parts))
            }
        };
        let mut since = 0;
        while let Some(record) = match records.bytes() {
            Some(_) => all.next(),
            None => py.detach(|| all.next()),
        } {
            with(&record.raise(py)?)?;
            since += 1;
            if u64::is_multiple_of(since, STEP) {
                py.check_signals()?;
            }
        }
        Ok(())
    }
}

/// The JSON texts of a group's values, the number of its records, and the JSON texts of its aggregates.
type GroupRow = (Vec<Option<String>>, u64, Vec<Option<String>>);

/// An iterator over records.
enum All<'r> {
    Range(Iter<'r>),
    At(RecordsAt<'r>),
}

impl<'r> Iterator for All<'r> {
    type Item = Result<Record<'r>>;

    fn next(&mut self) -> Option<Result<Record<'r>>> {
        match self {
            All::Range(records) => records.next(),
            All::At(records) => records.next(),
        }
    }
}

#[pymethods]
impl NativeRecords {
    /// Opens the records of tensor `at`.
    #[staticmethod]
    fn open(py: Python<'_>, file: Py<NativeFile>, at: usize) -> PyResult<NativeRecords> {
        let tensor = file.get().tensor(py, at)?;
        let records = py.detach(|| tensor.records()).raise(py)?;
        let table = Table::from_type(records.schema(), records.ty());
        Ok(NativeRecords { file, records, table })
    }

    /// Returns the number of records, and the distance between them in bytes.
    fn head(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let records = self.get(py)?;
        Ok((records.len(), records.extent().stride))
    }

    /// Returns the number of records that have about this many bytes together.
    fn rows_in(&self, py: Python<'_>, bytes: u64) -> PyResult<u64> {
        Ok(self.get(py)?.rows_in(bytes))
    }

    /// Returns every member: see `schemas::outline`.
    fn members<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        outline(py, self.get(py)?.members().raise(py)?)
    }

    /// Returns the types of a record; the record itself is last.
    fn types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.table.rows(py, self.get(py)?.schema())
    }

    /// Returns a member: the index of its type, its offset, and whether every record has it.
    fn find(&self, py: Python<'_>, path: &str) -> PyResult<(usize, usize, bool)> {
        let part = self.get(py)?.accessor(path).raise(py)?;
        Ok((self.table.index_of(part.ty()), part.offset(), part.is_always_present()))
    }

    /// Returns whether the numbers of a member stand for something else: times and durations of NumPy, or names.
    fn has_meaning(&self, py: Python<'_>, path: &str) -> PyResult<bool> {
        let records = self.get(py)?;
        let part = records.accessor(path).raise(py)?;
        Ok(records.schema().ty(part.ty()).meaning.is_some())
    }

    /// Returns the records at these positions, or their member at a path, as Python objects;
    /// `make` creates arrays, times and JSON values.
    #[pyo3(signature = (indices, path, make))]
    fn values<'py>(
        &self,
        py: Python<'py>,
        indices: Picked,
        path: Option<&str>,
        make: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let records = self.get(py)?;
        let part = path.map(|path| records.accessor(path)).transpose().raise(py)?;
        let left = Cell::new(records.limits().decoded_len);
        let out = PyList::empty(py);
        self.each(py, indices, part.as_ref(), |record| {
            let found = match &part {
                Some(part) => record.part(part).raise(py)?,
                None => Some(record.clone()),
            };
            let Some(value) = found else { return out.append(py.None()) };
            out.append(self.decode(py, &value, make, &left)?)
        })?;
        Ok(out)
    }

    /// Returns strings, names of an enum, or JSON objects as text, or runs of bytes; `None` if the
    /// member is absent.
    fn texts<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        indices: Picked,
    ) -> PyResult<Bound<'py, PyList>> {
        let records = self.get(py)?;
        let part = records.accessor(path).raise(py)?;
        let is_bytes = matches!(records.schema().ty(part.ty()).kind, Kind::Bytes);
        let column = run(py, self.bytes_of(py, indices.len())?, |work| {
            Ok(records.gather(&[path.parse()?], &indices.chosen(), &work)?.pop())
        })?;
        let Some(Gathered { len, presence: there, values, .. }) = column else {
            return Ok(PyList::empty(py));
        };
        let is_present = |at: usize| {
            let byte = there.as_ref().map_or(Some(&u8::MAX), |bits| bits.get(at / 8));
            byte.is_some_and(|byte| byte >> (at % 8) & 1 == 1)
        };
        let out = PyList::empty(py);
        match values {
            Values::Binary64(offsets, bytes) => {
                let mut start = 0;
                for (at, end) in offsets.as_chunks().0.iter().skip(1).enumerate() {
                    // The bytes are in memory.
                    let end = u64::from_le_bytes(*end) as usize;
                    let run = bytes.get(start..end).unwrap_or_default();
                    start = end;
                    match (is_present(at), is_bytes) {
                        (false, _) => out.append(py.None())?,
                        (true, true) => out.append(PyBytes::new(py, run))?,
                        (true, false) => out.append(PyString::from_bytes(py, run)?)?,
                    }
                    if (at as u64).is_multiple_of(STEP) {
                        py.check_signals()?;
                    }
                }
            }
            Values::EnumIndices(data, e) => {
                let names: Vec<_> = e.values.iter().map(|name| PyString::new(py, name)).collect();
                let width = e.width.bytes() as usize;
                for (at, index) in data.as_ref().chunks_exact(width).take(len).enumerate() {
                    let mut number = [0; 4];
                    number.iter_mut().zip(index).for_each(|(slot, byte)| *slot = *byte);
                    let name = names.get(u32::from_le_bytes(number) as usize);
                    out.append(name.filter(|_| is_present(at)))?;
                }
            }
            _ => return Err(PyValueError::new_err("the member is not text")),
        }
        Ok(out)
    }

    /// Returns the positions, as int64, of the records in a range for which all conditions hold.
    fn query(
        &self,
        py: Python<'_>,
        start: u64,
        stop: u64,
        conditions: Vec<String>,
    ) -> PyResult<Buffer> {
        let records = self.get(py)?;
        let len = (stop.saturating_sub(start)).saturating_mul(records.extent().stride);
        let found = run(py, len, |work| {
            let conditions = conditions.iter().map(|text| records.condition(text));
            let conditions = conditions.collect::<Result<Vec<_>>>()?;
            let mut out = Vec::new();
            for (done, record) in (1..).zip(records.iter(start..stop)?) {
                let record = record?;
                let mut holds = true;
                for condition in &conditions {
                    holds = holds && condition.holds(&record)?;
                }
                if holds {
                    out.extend(record.index().to_le_bytes());
                }
                look(&work, done)?;
            }
            Ok(out)
        });
        found.map(|out| Buffer::frozen(out.into()))
    }

    /// Returns these positions sorted by members, as int64.
    fn order(&self, py: Python<'_>, indices: Picked, members: Vec<String>) -> PyResult<Buffer> {
        let records = self.get(py)?;
        let found = run(py, self.bytes_of(py, indices.len())?, |work| {
            let order = records.sorted(&members, &indices.chosen(), &work)?;
            Ok(order.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
        });
        found.map(|out| Buffer::frozen(out.into()))
    }

    /// Returns the values of members as JSON texts, with the number of records at these positions
    /// that have each, and the JSON texts of aggregates of these records.
    fn groups(
        &self,
        py: Python<'_>,
        indices: Picked,
        members: Vec<String>,
        aggregates: Vec<String>,
    ) -> PyResult<Vec<GroupRow>> {
        let records = self.get(py)?;
        run(py, self.bytes_of(py, indices.len())?, |work| {
            let groups = records.counted(&members, &aggregates, &indices.chosen(), &work)?;
            let all = groups.finish().into_iter();
            Ok(all.map(|group| (group.values, group.count, group.aggregates)).collect())
        })
    }

    /// Writes a member of the records at these positions to files in a folder, and returns their
    /// names.
    fn export(
        &self,
        py: Python<'_>,
        indices: Vec<u64>,
        member: &str,
        folder: PathBuf,
        names: Option<&str>,
        overwrite: bool,
    ) -> PyResult<Vec<Option<String>>> {
        let records = self.get(py)?;
        run(py, u64::MAX, |work| {
            let mut export = records.export(member, folder)?.with_overwrite(overwrite);
            if let Some(names) = names {
                export = export.with_names(records, names)?;
            }
            let mut out = Vec::new();
            let parts: Vec<Accessor> = export.parts().cloned().collect();
            for record in records.at(indices).with_parts(parts) {
                out.push(export.add(&record?)?);
                look(&work, out.len())?;
            }
            Ok(out)
        })
    }

    /// Returns the members at these paths, each as a column; with `as_views` strings are views. The
    /// strings of the columns in `short` have offsets of 32 bits.
    #[pyo3(signature = (paths, indices, as_views=false, short=Vec::new()))]
    fn gather(
        &self,
        py: Python<'_>,
        paths: Vec<String>,
        indices: Picked,
        as_views: bool,
        short: Vec<bool>,
    ) -> PyResult<Vec<NativeColumn>> {
        let records = self.get(py)?;
        let form = |short| if short { TextForm::Offsets32 } else { TextForm::Offsets64 };
        let forms: Vec<TextForm> = short.into_iter().map(form).collect();
        let columns = run(py, self.bytes_of(py, indices.len())?, |work| {
            let paths = paths.iter().map(|path| path.parse()).collect::<Result<Vec<_>>>()?;
            match as_views {
                true => records.gather_views(&paths, &indices.chosen(), &work),
                false => records.gather_as(&paths, &forms, &indices.chosen(), &work),
            }
        })?;
        Ok(columns.into_iter().map(NativeColumn::from).collect())
    }

    /// Returns a bit for each record, set if it has the member; `None` if all have it.
    fn presence(&self, py: Python<'_>, path: &str, indices: Picked) -> PyResult<Option<Buffer>> {
        let records = self.get(py)?;
        let found = run(py, self.bytes_of(py, indices.len())?, |work| {
            records.gather_presence(&path.parse()?, &indices.chosen(), &work)
        })?;
        Ok(found.map(Buffer::frozen))
    }

    /// Returns the concatenated elements of a variable-length array of records (or the bytes of a
    /// string, JSON or bytes), and where those of each record start and end, counted in elements:
    /// an int64 more than there are records.
    fn ragged(&self, py: Python<'_>, path: &str, indices: Picked) -> PyResult<(Buffer, Buffer)> {
        let records = self.get(py)?;
        let (offsets, values) = run(py, u64::MAX, |work| {
            records.gather_heap_data(&path.parse()?, &indices.chosen(), &work)
        })?;
        Ok((Buffer::frozen(values), Buffer::frozen(offsets)))
    }

    /// Copies bytes of the records at these positions (int64) into writable buffers: for each run its
    /// first byte in a record, its length, and the buffer.
    fn copy_bytes(
        &self,
        py: Python<'_>,
        indices: Picked,
        runs: Vec<(usize, usize, Bound<'_, PyAny>)>,
    ) -> PyResult<()> {
        let records = self.get(py)?;
        let mut lent = Vec::with_capacity(runs.len());
        for (start, len, buffer) in &runs {
            let range = *start..start.saturating_add(*len);
            lent.push((range, BorrowedBuffer::writable(buffer)?));
        }
        let mut runs: Vec<RecordBytes<'_>> = lent
            .iter_mut()
            .map(|(range, out)| RecordBytes { range: range.clone(), out: out.bytes_mut() })
            .collect();
        let len = self.bytes_of(py, indices.len())?;
        let indices = indices.listed();
        run(py, len, |_| records.copy_bytes(&indices, &mut runs))
    }

    /// Starts to read all records into a cache, as [`Records::fill_cache`] does.
    fn fill_cache(&self, py: Python<'_>, part: u64, parts: u64) -> PyResult<()> {
        self.get(py)?.fill_cache(part, parts);
        Ok(())
    }

    /// Returns the bytes of the records at these positions, with the same stride as in the file.
    fn rows_at(&self, py: Python<'_>, indices: Vec<u64>) -> PyResult<Buffer> {
        let records = self.get(py)?;
        let len = self.bytes_of(py, indices.len() as u64)?;
        if len > records.limits().decoded_len {
            return Err(too_large(records.tensor())).raise(py);
        }
        // At most the limit, which fits memory.
        let stride = records.extent().stride as usize;
        let found = run(py, len, |work| {
            let mut out = Vec::new();
            for (number, record) in (1..).zip(records.at(indices)) {
                out.extend_from_slice(record?.bytes());
                out.resize(stride.saturating_mul(number), 0);
                look(&work, number)?;
            }
            Ok(out)
        });
        found.map(|out| Buffer::frozen(out.into()))
    }
}

impl NativeRecords {
    /// Returns the bytes of that many records, an estimate of the time needed.
    fn bytes_of(&self, py: Python<'_>, count: u64) -> PyResult<u64> {
        Ok(count.saturating_mul(self.get(py)?.extent().stride))
    }

    fn decode<'py>(
        &self,
        py: Python<'py>,
        record: &Record<'_>,
        make: &Bound<'py, PyAny>,
        left: &Cell<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let schema = self.records.schema();
        let (tensor, table) = (self.records.tensor(), &self.table);
        if let Some(heap) = self.records.heap() {
            py.detach(|| record.check()).raise(py)?;
            let decode = Decode { py, tensor, schema, table, heap, make, left };
            return decode.value(record.ty(), record.bytes());
        }
        let limits = self.records.limits();
        let fetched = py.detach(|| {
            record.with_heap(|schema, bytes, heap| {
                schema.check_record(record.ty(), bytes, heap, limits)?;
                Ok((bytes.to_vec(), heap.to_vec()))
            })
        });
        let (bytes, heap) = fetched.raise(py)?;
        let decode = Decode { py, tensor, schema, table, heap: &heap, make, left };
        decode.value(record.ty(), &bytes)
    }
}

fn look(work: &Work, done: usize) -> Result<()> {
    if (done as u64).is_multiple_of(STEP) { work.check() } else { Ok(()) }
}

/// Records or runs selected by Python: a range, or positions as 64-bit numbers in memory.
pub(crate) enum Picked {
    Range(Range<u64>),
    At(Vec<u64>),
}

impl<'py> FromPyObject<'_, 'py> for Picked {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Picked> {
        if let Ok((start, stop)) = object.extract::<(u64, u64)>() {
            return Ok(Picked::Range(start..stop));
        }
        let lent = BorrowedBuffer::from_object(&object)?;
        let indices = lent.bytes().as_chunks().0;
        Ok(Picked::At(indices.iter().map(|place| u64::from_ne_bytes(*place)).collect()))
    }
}

impl Picked {
    fn len(&self) -> u64 {
        match self {
            Picked::Range(range) => range.end.saturating_sub(range.start),
            Picked::At(indices) => indices.len() as u64,
        }
    }

    pub(crate) fn listed(self) -> Vec<u64> {
        match self {
            Picked::Range(range) => range.collect(),
            Picked::At(indices) => indices,
        }
    }

    fn chosen(&self) -> RowSelection<'_, '_> {
        match self {
            Picked::Range(range) => RowSelection::Range(range.clone()),
            Picked::At(indices) => RowSelection::At(indices),
        }
    }
}

/// A gathered column, until it is taken.
#[pyclass(frozen, name = "Column", module = "holdall._holdall")]
pub(crate) struct NativeColumn(Mutex<Option<Gathered>>);

impl From<Gathered> for NativeColumn {
    fn from(column: Gathered) -> NativeColumn {
        NativeColumn(Mutex::new(Some(column)))
    }
}

impl NativeColumn {
    pub(crate) fn take(&self) -> PyResult<Gathered> {
        let column = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        column.ok_or_else(|| PyValueError::new_err("the column was taken already"))
    }
}

#[pymethods]
impl NativeColumn {
    /// Returns its numbers in writable memory (booleans as bits), and a bit for each present one,
    /// or `None` if all are present.
    fn numbers(&self) -> PyResult<(Buffer, Option<Buffer>)> {
        let Gathered { presence: there, values, .. } = self.take()?;
        let data = match values {
            Values::Bits(data) | Values::Numbers(data) | Values::EnumIndices(data, _) => data,
            _ => return Err(PyValueError::new_err("a column of other values than numbers")),
        };
        let data = match data {
            ColumnBytes::Own(memory) => Buffer::of_column(memory.into()),
            ColumnBytes::Shared(bytes) => Buffer::frozen(bytes),
        };
        Ok((data, there.map(Buffer::frozen)))
    }
}
