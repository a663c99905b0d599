//! Bytes from a Python object: files of fsspec, object stores, and other objects that can be read
//! by position.

use crate::memory::BorrowedBuffer;
use bytes::Bytes;
use holdall::source::check_range;
use holdall::{ByteSource, ReadHints, Result};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};
use std::ops::Range;

/// A source that calls a Python function with a list of ranges, which returns a list of their
/// bytes. Changes of the underlying file cannot be detected.
pub(crate) struct PythonSource {
    read: Py<PyAny>,
    len: u64,
    name: String,
    hints: ReadHints,
}

impl PythonSource {
    /// Creates a source; `is_far` is whether reads go to another machine.
    pub(crate) fn new(read: Py<PyAny>, len: u64, name: String, is_far: bool) -> PythonSource {
        // Python code runs on one thread at a time, so concurrent reads would only wait for each
        // other.
        let hints = if is_far { ReadHints::REMOTE } else { ReadHints::DISK };
        PythonSource { read, len, name, hints }
    }

    /// Calls `each` with the index of each range and its bytes.
    fn with<T>(
        &self,
        ranges: &[Range<u64>],
        mut each: impl FnMut(&Bound<'_, PyAny>, u64) -> PyResult<T>,
    ) -> Result<Vec<T>> {
        for range in ranges {
            check_range(range, self.len).map_err(|e| e.in_source(&self.name))?;
        }
        let asked = Python::try_attach(|py| {
            let list = PyList::new(py, ranges.iter().map(|range| (range.start, range.end)))?;
            let given = self.read.bind(py).call1((list,))?;
            let mut out = Vec::with_capacity(ranges.len());
            for (range, bytes) in ranges.iter().zip(given.try_iter()?) {
                out.push(each(&bytes?, range.end - range.start)?);
            }
            if out.len() < ranges.len() {
                return Err(short(ranges.len(), out.len(), "ranges"));
            }
            Ok(out)
        });
        // Without an interpreter, report that no bytes were returned.
        let asked = asked.unwrap_or_else(|| Err(short(ranges.len(), 0, "ranges")));
        asked.map_err(|e| {
            holdall::error::io(std::io::Error::other(e), "reading").in_source(&self.name)
        })
    }
}

#[cold]
fn short(wanted: usize, found: usize, what: &str) -> PyErr {
    let message = format!("{wanted} {what} were asked for, {found} came");
    pyo3::exceptions::PyOSError::new_err(message)
}

/// Checks the number of returned bytes.
fn check(found: usize, wanted: u64) -> PyResult<()> {
    match found as u64 == wanted {
        true => Ok(()),
        false => Err(short(usize::try_from(wanted).unwrap_or(usize::MAX), found, "bytes")),
    }
}

impl ByteSource for PythonSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.with(ranges, |given, wanted| {
            let bytes = match given.cast::<PyBytes>() {
                Ok(bytes) => Bytes::from_owner(PyBackedBytes::from(bytes.clone())),
                Err(_) => Bytes::copy_from_slice(BorrowedBuffer::from_object(given)?.bytes()),
            };
            check(bytes.len(), wanted).map(|()| bytes)
        })
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(out.len() as u64);
        let read = self.with(std::slice::from_ref(&range), |given, wanted| {
            let lent = BorrowedBuffer::from_object(given)?;
            check(lent.len(), wanted)?;
            out.copy_from_slice(lent.bytes());
            Ok(())
        });
        read.map(drop)
    }

    fn read_hints(&self) -> ReadHints {
        self.hints
    }
}
