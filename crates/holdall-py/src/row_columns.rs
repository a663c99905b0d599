//! Rows that are dicts of numbers, texts and times, as columns: no schema is needed to read them, and each value is read
//! once.

use holdall::records::arrow::arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, LargeBinaryBuilder, LargeStringBuilder,
    TimestampNanosecondBuilder,
};
use holdall::records::arrow::arrow_array::{
    Array as _, ArrayRef, Float64Array, Int64Array, RecordBatch, new_null_array,
};
use holdall::records::arrow::arrow_schema::{DataType, Field, Schema, TimeUnit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};
use std::collections::HashMap;
use std::sync::Arc;

/// The number of rows of a batch.
const ROWS: usize = 1 << 16;
/// With more members than this, an object is one whose keys are data.
const MAX_MEMBERS: usize = 1000;
/// The greatest integer up to which every integer is a float.
const EXACT: u64 = 1 << 53;

/// Columns in memory.
#[pyclass(frozen, name = "Columns", module = "holdall._holdall")]
pub(crate) struct NativeColumns(Vec<RecordBatch>);

impl NativeColumns {
    pub(crate) fn batches(&self) -> Vec<RecordBatch> {
        self.0.clone()
    }
}

/// A column's name, the letter of its type, and whether a row lacks it.
type Head = (String, char, bool);

/// Returns rows as columns, with the head of each column in the order in which they were first seen; `None` if a row is
/// not a dict of values of one type for each key: integers of 64 bits, floats, booleans, strings, bytes and times.
///
/// `class` is the function of the Python half that returns the class of other values; `zero` are 1970 without a zone and
/// in UTC.
#[pyfunction]
pub(crate) fn row_columns<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyList>,
    class: &Bound<'py, PyAny>,
    zero: (Bound<'py, PyAny>, Bound<'py, PyAny>),
) -> PyResult<Option<(Vec<Head>, NativeColumns)>> {
    let times = Times { class, kind: zero.0.get_type().into_any(), naive: zero.0, utc: zero.1 };
    let (mut columns, mut places, mut lens) = (Vec::new(), HashMap::new(), Vec::new());
    let mut at = 0;
    // The list may change while a value's class is looked up.
    while let Ok(row) = rows.get_item(at) {
        let row_in_batch = at % ROWS;
        if row_in_batch == 0 && at > 0 {
            py.check_signals()?;
            finish(&mut columns, ROWS, &mut lens);
        }
        let Ok(row) = row.cast_exact::<PyDict>() else { return Ok(None) };
        if !add_row(row, row_in_batch, &mut columns, &mut places, lens.len(), &times)? {
            return Ok(None);
        }
        at += 1;
    }
    if at == 0 {
        return Ok(None);
    }
    finish(&mut columns, at - lens.len() * ROWS, &mut lens);
    Ok(batches(columns, &lens))
}

/// A column that is filled.
struct Column<'py> {
    /// The key of the first row that has it: mostly the same object in all rows.
    key: Bound<'py, PyString>,
    name: String,
    /// The values of the batches that are complete; `None` without a value.
    done: Vec<Option<ArrayRef>>,
    values: Values,
    /// The number of rows that were added to `values`.
    len: usize,
    has_nulls: bool,
}

enum Values {
    Nothing,
    Ints(Int64Builder),
    Floats(Float64Builder),
    Bools(BooleanBuilder),
    Texts(LargeStringBuilder),
    Bytes(LargeBinaryBuilder),
    Times(TimestampNanosecondBuilder),
}

/// The Python types and functions that convert times.
struct Times<'a, 'py> {
    class: &'a Bound<'py, PyAny>,
    kind: Bound<'py, PyAny>,
    naive: Bound<'py, PyAny>,
    utc: Bound<'py, PyAny>,
}

