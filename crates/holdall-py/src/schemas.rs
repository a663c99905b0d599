//! Schemas of records: inferring, laying out, comparing and checking them.

use crate::arrow::GivenBatches;
use crate::errors::{Raise, misuse, raise};
use crate::file::NativeFile;
use crate::row_columns::NativeColumns;
use crate::row_input::Objects;
use crate::work::run_with;
use arrow_array::RecordBatch;
use holdall::diff::diff_schemas;
use holdall::records::{
    self, CheckReport, FillOptions, FindingLocation, RecordForm, Rows, RowsOptions, SchemaOrFile,
};
use holdall::schema::{
    Base, Bump, Document, InferOptions, Lang, Null, OutlineRow, Path, Reading, RowPresence,
    Symbols, Unknown, Vocabulary, Width,
};
use holdall::{Limits, OpenOptions, Work, convert};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A schema from Python: its type, and its value.
pub(crate) type Given<'py> = (String, Bound<'py, PyAny>);

/// The name of a schema given as a dict, in errors.
const SCHEMA: &str = "<schema>";
/// The name of rows given as objects, in errors.
const ROWS: &str = "<records>";

/// Returns a schema or a tensor file, from JSON text, a path, or an open file.
fn given(py: Python<'_>, (what, value): &Given<'_>, reading: Reading) -> PyResult<SchemaOrFile> {
    let limits = Limits::default();
    match what.as_str() {
        "json" => {
            let text: String = value.extract()?;
            let schema = Document::parse(text.as_bytes(), SCHEMA, reading, &limits.schema_limits());
            Ok(SchemaOrFile::Schema(Box::new(schema.raise(py)?)))
        }
        "file" => Ok(SchemaOrFile::File(value.cast::<NativeFile>()?.get().get(py)?)),
        _ => {
            let path: PathBuf = value.extract()?;
            py.detach(|| SchemaOrFile::open(path, reading, &OpenOptions::new(), &limits)).raise(py)
        }
    }
}

/// Returns a schema, or that of a tensor file.
pub(crate) fn document(py: Python<'_>, source: &Given<'_>, reading: Reading) -> PyResult<Document> {
    match given(py, source, reading)? {
        SchemaOrFile::Schema(schema) => Ok(*schema),
        SchemaOrFile::File(file) => py.detach(|| convert::schema(&file)).raise(py),
    }
}

/// The source of rows: a path, a function that returns JSON lines or batches of columns, or Python objects.
pub(crate) struct Source {
    from: From,
    form: Option<RecordForm>,
}

enum From {
    Path(PathBuf),
    Lines(Py<PyAny>),
    /// Batches of columns, and whether all of them are in memory.
    Columns(Py<PyAny>, bool),
    Table(Vec<RecordBatch>),
    Objects(Objects),
}

impl Source {
    pub(crate) fn from_given(
        py: Python<'_>,
        (what, value): &Given<'_>,
        form: Option<&str>,
    ) -> PyResult<Source> {
        let known = |name: &str| RecordForm::ALL.iter().find(|form| form.as_str() == name).copied();
        let form = match form {
            None => None,
            Some(name) => Some(known(name).ok_or_else(|| {
                let names: Vec<_> = RecordForm::ALL.iter().map(|form| form.as_str()).collect();
                let message = format!("form is one of {}, not {name:?}", names.join(", "));
                misuse(py, "python/option", &message, None)
            })?),
        };
        let from = match what.as_str() {
            "lines" => From::Lines(value.clone().unbind()),
            "columns" => From::Columns(value.clone().unbind(), false),
            "table" => From::Columns(value.clone().unbind(), true),
            "batches" => From::Table(value.cast::<NativeColumns>()?.get().batches()),
            "rows" => From::Objects(Objects::new(value)?),
            _ => From::Path(value.extract()?),
        };
        Ok(Source { from, form })
    }

    /// Returns whether it is a tensor file, judging from its first bytes.
    fn is_binary(&self) -> bool {
        match &self.from {
            From::Path(path) => {
                self.form.is_none() && records::is_binary(path, &OpenOptions::new())
            }
            From::Lines(_) | From::Columns(..) | From::Table(_) | From::Objects(_) => false,
        }
    }

