//! Files of records and blobs; and datasets and blobs that are encoded for a file that other code
//! writes.

use crate::dtype;
use crate::errors::{Raise, misuse};
use crate::kinds::dtype_name;
use crate::options::Writing;
use crate::schemas::{Filling, Given, Source, document};
use crate::work::run_with;
use holdall::records::rules::WHICH_CONTENT;
use holdall::records::{BlobWriter, Build, DatasetWriter, FinishedTensor};
use holdall::schema::{Content, Document, Reading, TensorDType};
use holdall::{Limits, TensorSpec, Work};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Writes a file of records, and of a blob: of runs, or of the files in a folder.
#[pyfunction]
#[pyo3(signature = (to, schema, source, form, path, filling, dedup, blob, runs, content, writing, progress))]
#[allow(clippy::too_many_arguments)] // Keywords of one Python function.
pub(crate) fn build<'py>(
    py: Python<'py>,
    to: PathBuf,
    schema: Option<Given<'py>>,
    source: Option<Given<'py>>,
    form: Option<&str>,
    path: Option<String>,
    filling: Filling,
    dedup: bool,
    blob: Option<String>,
    runs: Option<Given<'py>>,
    content: Option<&str>,
    writing: Writing<'py>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = writing.options(py)?;
    let schema = schema.map(|s| document(py, &s, Reading::ByContent)).transpose()?;
    let source = source.map(|s| Source::from_given(py, &s, form)).transpose()?;
    let runs = runs.map(|s| Runs::from_given(py, &s, form)).transpose()?;
    let content = content.map(|name| content_of(py, name)).transpose()?;
    let folder = filling.files.clone();
    let filling = filling.options();
    let (records, files, runs, built) =
        run_with(py, u64::MAX, writing.threads, progress, |work| {
            let mut build = Build::create(&to, &options.with_work(work.clone()))?;
            let (mut records, mut files, mut ran) = (None, None, None);
            match (&schema, source) {
                (Some(schema), Some(source)) => {
                    let (next, dataset) = build.dataset_from_document(schema, path.as_deref())?;
                    build = next;
                    let dataset = if dedup { dataset.with_dedup() } else { dataset };
                    let name = dataset.name().to_owned();
                    let count = build.add_rows(dataset, source.rows(work.clone())?, &filling)?;
                    records = Some((name, count));
                }
                (Some(schema), None) => build = build.with_document(schema)?,
                _ => {}
            }
            let sharing = |blob: BlobWriter| if dedup { blob.with_dedup() } else { blob };
            match (blob, runs, folder) {
                (Some(name), Some(runs), _) => {
                    let mut blob = sharing(build.blob_for(&name, content)?);
                    runs.fill(&mut blob, work)?;
                    ran = Some((name, blob.len()));
                    build.add(blob)?;
                }
                (Some(name), None, Some(folder)) => {
                    let blob = match build.blob_for(&name, content) {
                        Err(e) if e.code() == WHICH_CONTENT.code => {
                            build.blob_with_content(&name, Content::Bytes)
                        }
                        found => found,
                    };
                    let count = build.add_files(sharing(blob?), folder, &work)?;
                    files = Some((name, count));
                }
                _ => {}
            }
            Ok((records, files, ran, build.finish()?))
        })?;
    let d = PyDict::new(py);
    d.set_item("records", records)?;
    d.set_item("files", files)?;
    d.set_item("runs", runs)?;
    d.set_item("nbytes", built.target_len)?;
    Ok(d)
}

/// Returns the schema (JSON text) of a record.
#[pyfunction]
pub(crate) fn record_schema(
    py: Python<'_>,
    schema: Given<'_>,
    path: Option<&str>,
) -> PyResult<String> {
    let schema = document(py, &schema, Reading::ByContent)?;
    let kind = schema.records(path, &Limits::default().schema_limits()).raise(py)?;
    Ok(kind.normal_text())
}

/// Encodes records of that kind (JSON text) for a file; data that does not fit memory is buffered
/// in the folder.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Keywords of one Python class.
pub(crate) fn encode_records(
    py: Python<'_>,
    name: &str,
    kind: &str,
    source: Given<'_>,
    form: Option<&str>,
    filling: Filling,
    dedup: bool,
    folder: PathBuf,
) -> PyResult<NativePart> {
    let limits = Limits::default().schema_limits();
    let kind = Document::parse(kind.as_bytes(), "<schema>", Reading::Record, &limits).raise(py)?;
    let source = Source::from_given(py, &source, form)?;
    let filling = filling.options();
    let part = run_with(py, u64::MAX, None, None, |work| {
        let dataset = DatasetWriter::for_schema(name, &kind, &folder, &limits, &work)
            .map_err(|e| e.in_tensor(name))?;
        let mut dataset = if dedup { dataset.with_dedup() } else { dataset };
        let filled = source.rows(work).and_then(|rows| dataset.fill(rows, &filling));
        filled.map_err(|e| e.in_tensor(name))?;
        Ok(FinishedTensor::from(dataset))
    })?;
    NativePart::new(py, part)
}