/// Adds a row. Returns `false` if it is of another form.
fn add_row<'py>(
    row: &Bound<'py, PyDict>,
    row_index: usize,
    columns: &mut Vec<Column<'py>>,
    places: &mut HashMap<String, usize>,
    batches: usize,
    times: &Times<'_, 'py>,
) -> PyResult<bool> {
    // A snapshot of the items would take longer than all of the rest; no code of others runs while they are read but
    // for values of other classes, before which the dict is copied.
    let mut others: Vec<(usize, Bound<'py, PyAny>)> = Vec::new();
    for (index, (key, value)) in row.iter().enumerate() {
        let at = match columns.get(index) {
            Some(column) if column.key.as_ptr() == key.as_ptr() => index,
            _ => {
                let Ok(key) = key.cast_into_exact::<PyString>() else { return Ok(false) };
                let Ok(name) = key.to_str() else { return Ok(false) };
                match places.get(name) {
                    Some(at) => *at,
                    None if columns.len() >= MAX_MEMBERS => return Ok(false),
                    None => {
                        places.insert(name.to_owned(), columns.len());
                        let (name, has_nulls) = (name.to_owned(), batches > 0 || row_index > 0);
                        let (done, values) = (vec![None; batches], Values::Nothing);
                        columns.push(Column { key, name, done, values, len: 0, has_nulls });
                        columns.len() - 1
                    }
                }
            }
        };
        let Some(column) = columns.get_mut(at) else { return Ok(false) };
        match column.add(&value, row_index) {
            Added::Yes => {}
            Added::Other => others.push((at, value)),
            Added::No => return Ok(false),
        }
    }
    for (at, value) in others {
        let Some(nanos) = times.nanos(&value)? else { return Ok(false) };
        let Some(column) = columns.get_mut(at) else { return Ok(false) };
        if !column.add_time(nanos, row_index) {
            return Ok(false);
        }
    }
    Ok(true)
}

enum Added {
    Yes,
    No,
    /// The value is of a class that is not known here.
    Other,
}

impl Column<'_> {
    fn add(&mut self, value: &Bound<'_, PyAny>, row: usize) -> Added {
        if value.is_none() {
            // Added as null before the next value.
            return Added::Yes;
        }
        let is_added = if let Ok(text) = value.cast_exact::<PyString>() {
            let Ok(text) = text.to_str() else { return Added::No };
            if let Values::Nothing = self.values {
                self.values = Values::Texts(LargeStringBuilder::new());
            }
            self.fill(row);
            let Values::Texts(to) = &mut self.values else { return Added::No };
            to.append_value(text);
            true
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            self.add_float(number.value(), row)
        } else if value.is_exact_instance_of::<PyInt>() {
            let Ok(number) = value.extract() else { return Added::No };
            self.add_int(number, row)
        } else if let Ok(of) = value.cast_exact::<PyBool>() {
            if let Values::Nothing = self.values {
                self.values = Values::Bools(BooleanBuilder::new());
            }
            self.fill(row);
            let Values::Bools(to) = &mut self.values else { return Added::No };
            to.append_value(of.is_true());
            true
        } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            if let Values::Nothing = self.values {
                self.values = Values::Bytes(LargeBinaryBuilder::new());
            }
            self.fill(row);
            let Values::Bytes(to) = &mut self.values else { return Added::No };
            to.append_value(bytes.as_bytes());
            true
        } else {
            return Added::Other;
        };
        self.len += usize::from(is_added);
        if is_added { Added::Yes } else { Added::No }
    }

    fn add_int(&mut self, number: i64, row: usize) -> bool {
        if let Values::Nothing = self.values {
            self.values = Values::Ints(Int64Builder::with_capacity(ROWS));
        }
        self.fill(row);
        match &mut self.values {
            Values::Ints(to) => to.append_value(number),
            Values::Floats(to) if number.unsigned_abs() <= EXACT => to.append_value(number as f64),
            _ => return false,
        }
        true
    }

    fn add_float(&mut self, number: f64, row: usize) -> bool {
        match &mut self.values {
            Values::Nothing => self.values = Values::Floats(Float64Builder::with_capacity(ROWS)),
            Values::Ints(of) => {
                let Some(floats) = floats(&of.finish()) else { return false };
                let mut to = Float64Builder::with_capacity(ROWS);
                floats.iter().for_each(|number| to.append_option(number));
                self.values = Values::Floats(to);
            }
            _ => {}
        }
        self.fill(row);
        let Values::Floats(to) = &mut self.values else { return false };
        to.append_value(number);
        true
    }

    fn add_time(&mut self, nanos: i64, row: usize) -> bool {
        if let Values::Nothing = self.values {
            self.values = Values::Times(TimestampNanosecondBuilder::with_capacity(ROWS));
        }
        self.fill(row);
        let Values::Times(to) = &mut self.values else { return false };
        to.append_value(nanos);
        self.len += 1;
        true
    }

    /// Adds nulls for the rows before `row` that have no value.
    fn fill(&mut self, row: usize) {
        let count = row.saturating_sub(self.len);
        if count == 0 {
            return;
        }
        self.has_nulls = true;
        match &mut self.values {
            Values::Nothing => {}
            Values::Ints(to) => to.append_nulls(count),
            Values::Floats(to) => to.append_nulls(count),
            Values::Bools(to) => to.append_nulls(count),
            Values::Texts(to) => (0..count).for_each(|_| to.append_null()),
            Values::Bytes(to) => (0..count).for_each(|_| to.append_null()),
            Values::Times(to) => to.append_nulls(count),
        }
        self.len += count;
    }
}

