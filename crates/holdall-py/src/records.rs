//! Records of datasets, and the runs of blobs: what needs the schema. Arrays over bytes are made by the
//! Python half.

use crate::decode::{Decode, too_large};
use crate::errors::Raise;
use crate::file::NativeFile;
use crate::kinds::{Table, dtype_name};
use crate::memory::Buffer;
use crate::schemas::outline;
use crate::work::run;
use bytes::Bytes;
use holdall::json::parse;
use holdall::records::{At, Iter, Record, Sample};
use holdall::schema::record::rules::ACCESS;
use holdall::schema::{Accessor, Content, Kind, Schema};
use holdall::{Blob, Limits, Records, Result, Role, TensorRecords as _, Work};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use std::borrow::Cow;
use std::cell::Cell;
use std::iter::once;
use std::ops::Range;
use std::path::PathBuf;

/// Records, or texts, between two looks at signals.
const STEP: u64 = 4096;

/// The types that a record of that kind (JSON text) is made of; its own is the last.
#[pyfunction]
pub(crate) fn record_types<'py>(py: Python<'py>, kind: &str) -> PyResult<Bound<'py, PyList>> {
    let limits = Limits::default().of_schemas();
    let kind = parse(kind.as_bytes(), limits.depth).raise(py)?;
    let schema = Schema::compile_record(&kind, &limits).raise(py)?;
    match schema.record() {
        Some(root) => Table::of(&schema, root).rows(py, &schema),
        None => Ok(PyList::empty(py)),
    }
}

/// `count` numbers of a range, by chance, in their order: the same ones for one `seed`.
#[pyfunction]
pub(crate) fn sample(start: u64, stop: u64, count: u64, seed: u64) -> Vec<u64> {
    Sample { count, seed }.of(start..stop)
}