/// Encodes the runs of a blob for a file, like [`encode_records`].
#[pyfunction]
pub(crate) fn encode_runs(
    py: Python<'_>,
    name: &str,
    content: &str,
    source: Given<'_>,
    form: Option<&str>,
    dedup: bool,
    folder: PathBuf,
) -> PyResult<NativePart> {
    let content = content_of(py, content)?;
    let runs = Runs::from_given(py, &source, form)?;
    let part = run_with(py, u64::MAX, None, None, |work| {
        let limits = Limits::default().schema_limits();
        let blob = BlobWriter::new(name, content, &folder, &limits);
        let mut blob = if dedup { blob.with_dedup() } else { blob };
        runs.fill(&mut blob, work).map_err(|e| e.in_tensor(name))?;
        Ok(FinishedTensor::from(blob))
    })?;
    NativePart::new(py, part)
}

/// Parses the name of a content: `utf-8`, `json`, `bytes`, or an element type.
fn content_of(py: Python<'_>, name: &str) -> PyResult<Content> {
    let is = |dtype: &TensorDType| dtype_name(*dtype) == name && dtype.bits().is_multiple_of(8);
    let elements = || TensorDType::ALL.into_iter().find(is).map(Content::Elements);
    match name {
        "utf-8" | "json" | "bytes" => Content::from_name(name),
        _ => elements(),
    }
    .ok_or_else(|| {
        let message = format!(
            "content is \"utf-8\", \"json\", \"bytes\" or an element type of whole bytes, not {name:?}"
        );
        misuse(py, "python/option", &message, None)
    })
}

/// The source of a blob's runs: rows of JSON, or a function that returns some runs at each call,
/// as bytes or as JSON text, and an empty list at the end.
enum Runs {
    Rows(Source),
    Chunks(Py<PyAny>),
}

impl Runs {
    fn from_given(py: Python<'_>, given: &Given<'_>, form: Option<&str>) -> PyResult<Runs> {
        Ok(match given.0.as_str() {
            "runs" => Runs::Chunks(given.1.clone().unbind()),
            _ => Runs::Rows(Source::from_given(py, given, form)?),
        })
    }

    fn fill(self, to: &mut BlobWriter, work: Work) -> holdall::Result<()> {
        let next = match self {
            Runs::Rows(source) => return to.fill(source.rows(work)?).map(drop),
            Runs::Chunks(next) => next,
        };
        loop {
            let added = Python::attach(|py| -> PyResult<usize> {
                let chunk = next.bind(py).call0()?.cast_into::<PyList>()?;
                for run in &chunk {
                    let added = match run.cast::<PyString>() {
                        Ok(json) => to.json(json.to_str()?.as_bytes()),
                        Err(_) => to.bytes(run.cast::<PyBytes>()?.as_bytes()),
                    };
                    let at = to.len();
                    added.map_err(|e| e.within(format!("run {at}"))).raise(py)?;
                }
                Ok(chunk.len())
            });
            match added {
                Ok(0) => return Ok(()),
                Ok(_) => work.advance(0)?,
                Err(e) => return Err(holdall::error::io(io::Error::other(e), "reading runs")),
            }
        }
    }
}

/// An encoded dataset or blob that is to be written.
#[pyclass(frozen, name = "Part", module = "holdall._holdall")]
pub(crate) struct NativePart {
    spec: TensorSpec,
    readers: Mutex<Vec<Box<dyn Read + Send>>>,
}

impl NativePart {
    fn new(py: Python<'_>, part: FinishedTensor) -> PyResult<NativePart> {
        let spec = part.spec();
        let readers = py.detach(|| part.into_readers()).raise(py)?;
        let readers = readers.into_iter().map(|r| Box::new(r) as Box<dyn Read + Send>).collect();
        Ok(NativePart { spec, readers: Mutex::new(readers) })
    }
}

#[pymethods]
impl NativePart {
    /// Returns the number of records or runs, the layout, the JSON text of their kind, and for
    /// each component its role, its element type and its length.
    fn head(&self) -> (u64, &str, String, Vec<(&str, &'static str, u64)>) {
        let kind = self.spec.attributes.get(holdall::schema::TENSOR_SCHEMA_ATTRIBUTE);
        let kind = kind.and_then(holdall::Value::as_text).unwrap_or_default();
        let components = self.spec.components.iter();
        let components =
            components.map(|c| (c.role.as_str(), dtype::storage(c.dtype), c.decoded_len));
        let count = self.spec.shape.first().copied().unwrap_or(0);
        (count, self.spec.layout.as_str(), kind.to_owned(), components.collect())
    }

    /// Returns the next bytes of a component, at most `most`; empty at the end.
    fn read<'py>(
        &self,
        py: Python<'py>,
        component: usize,
        most: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
            let mut out = Vec::new();
            if let Some(reader) = readers.get_mut(component) {
                reader.take(most as u64).read_to_end(&mut out)?;
            }
            Ok::<_, io::Error>(out)
        });
        Ok(PyBytes::new(py, &bytes?))
    }
}
