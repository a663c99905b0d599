//! Zip archives whose central directory is lost: finding entries by their local headers, and rebuilding the directory.

use crate::executor::{ErrorContext, Pieces, Sources};
use crate::source::{ByteSource, JoinedSource, MemorySource, SliceSource, fetched};
use crate::work::Work;
use holdall_core::codec::crc::Crc32;
use holdall_core::error::Escape as _;
use holdall_core::wire::zip::walk::{DESCRIPTOR_LEN, Descriptor, Step, descriptors, step};
use holdall_core::wire::zip::write::{Entry, directory};
use holdall_core::wire::zip::{CRC32, DESCRIPTOR, DUPLICATE_NAME, Directory, Method};
use holdall_core::{Component, Error, ErrorKind, Limits, Result, Window};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// An entry whose bytes match its CRC-32.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The entry for the directory.
    pub entry: Entry,
    /// The byte range of the stored bytes.
    pub data: Range<u64>,
    /// The offset of the next entry.
    pub end: u64,
}

impl Recovered {
    /// Returns the decoded bytes of the entry, which is in `source`.
    ///
    /// # Errors
    /// Returns the errors of decoding; an `Io` error.
    pub fn pieces(&self, source: Arc<dyn ByteSource>, limits: &Limits) -> Result<Pieces> {
        let encoding = self.entry.method.encoding();
        let component = Component::for_bytes(self.data.clone().into(), encoding, self.entry.len);
        let context = ErrorContext::default();
        Pieces::with_table(Sources::from(source), limits.clone(), context, component, None, None)
    }
}

/// The entries found by their local headers.
#[derive(Debug, Default)]
pub struct RecoveredEntries {
    /// The entries with complete bytes, in order.
    pub entries: Vec<Recovered>,
    /// The errors of the other entries, and of ranges that cannot be interpreted.
    pub lost: Vec<Error>,
}

/// The number of bytes that are searched for the descriptor of an entry at a time.
const STEP: u64 = 4 << 20;

/// Returns `true` if `source` begins like a zip archive.
///
/// # Errors
/// Returns an `Io` error.
pub fn is_zip(source: &dyn ByteSource) -> Result<bool> {
    let head = source.read_range(0..source.len().min(4))?;
    Ok(head.as_ref() == b"PK\x03\x04")
}

/// Returns `true` if the zip archive `source` has a readable directory.
///
/// # Errors
/// Returns an `Io` error.
pub fn has_directory(source: &dyn ByteSource, limits: &Limits) -> Result<bool> {
    let mut window = Window::new(source.len());
    match fetched(source, &mut window, |window| Directory::read(window, limits)) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::Io => Err(e),
        Err(_) => Ok(false),
    }
}

/// Finds the entries of a zip archive by their local headers alone.
///
/// # Errors
/// Returns an `Io` error.
pub fn entries(
    source: &Arc<dyn ByteSource>,
    limits: &Limits,
    work: &Work,
) -> Result<RecoveredEntries> {
    let mut out = RecoveredEntries::default();
    let mut names: HashSet<String> = HashSet::new();
    let mut at = 0;
    while (out.entries.len() + out.lost.len()) as u64 <= limits.files {
        let mut window = Window::new(source.len());
        let found = match fetched(&**source, &mut window, |window| step(window, at))? {
            Step::Directory => break,
            Step::Entry { entry, data } => Recovered { entry, end: data.end, data },
            Step::Deferred { mut entry, start } => {
                let Some((data, found)) = end_of(source, &entry, start, limits)? else {
                    let name = entry.name.escaped();
                    out.lost.push(DESCRIPTOR.broken(format!(
                        "entry `{name}`: its length is neither in its header nor in a descriptor after its bytes"
                    )).at(at..start));
                    break;
                };
                (entry.crc, entry.stored_len, entry.len) = (found.crc, found.stored_len, found.len);
                Recovered { entry, end: data.end + found.size, data }
            }
            Step::Lost { error, next } => {
                out.lost.push(error);
                match next {
                    Some(next) => at = next,
                    None => break,
                }
                continue;
            }
        };
        work.advance(found.end - at)?;
        at = found.end;
        let name = found.entry.name.clone();
        if !names.insert(name.clone()) {
            let name = name.escaped();
            out.lost.push(DUPLICATE_NAME.broken(format!("a second entry is named `{name}`")));
            continue;
        }
        match check(source, &found, limits) {
            Ok(()) => out.entries.push(found),
            Err(e) if e.kind() == ErrorKind::Io => return Err(e),
            Err(e) => out.lost.push(e.within(format!("entry `{}`", name.escaped()))),
        }
    }
    Ok(out)
}