/// `count` of these numbers, by chance, in their order.
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
    /// The records, unless their file was closed.
    fn get(&self, py: Python<'_>) -> PyResult<&Records> {
        self.file.get().get(py)?;
        Ok(&self.records)
    }

    /// One record after the other, of which these parts are used.
    fn each(
        &self,
        py: Python<'_>,
        places: Places,
        part: Option<&Accessor>,
        mut with: impl FnMut(&Record<'_>) -> PyResult<()>,
    ) -> PyResult<()> {
        let records = self.get(py)?;
        let mut all = match places {
            Places::Range(range) if range.end.saturating_sub(range.start) != 1 => {
                All::Range(records.iter(range).raise(py)?)
            }
            places => {
                let whole = records.accessor("").raise(py)?;
                let parts = std::iter::once(part.cloned().unwrap_or(whole));
                All::At(records.at(places.listed()).with_parts(parts))
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

    /// The records at these places, or the part of each at a path, as Python objects.
    fn objects<'py>(
        &self,
        py: Python<'py>,
        places: Places,
        path: Option<&str>,
        make: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let records = self.get(py)?;
        let part = path.map(|path| records.accessor(path)).transpose().raise(py)?;
        let left = Cell::new(records.limits().decoded_len);
        let out = PyList::empty(py);
        self.each(py, places, part.as_ref(), |record| {
            let found = match &part {
                Some(part) => record.part(part).raise(py)?,
                None => Some(record.clone()),
            };
            let Some(value) = found else { return out.append(py.None()) };
            out.append(self.decode(py, &value, make, &left)?)
        })?;
        Ok(out)
    }

    /// Texts of one part of the records at these places.
    fn strings<'py>(
        &self,
        py: Python<'py>,
        places: Places,
        path: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let records = self.get(py)?;
        let part = records.accessor(path).raise(py)?;
        let mut left = records.limits().decoded_len;
        let out = PyList::empty(py);
        self.each(py, places, Some(&part), |record| {
            let found = match records.heap() {
                Some(_) => text(record, &part),
                None => py.detach(|| text(record, &part)),
            };
            let Some(found) = found.raise(py)? else { return out.append(py.None()) };
            let rest = left.checked_sub(found.len() as u64);
            let rest = rest.ok_or_else(|| too_large(records.tensor()));
            left = rest.raise(py)?;
            out.append(PyString::new(py, &found))
        })?;
        Ok(out)
    }
}

/// Which records.
enum Places {
    Range(Range<u64>),
    These(Vec<u64>),
}

impl Places {
    fn listed(self) -> Vec<u64> {
        match self {
            Places::Range(range) => range.collect(),
            Places::These(places) => places,
        }
    }
}

/// Records one after the other.
enum All<'r> {
    Range(Iter<'r>),
    At(At<'r>),
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
    /// The records of the tensor of that number.
    #[staticmethod]
    fn open(py: Python<'_>, file: Py<NativeFile>, at: usize) -> PyResult<NativeRecords> {
        let tensor = file.get().tensor(py, at)?;
        let records = py.detach(|| tensor.records()).raise(py)?;
        let table = Table::of(records.schema(), records.ty());
        Ok(NativeRecords { file, records, table })
    }

    /// How many there are, and bytes from one to the next.
    fn head(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let records = self.get(py)?;
        Ok((records.len(), records.extent().stride))
    }

    /// Every member: see `schemas::outline`.
    fn members<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        outline(py, self.get(py)?.members().raise(py)?)
    }

    /// The types that a record is made of; its own is the last.
    fn types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.table.rows(py, self.get(py)?.schema())
    }

    /// A part of records: the number of its type, its offset in bytes, whether every record has it.
    fn find(&self, py: Python<'_>, path: &str) -> PyResult<(usize, usize, bool)> {
        let part = self.get(py)?.accessor(path).raise(py)?;
        Ok((self.table.place(part.ty()), part.offset(), part.is_always_there()))
    }

    /// Records, or the part of each at a path, as Python objects; `make` makes arrays, times and JSON.
    #[pyo3(signature = (start, stop, path, make))]
    fn values<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        path: Option<&str>,
        make: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.objects(py, Places::Range(start..stop), path, make)
    }

    /// The same of the records at these places.
    #[pyo3(signature = (places, path, make))]
    fn values_at<'py>(
        &self,
        py: Python<'py>,
        places: Vec<u64>,
        path: Option<&str>,
        make: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.objects(py, Places::These(places), path, make)
    }

    /// Strings, the names of an enum, or JSON objects as text; `None` where a record has none.
    fn texts<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        start: u64,
        stop: u64,
    ) -> PyResult<Bound<'py, PyList>> {
        self.strings(py, Places::Range(start..stop), path)
    }

    /// The same of the records at these places.
    fn texts_at<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        places: Vec<u64>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.strings(py, Places::These(places), path)
    }

    /// The places, as int64, of the records of a range for which all conditions hold.
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

    /// These places in the order of members.
    fn order(&self, py: Python<'_>, places: Vec<u64>, members: Vec<String>) -> PyResult<Vec<u64>> {
        let records = self.get(py)?;
        run(py, self.bytes_of(py, &places)?, |work| {
            let mut order = records.order(&members)?;
            let parts: Vec<Accessor> = order.parts().cloned().collect();
            for (done, record) in (1..).zip(records.at(places).with_parts(parts)) {
                order.add(&record?)?;
                look(&work, done)?;
            }
            Ok(order.finish())
        })
    }

    /// How many of the records at these places have which values, as JSON texts.
    fn groups(
        &self,
        py: Python<'_>,
        places: Vec<u64>,
        members: Vec<String>,
    ) -> PyResult<Vec<(Vec<Option<String>>, u64)>> {
        let records = self.get(py)?;
        run(py, self.bytes_of(py, &places)?, |work| {
            let mut groups = records.groups(&members)?;
            let parts: Vec<Accessor> = groups.parts().cloned().collect();
            for (done, record) in (1..).zip(records.at(places).with_parts(parts)) {
                groups.add(&record?)?;
                look(&work, done)?;
            }
            Ok(groups.finish().into_iter().map(|group| (group.values, group.count)).collect())
        })
    }

    /// Writes a member of the records at these places into files of a folder, and gives their names.
    fn export(
        &self,
        py: Python<'_>,
        places: Vec<u64>,
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
            for record in records.at(places).with_parts(parts) {
                out.push(export.add(&record?)?);
                look(&work, out.len())?;
            }
            Ok(out)
        })
    }

    /// A byte for each record: 1 where it has the part.
    fn presence(&self, py: Python<'_>, path: &str, start: u64, stop: u64) -> PyResult<Buffer> {
        let records = self.get(py)?;
        let part = records.accessor(path).raise(py)?;
        let len = (stop.saturating_sub(start)).saturating_mul(records.extent().stride);
        let found = run(py, len, |work| {
            let mut out = Vec::new();
            for record in records.iter(start..stop)? {
                out.push(u8::from(record?.is_there(&part)?));
                look(&work, out.len())?;
            }
            Ok(out)
        });
        found.map(|out| Buffer::frozen(out.into()))
    }

    /// The elements of a variable array of all records, or the bytes of a string, JSON or bytes, one record's after the
    /// other's, and where those of each start and end, counted in elements: one more int64 than there are records.
    fn ragged(
        &self,
        py: Python<'_>,
        path: &str,
        start: u64,
        stop: u64,
    ) -> PyResult<(Buffer, Buffer)> {
        let records = self.get(py)?;
        let part = records.accessor(path).raise(py)?;
        let (values, ends) = run(py, u64::MAX, |work| {
            let mut rows = Rows::new(records);
            for record in records.iter(start..stop)? {
                rows.add_part(&record?, &part)?;
                look(&work, rows.ends.len())?;
            }
            Ok((rows.values()?, rows.ends))
        })?;
        let ends: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        Ok((Buffer::frozen(values), Buffer::frozen(ends.into())))
    }

    /// The same of the records at these places.
    fn ragged_at(
        &self,
        py: Python<'_>,
        path: &str,
        places: Vec<u64>,
    ) -> PyResult<(Buffer, Buffer)> {
        let records = self.get(py)?;
        let part = records.accessor(path).raise(py)?;
        let (values, ends) = run(py, u64::MAX, |work| {
            let mut rows = Rows::new(records);
            for record in records.at(places).with_parts(once(part.clone())) {
                rows.add_part(&record?, &part)?;
                look(&work, rows.ends.len())?;
            }
            Ok((rows.values()?, rows.ends))
        })?;
        let ends: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        Ok((Buffer::frozen(values), Buffer::frozen(ends.into())))
    }

    /// A byte for each of the records at these places: 1 where it has the part.
    fn presence_at(&self, py: Python<'_>, path: &str, places: Vec<u64>) -> PyResult<Buffer> {
        let records = self.get(py)?;
        let part = records.accessor(path).raise(py)?;
        let found = run(py, self.bytes_of(py, &places)?, |work| {
            let mut out = Vec::with_capacity(places.len());
            for record in records.at(places) {
                out.push(u8::from(record?.is_there(&part)?));
                look(&work, out.len())?;
            }
            Ok(out)
        });
        found.map(|out| Buffer::frozen(out.into()))
    }

    /// The bytes of the records at these places, one after the other, as far from each other as in the file.
    fn rows_at(&self, py: Python<'_>, places: Vec<u64>) -> PyResult<Buffer> {
        let records = self.get(py)?;
        let len = self.bytes_of(py, &places)?;
        if len > records.limits().decoded_len {
            return Err(too_large(records.tensor())).raise(py);
        }
        // Not more than the limit, which is in memory.
        let stride = records.extent().stride as usize;
        let found = run(py, len, |work| {
            let mut out = Vec::new();
            for (number, record) in (1..).zip(records.at(places)) {
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
    /// Bytes of so many records, which say how long it takes.
    fn bytes_of(&self, py: Python<'_>, places: &[u64]) -> PyResult<u64> {
        Ok((places.len() as u64).saturating_mul(self.get(py)?.extent().stride))
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

fn text<'r>(record: &'r Record<'_>, part: &'r Accessor) -> Result<Option<Cow<'r, str>>> {
    match &record.records().schema().ty(part.ty()).kind {
        Kind::Enum(_) => Ok(record.enum_value(part)?.map(Cow::Borrowed)),
        Kind::Record => record.json(part),
        Kind::String => record.string(part),
        kind => Err(ACCESS.broken(format!("a `TypeDef:{}` is not text", kind.as_str()))),
    }
}

fn look(work: &Work, done: usize) -> Result<()> {
    if (done as u64).is_multiple_of(STEP) { work.check() } else { Ok(()) }
}

/// Rows of elements: a range of the heap for as long as they lie there one after the other.
struct Rows<'r> {
    records: &'r Records,
    /// Elements up to the end of each row, from 0.
    ends: Vec<i64>,
    /// Where the rows lie in the heap, in bytes.
    range: Range<usize>,
    /// The bytes of the rows, where they do not lie together.
    own: Option<Vec<u8>>,
    /// Bytes that they may still take.
    left: u64,
}

impl<'r> Rows<'r> {
    fn new(records: &'r Records) -> Rows<'r> {
        let own = if records.heap().is_some() { None } else { Some(Vec::new()) };
        let left = records.limits().decoded_len;
        Rows { records, ends: vec![0], range: 0..0, own, left }
    }

    /// Adds what a record has in the heap, or nothing.
    fn add_part(&mut self, record: &Record<'_>, part: &Accessor) -> Result<()> {
        match &self.records.schema().ty(part.ty()).kind {
            Kind::String | Kind::Record => {
                let text = text(record, part)?.unwrap_or_default();
                self.add(text.as_bytes(), text.len())
            }
            Kind::Bytes => {
                let bytes = record.data(part)?.unwrap_or_default();
                self.add(&bytes, bytes.len())
            }
            _ => match record.elements(part)? {
                Some(row) => self.add(row.bytes(), row.len()),
                None => self.add(&[], 0),
            },
        }
    }

    fn add(&mut self, row: &[u8], count: usize) -> Result<()> {
        self.left = self
            .left
            .checked_sub(row.len() as u64)
            .ok_or_else(|| too_large(self.records.tensor()))?;
        // Counts of elements that are in memory.
        self.ends.push(self.ends.last().copied().unwrap_or(0).saturating_add(count as i64));
        if row.is_empty() {
            return Ok(());
        }
        if let Some(own) = &mut self.own {
            own.extend_from_slice(row);
            return Ok(());
        }
        let heap = self.records.heap().unwrap_or_default();
        let start = (row.as_ptr() as usize).wrapping_sub(heap.as_ptr() as usize);
        if self.range.is_empty() {
            self.range = start..start;
        }
        if start == self.range.end && heap.get(start..start.wrapping_add(row.len())).is_some() {
            self.range.end += row.len();
            return Ok(());
        }
        let mut own = heap.get(self.range.clone()).unwrap_or_default().to_vec();
        own.extend_from_slice(row);
        self.own = Some(own);
        Ok(())
    }

    fn values(&mut self) -> Result<Bytes> {
        match self.own.take() {
            Some(own) => Ok(own.into()),
            None if self.range.is_empty() => Ok(Bytes::new()),
            None => {
                let range = self.range.start as u64..self.range.end as u64;
                self.records.tensor().bytes_range(&Role::from_name("blob_data"), range)
            }
        }
    }
}

/// The runs of bytes of one tensor of an open file.
#[pyclass(frozen, name = "Blob", module = "holdall._holdall")]
pub(crate) struct NativeBlob {
    file: Py<NativeFile>,
    blob: Blob,
}

impl NativeBlob {
    fn get(&self, py: Python<'_>) -> PyResult<&Blob> {
        self.file.get().get(py)?;
        Ok(&self.blob)
    }
}

#[pymethods]
impl NativeBlob {
    /// The blob of the tensor of that number.
    #[staticmethod]
    fn open(py: Python<'_>, file: Py<NativeFile>, at: usize) -> PyResult<NativeBlob> {
        let tensor = file.get().tensor(py, at)?;
        let blob = py.detach(|| tensor.blob()).raise(py)?;
        Ok(NativeBlob { file, blob })
    }

    /// How many runs there are, what they hold, and the type of their elements, where they hold some.
    fn head(&self, py: Python<'_>) -> PyResult<(u64, String, Option<&'static str>)> {
        let blob = self.get(py)?;
        let dtype = match blob.content() {
            Content::Elements(dtype) => Some(dtype_name(dtype)),
            _ => None,
        };
        let content =
            if dtype.is_some() { "elements".to_owned() } else { blob.content().to_string() };
        Ok((blob.len(), content, dtype))
    }

    /// The bytes of a run: a view where they are mapped.
    fn bytes(&self, py: Python<'_>, index: u64) -> PyResult<Buffer> {
        let blob = self.get(py)?;
        py.detach(|| blob.bytes(index)).raise(py).map(Buffer::frozen)
    }

    /// Runs of text. With `json` each is checked to be JSON.
    fn texts<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        json: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let blob = self.get(py)?;
        let file = blob.tensor().file();
        let most = file.index().source_len().saturating_mul(file.limits().expansion).max(1 << 20);
        let mut left = most.min(file.limits().decoded_len);
        let out = PyList::empty(py);
        for (since, index) in (start..stop).enumerate() {
            let found = py.detach(|| {
                if json {
                    blob.json(index)?;
                }
                blob.str(index)
            });
            let text = found.raise(py)?;
            let rest = left.checked_sub(text.len() as u64);
            left = rest.ok_or_else(|| too_large(blob.tensor())).raise(py)?;
            out.append(PyString::new(py, &text))?;
            if (since as u64 + 1).is_multiple_of(STEP) {
                py.check_signals()?;
            }
        }
        Ok(out)
    }
}
