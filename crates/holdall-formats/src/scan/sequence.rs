//! Pickles and NumPy arrays, one after the other, as a program reads them that calls `pickle.load` or `numpy.load` with
//! the same open file until its end, or until an exception is raised.

use super::{Found, HEAD, Job, Scan, ScanTarget};
use crate::scan::trace::{self, End, Input};
use holdall_core::error::Error;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::npy;
use holdall_core::wire::pickle::PACKED;

/// The number of bytes fetched of a pickle that does not end in the first [`HEAD`].
const SECOND: u64 = 1 << 20;

impl Scan {
    /// Analyzes the pickles and arrays that begin at offset `at` of the region.
    pub(super) fn sequence(
        &self,
        at: u64,
        job: &Job,
        window: &Window,
        found: &mut Found,
    ) -> Result<(), Stop> {
        let left = window.len().saturating_sub(at);
        let head = window.bytes(at..at.saturating_add(left.min(HEAD)))?;
        if head.starts_with(npy::MAGIC_BYTES) {
            return self.array(at, job, window, found);
        }
        let most = self.most().min(left);
        let mut traces = Vec::new();
        for size in [HEAD, SECOND, most] {
            let size = size.min(most);
            let bytes = window.bytes(at..at.saturating_add(size))?;
            let max_values = self.limits.attribute_values;
            traces =
                trace::all(Input { bytes: &bytes, total: left, max_values, is_first: at == 0 });
            let is_cut = traces.last().is_some_and(|(_, last)| matches!(last.end, End::Cut));
            if !is_cut || size == most {
                break;
            }
        }
        let (is_one, mut next) = (traces.len() == 1, None);
        for (start, trace) in traces {
            let start = at.saturating_add(start);
            match trace.end {
                // A pickle after others gets as many bytes as the first one.
                End::Cut if !is_one => {
                    next = Some(start);
                    break;
                }
                End::Finished => next = Some(start.saturating_add(trace.len)),
                End::Raised(_) | End::Unfollowed(_) | End::Cut => next = None,
            }
            found.report.add(&job.name, start, trace, false, self.most());
        }
        if let Some(at) = next.filter(|at| *at < window.len()) {
            found.next.push(job.with(ScanTarget::Sequence { at }));
        }
        Ok(())
    }

    /// Skips an array of numbers, or analyzes the pickle after the header of an array of objects.
    fn array(&self, at: u64, job: &Job, window: &Window, found: &mut Found) -> Result<(), Stop> {
        let left = window.len().saturating_sub(at);
        let head = window.bytes(at..at.saturating_add(left.min(12)))?;
        let header_len = match *head {
            [_, _, _, _, _, _, 1, 0, a, b, ..] => 10 + u64::from(u16::from_le_bytes([a, b])),
            [_, _, _, _, _, _, 2 | 3, 0, a, b, c, d] => {
                12 + u64::from(u32::from_le_bytes([a, b, c, d]))
            }
            // NumPy raises an exception.
            _ => return Ok(()),
        };
        if header_len > left {
            return Ok(());
        }
        let elements = at.saturating_add(header_len);
        let next = match header_len > npy::HEADER_MAX {
            true => Elements::Unknown(npy::HEADER.broken("the header of the array is too long")),
            false => Elements::read(&window.bytes(at..elements)?),
        };
        let at = match next {
            Elements::Numbers(len) => elements.saturating_add(len),
            Elements::Objects => elements,
            Elements::Unknown(e) => {
                let e = PACKED.broken(format!(
                    "an array that could not be read, possibly followed by others: {e}"
                ));
                found.unread(job, e);
                elements
            }
        };
        if at < window.len() {
            found.next.push(job.with(ScanTarget::Sequence { at }));
        }
        Ok(())
    }
}

/// The contents after the header of an array.
pub(super) enum Elements {
    /// A number of bytes.
    Numbers(u64),
    /// A pickle.
    Objects,
    /// A pickle, or an unknown number of bytes.
    Unknown(Error),
}

impl Elements {
    /// Parses a complete header.
    pub(super) fn read(header: &[u8]) -> Elements {
        match npy::elements_len(header) {
            // No file has more than 2^64 bytes.
            Ok(len) => Elements::Numbers(len.unwrap_or(u64::MAX)),
            Err(_) if OBJECTS.iter().any(|text| has_once(header, text)) => Elements::Objects,
            Err(e) => Elements::Unknown(e),
        }
    }
}

/// The beginnings of headers in which NumPy writes the type of objects.
const OBJECTS: [&[u8]; 4] = [
    b"{'descr': '|O', 'fortran_order': ",
    b"{'descr': 'O', 'fortran_order': ",
    b"{'descr': '|O8', 'fortran_order': ",
    b"{'descr': '|O4', 'fortran_order': ",
];

/// Returns `true` if the header begins with `text`, and contains no second type.
fn has_once(header: &[u8], text: &[u8]) -> bool {
    let start = memchr::memmem::find(header, text);
    let count = memchr::memmem::find_iter(header, b"descr").count();
    matches!(start, Some(10 | 12)) && count == 1 && !header.contains(&b'\\')
}