/// Finds the end of an entry whose bytes begin at `start`, by the descriptor that follows them.
fn end_of(
    source: &Arc<dyn ByteSource>,
    entry: &Entry,
    start: u64,
    limits: &Limits,
) -> Result<Option<(Range<u64>, Descriptor)>> {
    let mut at = start;
    while at < source.len() {
        // A descriptor may extend into the next step.
        let end = source.len().min(at + STEP + DESCRIPTOR_LEN);
        let bytes = source.read_range(at..end)?;
        for (place, found) in descriptors(&bytes, at - start) {
            let data = start..at + place as u64;
            let is_whole = match entry.method {
                Method::Stored => found.len == found.stored_len,
                method => found.len <= method.encoding().max_decoded_len(found.stored_len),
            };
            let end = data.end + found.size;
            if is_whole && is_followed(source, end)? {
                let entry = Entry {
                    crc: found.crc,
                    stored_len: found.stored_len,
                    len: found.len,
                    ..entry.clone()
                };
                let own = Recovered { entry, data: data.clone(), end };
                match check(source, &own, limits) {
                    Ok(()) => return Ok(Some((data, found))),
                    Err(e) if e.kind() == ErrorKind::Io => return Err(e),
                    // The descriptor may belong to a zip archive that is stored in this entry.
                    Err(_) => {}
                }
            }
        }
        at += STEP;
    }
    Ok(None)
}

/// Returns `true` if an entry or a directory begins at offset `at`, or the file ends before the four bytes that would
/// show it.
fn is_followed(source: &Arc<dyn ByteSource>, at: u64) -> Result<bool> {
    let head = source.read_range(at.min(source.len())..source.len().min(at + 4))?;
    Ok([b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"].iter().any(|mark| mark.starts_with(&head)))
}

/// Compares the CRC-32 of an entry's bytes with the one in its header.
fn check(source: &Arc<dyn ByteSource>, recovered: &Recovered, limits: &Limits) -> Result<()> {
    let mut crc = Crc32::zip();
    for piece in recovered.pieces(source.clone(), limits)? {
        crc.update(&piece?);
    }
    let (crc, expected) = (crc.value(), recovered.entry.crc);
    match crc == expected {
        true => Ok(()),
        false => {
            let message = format!("expected the CRC-32 {expected:#010x}, found {crc:#010x}");
            Err(CRC32.broken(message))
        }
    }
}

/// Returns the zip archive `source` up to the last of `entries`, followed by a directory of them.
///
/// # Errors
/// Returns a `Malformed` error if an entry ends after the end of `source`.
pub fn with_directory(
    source: Arc<dyn ByteSource>,
    entries: &[Recovered],
) -> Result<Arc<dyn ByteSource>> {
    let end = entries.iter().map(|entry| entry.end).max().unwrap_or(0);
    let mut list: Vec<Entry> = entries.iter().map(|entry| entry.entry.clone()).collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    let tail = MemorySource::new(directory(&list, end));
    let head = SliceSource::new(source, 0..end)?;
    Ok(Arc::new(JoinedSource::new(Arc::new(head), Arc::new(tail))))
}
