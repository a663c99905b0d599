//! The runs of blobs.

use crate::decode::too_large;
use crate::errors::Raise;
use crate::file::NativeFile;
use crate::kinds::dtype_name;
use crate::memory::Buffer;
use crate::records::{NativeColumn, Picked, STEP};
use bytes::Bytes;
use holdall::json::parse;
use holdall::records::gather::RunSelection;
use holdall::schema::Content;
use holdall::{Blob, Result, TensorRecords as _};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

/// The number of bytes of runs that are read together.
const TOGETHER: usize = 16 << 20;

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
    /// Opens the blob of tensor `at`.
    #[staticmethod]
    fn open(py: Python<'_>, file: Py<NativeFile>, at: usize) -> PyResult<NativeBlob> {
        let tensor = file.get().tensor(py, at)?;
        let blob = py.detach(|| tensor.blob()).raise(py)?;
        Ok(NativeBlob { file, blob })
    }

    /// Returns the number of runs, their content, and the element type if they hold elements.
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

    /// Returns the bytes of a run: a view if the file is mapped.
    fn bytes(&self, py: Python<'_>, index: u64) -> PyResult<Buffer> {
        let blob = self.get(py)?;
        py.detach(|| blob.bytes(index)).raise(py).map(Buffer::frozen)
    }

    /// Returns the bytes of the first of the runs at these positions, as many as are read
    /// together: views if the file is mapped.
    fn some(&self, py: Python<'_>, indices: Picked) -> PyResult<Vec<Buffer>> {
        let blob = self.get(py)?;
        let found = py.detach(|| {
            let (mut out, mut len) = (Vec::new(), 0);
            for run in runs(blob, &indices) {
                match run {
                    // The error is raised when that run is the first one.
                    Err(_) if !out.is_empty() => break,
                    run => out.push(run?),
                }
                len += out.last().map_or(0, Bytes::len);
                if len >= TOGETHER {
                    break;
                }
            }
            Ok(out)
        });
        Ok(found.raise(py)?.into_iter().map(Buffer::frozen).collect())
    }

    /// Returns the texts or bytes at these positions as a column.
    fn gather(&self, py: Python<'_>, indices: Picked) -> PyResult<NativeColumn> {
        let blob = self.get(py)?;
        let found = py.detach(|| match &indices {
            Picked::Range(range) => blob.gather(&RunSelection::Range(range.clone())),
            Picked::At(indices) => blob.gather(&RunSelection::At(indices)),
        });
        found.raise(py).map(NativeColumn::from)
    }

    /// Returns the text runs at these positions, or with `some` the first of them, as above. With
    /// `json` each is checked to be JSON.
    fn texts<'py>(
        &self,
        py: Python<'py>,
        indices: Picked,
        json: bool,
        some: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let blob = self.get(py)?;
        let file = blob.tensor().file();
        let most = file.index().source_len().saturating_mul(file.limits().expansion).max(1 << 20);
        let most = most.min(file.limits().decoded_len);
        let mut left = most;
        let out = PyList::empty(py);
        let mut runs = runs(blob, &indices);
        for (since, index) in indices.listed().into_iter().enumerate() {
            let found = py.detach(|| text(blob, runs.next(), index, json));
            let run = match found {
                Err(_) if some && since > 0 => break,
                found => found.raise(py)?,
            };
            // It was checked to be UTF-8.
            let text = String::from_utf8_lossy(&run);
            let rest = left.checked_sub(text.len() as u64);
            left = rest.ok_or_else(|| too_large(blob.tensor())).raise(py)?;
            out.append(PyString::new(py, &text))?;
            if some && most - left >= TOGETHER as u64 {
                break;
            }
            if (since as u64 + 1).is_multiple_of(STEP) {
                py.check_signals()?;
            }
        }
        Ok(out)
    }
}

/// Returns the runs at these positions; for a range, with read-ahead, otherwise they are read
/// together.
fn runs<'b>(
    blob: &'b Blob,
    indices: &Picked,
) -> Box<dyn Iterator<Item = Result<Bytes>> + Send + 'b> {
    match indices {
        Picked::Range(range) => Box::new(range.clone().map(|index| blob.bytes(index))),
        Picked::At(indices) => Box::new(blob.at(indices.clone())),
    }
}

/// Checks that a run is text, and with `json` that it is JSON.
fn text(blob: &Blob, run: Option<Result<Bytes>>, index: u64, json: bool) -> Result<Bytes> {
    let run = run.transpose()?.unwrap_or_default();
    let is_text = matches!(blob.content(), Content::Utf8 | Content::Json);
    let depth = blob.tensor().file().limits().schema_limits().depth;
    if !is_text || std::str::from_utf8(&run).is_err() || json && parse(&run, depth).is_err() {
        // The blob returns the error for it.
        if json {
            blob.json(index)?;
        }
        blob.str(index)?;
    }
    Ok(run)
}
