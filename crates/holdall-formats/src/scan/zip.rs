//! Entries of zips, of whatever kind their modes say they are, and what their headers say where readers may differ.

use super::packed::Packing;
use super::{Found, Job, Scan, What, too_long};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::zip::walk::guesses;
use holdall_core::wire::zip::{Directory, EntryKind, Method, TOO_MANY_ENTRIES};
use std::ops::Range;
use std::sync::Arc;

/// How many headers of a zip that readers do not agree on are looked at.
const MAX_GUESSES: usize = 1000;

/// Whether a zip begins so, one without entries too.
pub(super) fn starts(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

impl Scan {
    pub(super) fn zip(&self, job: &Job, window: &Window, found: &mut Found) -> Result<(), Stop> {
        let zip = self.steps;
        match Directory::read(window, &self.limits) {
            Ok(directory) => {
                // A reader that writes no files does not ask whether an entry is a symbolic link.
                let has_bytes = |kind: EntryKind, len: u64| kind != EntryKind::Folder || len > 0;
                let entries = directory.entries();
                let entries = entries.filter(|entry| has_bytes(entry.kind(), entry.stored_len()));
                found.next.extend(entries.map(|entry| {
                    let (directory, at) = (directory.clone(), entry.position());
                    job.with(What::Entry { directory, at, zip })
                }));
            }
            Err(Stop::Fail(e)) => {
                found.unread(job, e);
                found.contradictory = Some(zip);
            }
            Err(need) => return Err(need),
        }
        found.next.push(job.with(What::Headers { zip }));
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

    /// Looks at what each header of a zip says is behind it, whatever the directory says.
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
                let e =
                    TOO_MANY_ENTRIES.broken("it has more headers of entries than are looked at");
                found.unread(job, e);
                break;
            }
            let range = guess.data.start as u64..guess.data.end as u64;
            // The directory is wrong, which is said already.
            let Some(method) = guess.method else { continue };
            found.next.push(stored(job, &guess.name, range, method));
        }
        Ok(())
    }
}

/// The job about an entry whose bytes are at `range` of the zip.
fn stored(job: &Job, name: &str, range: Range<u64>, method: Method) -> Job {
    let what = match method {
        Method::Stored => What::File,
        Method::Deflate => What::Packed { packing: Packing::Deflate, is_entry: true },
        Method::Zstd => What::Packed { packing: Packing::Zstd, is_entry: true },
    };
    job.inside(what, job.region.range(range), format!("{}!/{name}", job.name))
}