    pub(crate) fn rows(self, work: Work) -> holdall::Result<Rows> {
        let mut options = RowsOptions::new().with_work(work);
        if let Some(form) = self.form {
            options = options.with_form(form);
        }
        match self.from {
            From::Path(path) => options.open(path),
            From::Lines(next) => {
                let reader = Lines { next, chunk: io::Cursor::new(Vec::new()) };
                options.with_form(RecordForm::Ndjson).read(reader, ROWS)
            }
            From::Columns(next, false) => Ok(Rows::from_batches(GivenBatches::new(next), ROWS)),
            From::Columns(next, true) => {
                Ok(Rows::from_table(GivenBatches::new(next).collect::<holdall::Result<_>>()?, ROWS))
            }
            From::Table(batches) => Ok(Rows::from_table(batches, ROWS)),
            From::Objects(objects) => Ok(Rows::from_source(objects, ROWS)),
        }
    }
}

/// JSON lines from a Python function, which returns some at each call, and an empty result at the
/// end.
struct Lines {
    next: Py<PyAny>,
    chunk: io::Cursor<Vec<u8>>,
}

impl Read for Lines {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.chunk.read(buf)?;
        if count > 0 || buf.is_empty() {
            return Ok(count);
        }
        let chunk = Python::attach(|py| -> PyResult<Vec<u8>> {
            Ok(self.next.call0(py)?.cast_bound::<PyBytes>(py)?.as_bytes().to_vec())
        });
        self.chunk = io::Cursor::new(chunk.map_err(io::Error::other)?);
        self.chunk.read(buf)
    }
}

/// Options of how rows become records.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Filling {
    ignore_unknown: bool,
    null_absent: bool,
    check: bool,
    pub(crate) files: Option<PathBuf>,
    file_members: Vec<String>,
}

impl Filling {
    pub(crate) fn options(self) -> FillOptions {
        let mut options = FillOptions::new();
        if self.ignore_unknown {
            options = options.with_unknown(Unknown::Ignore);
        }
        if self.null_absent {
            options = options.with_null(Null::Absent);
        }
        if self.check {
            options = options.with_checks();
        }
        match self.files {
            Some(folder) => options.with_files(folder, self.file_members),
            None => options,
        }
    }
}

/// Infers the schema, as JSON text, of rows or of a tensor file.
#[pyfunction]
#[pyo3(signature = (source, form, tight, enums, first, file_members, progress))]
#[allow(clippy::too_many_arguments)] // What can be said of it.
pub(crate) fn schema_infer(
    py: Python<'_>,
    source: Given<'_>,
    form: Option<&str>,
    tight: bool,
    enums: usize,
    first: Option<u64>,
    file_members: Vec<String>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    if source.0 == "file" {
        let file = source.1.cast::<NativeFile>()?.get().get(py)?;
        return py.detach(|| convert::infer_schema(&file)).raise(py).map(|s| s.to_string());
    }
    let source = Source::from_given(py, &source, form)?;
    let members = file_members.iter().map(|member| member.parse());
    let members: Vec<Path> = members.collect::<holdall::Result<_>>().raise(py)?;
    let mut options = InferOptions::new().with_enums(enums).with_file_members(members);
    if tight {
        options = options.with_width(Width::Tight);
    }
    let schema = run_with(py, u64::MAX, None, progress, |work| match &source.from {
        From::Path(path) if source.is_binary() => convert::infer_schema(&holdall::open(path)?),
        _ => {
            let limits = Limits::default().schema_limits();
            records::infer(source.rows(work)?, first, &options, &limits)
        }
    })?;
    Ok(schema.to_string())
}