impl Times<'_, '_> {
    /// Returns the nanoseconds since 1970 of a time; `None` for other values, and for times that do not fit.
    fn nanos(&self, value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
        let py = value.py();
        if !value.get_type().is(&self.kind) {
            let found = self.class.call1((value,));
            let Ok(found) =
                found.and_then(|f| f.extract::<(char, Bound<'_, PyAny>, Option<i64>)>())
            else {
                return Ok(None);
            };
            return Ok(found.2.filter(|_| found.0 == 't'));
        }
        let is_naive = value.getattr(intern!(py, "tzinfo"))?.is_none();
        let since = value.sub(if is_naive { &self.naive } else { &self.utc })?;
        let days: i64 = since.getattr(intern!(py, "days"))?.extract()?;
        let seconds: i64 = since.getattr(intern!(py, "seconds"))?.extract()?;
        let micros: i64 = since.getattr(intern!(py, "microseconds"))?.extract()?;
        let seconds = days.checked_mul(86_400).and_then(|of_days| of_days.checked_add(seconds));
        let nanos = seconds.and_then(|seconds| seconds.checked_mul(1_000_000_000));
        Ok(nanos.and_then(|nanos| nanos.checked_add(micros * 1000)))
    }
}

/// Completes a batch of `rows` rows.
fn finish(columns: &mut [Column<'_>], rows: usize, lens: &mut Vec<usize>) {
    for column in columns {
        column.fill(rows);
        column.has_nulls |= column.len < rows;
        column.len = 0;
        let values: Option<ArrayRef> = match &mut column.values {
            Values::Nothing => None,
            Values::Ints(of) => Some(Arc::new(of.finish())),
            Values::Floats(of) => Some(Arc::new(of.finish())),
            Values::Bools(of) => Some(Arc::new(of.finish())),
            Values::Texts(of) => Some(Arc::new(of.finish())),
            Values::Bytes(of) => Some(Arc::new(of.finish())),
            Values::Times(of) => Some(Arc::new(of.finish().with_timezone("UTC"))),
        };
        column.done.push(values);
    }
    lens.push(rows);
}

/// Returns the batches of complete columns.
fn batches(columns: Vec<Column<'_>>, lens: &[usize]) -> Option<(Vec<Head>, NativeColumns)> {
    let (mut heads, mut fields, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for column in columns {
        let utc = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let (letter, kind) = match &column.values {
            Values::Nothing => return None,
            Values::Ints(_) => ('i', DataType::Int64),
            Values::Floats(_) => ('f', DataType::Float64),
            Values::Bools(_) => ('b', DataType::Boolean),
            Values::Texts(_) => ('s', DataType::LargeUtf8),
            Values::Bytes(_) => ('y', DataType::LargeBinary),
            Values::Times(_) => ('t', utc),
        };
        let mut arrays = Vec::with_capacity(lens.len());
        for (array, rows) in column.done.into_iter().zip(lens) {
            arrays.push(match array {
                None => new_null_array(&kind, *rows),
                Some(array) if *array.data_type() == kind => array,
                Some(array) => Arc::new(floats(array.as_any().downcast_ref()?)?),
            });
        }
        fields.push(Field::new(&column.name, kind, column.has_nulls));
        heads.push((column.name, letter, column.has_nulls));
        all.push(arrays.into_iter());
    }
    let schema = Arc::new(Schema::new(fields));
    let mut batches = Vec::with_capacity(lens.len());
    for _ in lens {
        let arrays = all.iter_mut().map(Iterator::next).collect::<Option<_>>()?;
        batches.push(RecordBatch::try_new(schema.clone(), arrays).ok()?);
    }
    Some((heads, NativeColumns(batches)))
}

/// Returns integers as floats, if all of them are.
fn floats(of: &Int64Array) -> Option<Float64Array> {
    let is_exact = of.iter().flatten().all(|number| number.unsigned_abs() <= EXACT);
    is_exact.then(|| of.iter().map(|number| number.map(|number| number as f64)).collect())
}
