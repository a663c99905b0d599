//! Finds the files in a zip: the entries that its directory lists, and the data after each entry header, with or
//! without the directory.
//!
//! The file type in an entry's mode is ignored, because some readers ignore it too. Headers are analyzed as well
//! because readers disagree about a zip whose headers contradict its directory.

use super::packed::Compression;
use super::{Found, Job, Scan, ScanTarget, too_long};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::zip::walk::guesses;
use holdall_core::wire::zip::{Directory, EntryKind, Method, TOO_MANY_ENTRIES};
use std::ops::Range;
use std::sync::Arc;

/// The maximum number of headers analyzed in a zip about which readers disagree.
const MAX_GUESSES: usize = 1000;

/// Returns `true` if a file with these first bytes is a zip, possibly without entries.
pub(super) fn starts(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

/// The maximum number of end records that are checked.
const MAX_ENDS: usize = 64;

/// Returns `true` if some reader may read the file as a zip: an end record in `tail`, the last bytes of the file, leads
/// to the record of an entry, either by the directory's offset or by the length of the directory before it.
///
/// An end record alone is not enough: a program that reads zips contains the bytes that it searches for, but is not a
/// zip.
pub(super) fn may_be_zip(tail: &[u8], window: &Window) -> Result<bool, Stop> {
    let start = window.len().saturating_sub(tail.len() as u64);
    let (mut places, mut count) = (Vec::new(), 0usize);
    for at in memchr::memmem::find_iter(tail, b"PK\x05\x06") {
        count = count.saturating_add(1);
        let before = at.checked_sub(20).and_then(|at| tail.get(at..));
        let is_64 = before.is_some_and(|bytes| bytes.starts_with(b"PK\x06\x07"));
        if is_64 || count > MAX_ENDS {
            return Ok(true);
        }
        let fields =
            tail.get(at.saturating_add(12)..).and_then(|fields| fields.first_chunk::<10>());
        let Some([a, b, c, d, e, f, g, h, ..]) = fields else { continue };
        let len = u64::from(u32::from_le_bytes([*a, *b, *c, *d]));
        let at = start.saturating_add(at as u64);
        places.push(u64::from(u32::from_le_bytes([*e, *f, *g, *h])));
        places.extend(at.checked_sub(len));
    }
    let records = || places.iter().map(|at| *at..at.saturating_add(4));
    let records = || records().filter(|range| range.end <= window.len());
    window.all(records())?;
    for range in records() {
        if window.bytes(range)?.starts_with(b"PK\x01\x02") {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Scan {
    pub(super) fn zip(&self, job: &Job, window: &Window, found: &mut Found) -> Result<(), Stop> {
        let zip = self.steps;
        match Directory::read(window, &self.limits) {
            Ok(directory) => {
                // A reader that does not write files does not check whether an entry is a symbolic link.
                let has_bytes = |kind: EntryKind, len: u64| kind != EntryKind::Folder || len > 0;
                let entries = directory.entries();
                let entries = entries.filter(|entry| has_bytes(entry.kind(), entry.stored_len()));
                found.next.extend(entries.map(|entry| {
                    let (directory, at) = (directory.clone(), entry.position());
                    job.with(ScanTarget::Entry { directory, at, zip })
                }));
            }
            Err(Stop::Fail(e)) => {
                found.unread(job, e);
                found.contradictory = Some(zip);
            }
            Err(need) => return Err(need),
        }
        found.next.push(job.with(ScanTarget::Headers { zip }));
        Ok(())
    }

    pub(super) fn entry(
        &self,
        directory: &Arc<Directory>,
        at: usize,
        zip: u64,
        job: &Job,
        window: &Window,
        found: &mut Found,
    ) -> Result<(), Stop> {
        let Some(entry) = directory.at(at) else { return Ok(()) };
        match directory.data(entry, window) {
            Ok(range) => found.next.push(stored(job, entry.name(), range, entry.method())),
            Err(Stop::Fail(e)) => {
                found.unread(job, e);
                found.contradictory = Some(zip);
            }
            Err(need) => return Err(need),
        }
        Ok(())
    }

    /// Analyzes the data after each header of a zip, according to the header, without using the directory.
    pub(super) fn headers(
        &self,
        job: &Job,
        window: &Window,
        found: &mut Found,
    ) -> Result<(), Stop> {
        let most = self.most();
        let bytes = window.head(most)?;
        if window.len() > most {
            found.unread(job, too_long(most));
        }
        let mut left = most;
        for (at, guess) in guesses(&bytes).enumerate() {
            let len = guess.data.end.saturating_sub(guess.data.start) as u64;
            left = left.saturating_sub(len.max(1));
            if at >= MAX_GUESSES || left == 0 {
                let message = format!(
                    "only the first {at} entry headers were analyzed: at most {MAX_GUESSES} headers, with {most} \
                     bytes of data together, are analyzed"
                );
                found.unread(job, TOO_MANY_ENTRIES.broken(message));
                break;
            }
            let range = guess.data.start as u64..guess.data.end as u64;
            // The directory is invalid, which has already been reported.
            let Some(method) = guess.method else { continue };
            found.next.push(stored(job, &guess.name, range, method));
        }
        Ok(())
    }
}

/// Returns the job for an entry whose bytes are at `range` of the zip.
fn stored(job: &Job, name: &str, range: Range<u64>, method: Method) -> Job {
    let what = match method {
        Method::Stored => ScanTarget::File,
        Method::Deflate => ScanTarget::Packed { compression: Compression::Deflate, is_entry: true },
        Method::Zstd => ScanTarget::Packed { compression: Compression::Zstd, is_entry: true },
    };
    job.for_inner_file(what, job.region.range(range), format!("{}!/{name}", job.name))
}