/// Returns the paths of a schema or a file: path, kind, base, offset, size, stride, alignment,
/// whether it is optional, and the bit that marks it as present.
#[pyfunction]
#[pyo3(signature = (schema, path, symbols, reading))]
pub(crate) fn schema_layout<'py>(
    py: Python<'py>,
    schema: Given<'py>,
    path: Option<&str>,
    symbols: Vec<(String, u64)>,
    reading: Option<&str>,
) -> PyResult<Bound<'py, PyList>> {
    let reading = match reading {
        None => Reading::ByContent,
        Some("record") => Reading::Record,
        Some("file") => Reading::File,
        Some(other) => {
            let message = format!("reading is \"record\", \"file\" or None, not {other:?}");
            return Err(misuse(py, "python/option", &message, None));
        }
    };
    let what = given(py, &schema, reading)?;
    let only: Option<Path> = path.map(str::parse).transpose().raise(py)?;
    let symbols: Symbols = symbols.iter().map(|(k, n)| (k.as_str().into(), *n)).collect();
    let limits = Limits::default().schema_limits();
    let layout =
        py.detach(|| records::layout(&what, only.as_ref(), &symbols, &limits)).raise(py)?;
    outline(py, layout.rows)
}

/// Returns paths with their types: path, kind, base, offset with size, stride and alignment,
/// whether it is optional, and the byte and bit that mark it as present.
pub(crate) fn outline<'py>(py: Python<'py>, rows: Vec<OutlineRow>) -> PyResult<Bound<'py, PyList>> {
    let out = PyList::empty(py);
    for row in rows {
        let base = match row.base {
            Base::Header => "header",
            Base::Record => "record",
            Base::Heap => "heap",
        };
        let (optional, bit) = match row.presence {
            RowPresence::Always => (false, None),
            RowPresence::Optional => (true, None),
            RowPresence::Bit(bit) => (true, Some((bit.byte, bit.bit))),
        };
        let at = (row.offset, row.size, row.stride, row.align);
        out.append((row.path.to_string(), row.kind, base, at, optional, bit))?;
    }
    Ok(out)
}

/// Generates code in a language for the records of a schema.
#[pyfunction]
pub(crate) fn schema_code(
    py: Python<'_>,
    schema: Given<'_>,
    lang: &str,
    path: Option<&str>,
    name: &str,
) -> PyResult<String> {
    let Some(lang) = Lang::from_name(lang) else {
        let message =
            format!("lang is \"rust\", \"python\", \"typescript\" or \"wgsl\", not {lang:?}");
        return Err(misuse(py, "python/option", &message, None));
    };
    let schema = document(py, &schema, Reading::ByContent)?;
    let records = schema.records(path, &Limits::default().schema_limits()).raise(py)?;
    records.code(name, lang).raise(py)
}

/// Returns the JSON text of the schema with which plain validators check the tensors of a header.
#[pyfunction]
#[pyo3(signature = (schema))]
pub(crate) fn schema_header(py: Python<'_>, schema: Given<'_>) -> PyResult<String> {
    let schema = document(py, &schema, Reading::ByContent)?;
    schema.header_schema().raise(py).map(|schema| schema.to_string())
}

/// Returns the changes between two schemas: for each its path, its kind, its consequence, the old
/// and the new type, and enum values; and the version step.
#[pyfunction]
#[pyo3(signature = (old, new, path))]
pub(crate) fn schema_diff<'py>(
    py: Python<'py>,
    old: Given<'py>,
    new: Given<'py>,
    path: Option<&str>,
) -> PyResult<(Bound<'py, PyList>, &'static str)> {
    let (old, new) = (given(py, &old, Reading::ByContent)?, given(py, &new, Reading::ByContent)?);
    let limits = Limits::default().schema_limits();
    let found = py.detach(|| diff_schemas(old, new, path, &limits)).raise(py)?;
    let out = PyList::empty(py);
    for change in &found.changes {
        let values: Vec<_> = change.values.iter().map(|v| v.to_string()).collect();
        let (what, verdict) = (change.what.as_str(), change.verdict.as_str());
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        out.append((change.path.to_string(), what, verdict, old, new, values))?;
    }
    Ok((out, Bump::for_changes(&found.changes).as_str()))
}

/// The first exception that a Python function for a format or keyword raised.
pub(crate) type FirstException = Arc<Mutex<Option<PyErr>>>;

/// The caller's formats and keywords: names, and functions of JSON text that return whether a
/// value is valid.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Own {
    formats: Vec<(String, Py<PyAny>)>,
    keywords: Vec<(String, Py<PyAny>)>,
}

impl Own {
    pub(crate) fn vocabulary(self, raised: &FirstException) -> Vocabulary {
        let mut vocabulary = Vocabulary::new();
        for (name, check) in self.formats {
            let raised = Arc::clone(raised);
            let holds = move |text: &str| ask_python(&raised, |py| check.call1(py, (text,)));
            vocabulary = vocabulary.with_format(name, holds);
        }
        for (name, check) in self.keywords {
            let raised = Arc::clone(raised);
            vocabulary = vocabulary.with_keyword(name, move |own, value| {
                ask_python(&raised, |py| check.call1(py, (own.to_string(), value.to_string())))
            });
        }
        vocabulary
    }
}

pub(crate) fn first_of(raised: &FirstException) -> Option<PyErr> {
    raised.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Returns the result of a Python function. An exception is stored, and counts as `false`.
fn ask_python(
    raised: &FirstException,
    ask: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>,
) -> bool {
    Python::attach(|py| match ask(py).and_then(|answer| answer.is_truthy(py)) {
        Ok(answer) => answer,
        Err(e) => {
            raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
            false
        }
    })
}

/// Returns the errors in a schema, and the mismatches of rows or a tensor file with it.
#[pyfunction]
#[pyo3(signature = (schema, source, form, path, filling, own, progress))]
#[allow(clippy::too_many_arguments)] // Keywords of one Python function.
pub(crate) fn schema_check<'py>(
    py: Python<'py>,
    schema: Given<'py>,
    source: Option<Given<'py>>,
    form: Option<&str>,
    path: Option<String>,
    filling: Filling,
    own: Own,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let limits = Limits::default().schema_limits();
    let raised = FirstException::default();
    let vocabulary = own.vocabulary(&raised);
    let schema = match given(py, &schema, Reading::ByContent) {
        Ok(SchemaOrFile::Schema(schema)) => *schema,
        Ok(SchemaOrFile::File(file)) => py.detach(|| convert::schema(&file)).raise(py)?,
        Err(e) if e.is_instance(py, &py.import("holdall.errors")?.getattr("MalformedError")?) => {
            let d = report_of(py, &CheckReport::default())?;
            d.set_item("finding_count", 1)?;
            d.set_item("findings", [(py.None(), py.None(), e.into_value(py))])?;
            return Ok(d);
        }
        Err(e) => return Err(e),
    };
    let schema = schema.with_vocabulary(vocabulary).raise(py)?;
    let path = path.as_deref();
    let file = match &source {
        Some((what, file)) if what == "file" => Some(file.cast::<NativeFile>()?.get().get(py)?),
        _ => None,
    };
    let source = match (source, &file) {
        (Some(source), None) => Some(Source::from_given(py, &source, form)?),
        _ => None,
    };
    let options = filling.options();
    let report = run_with(py, u64::MAX, None, progress, |work| {
        if let Err(e) = records::check_schema(&schema, &limits) {
            let mut report = CheckReport::default();
            report.add(FindingLocation::Whole, e);
            return Ok(report);
        }
        let file = match &source {
            Some(Source { from: From::Path(path), .. })
                if source.as_ref().is_some_and(Source::is_binary) =>
            {
                Some(holdall::open(path)?)
            }
            _ => file,
        };
        match (file, source) {
            (Some(file), _) => records::check_file(&file, &schema, path, &limits, &work),
            (None, Some(source)) => {
                let schema = schema.records(path, &limits)?;
                records::check_rows(source.rows(work)?, &schema, &options, &limits)
            }
            (None, None) => Ok(CheckReport::default()),
        }
    })?;
    if let Some(e) = first_of(&raised) {
        return Err(e);
    }
    report_of(py, &report)
}

fn report_of<'py>(py: Python<'py>, report: &CheckReport) -> PyResult<Bound<'py, PyDict>> {
    let findings = PyList::empty(py);
    for finding in &report.findings {
        let (line, record) = match finding.location {
            FindingLocation::Line(line) => (Some(line), None),
            FindingLocation::Record(record) => (None, Some(record)),
            _ => (None, None),
        };
        findings.append((line, record, raise(py, &finding.error).into_value(py)))?;
    }
    let d = PyDict::new(py);
    d.set_item("tensors", report.tensors)?;
    d.set_item("records", report.records)?;
    d.set_item("finding_count", report.found)?;
    d.set_item("findings", findings)?;
    Ok(d)
}
