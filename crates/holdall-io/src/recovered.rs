//! Zips whose directory was lost: their entries by the headers before them, and such a zip with a directory made of those.

use crate::executor::{ErrorContext, Pieces, Sources};
use crate::source::{ByteSource, JoinedSource, MemorySource, SliceSource, fetched};
use crate::work::Work;
use holdall_core::codec::crc::Crc32;
use holdall_core::error::Shown as _;
use holdall_core::wire::zip::walk::{DESCRIPTOR_LEN, Descriptor, Step, descriptors, step};
use holdall_core::wire::zip::write::{Entry, directory};
use holdall_core::wire::zip::{CRC32, DESCRIPTOR, DUPLICATE_NAME, Directory, Method};
use holdall_core::{Component, Error, ErrorKind, Limits, Result, Window};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// An entry whose bytes have its CRC-32.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// What a directory says of it.
    pub entry: Entry,
    /// Where its stored bytes are.
    pub data: Range<u64>,
    /// Where the next entry begins.
    pub end: u64,
}

impl Recovered {
    /// The decoded bytes of the entry, which lies in `source`.
    ///
    /// # Errors
    /// What decoding finds wrong; Io.
    pub fn pieces(&self, source: Arc<dyn ByteSource>, limits: &Limits) -> Result<Pieces> {
        let encoding = self.entry.method.encoding();
        let component = Component::of_bytes(self.data.clone().into(), encoding, self.entry.len);
        let context = ErrorContext::default();
        Pieces::with_table(Sources::from(source), limits.clone(), context, component, None, None)
    }
}

/// What the headers of entries say.
#[derive(Debug, Default)]
pub struct RecoveredEntries {
    /// Those whose bytes are whole, in their order.
    pub entries: Vec<Recovered>,
    /// What is wrong with the others, and where nothing tells what was there.
    pub lost: Vec<Error>,
}

/// Bytes that are searched for the descriptor of an entry at a time.
const STEP: u64 = 4 << 20;

/// Returns whether `source` begins as a zip does.
///
/// # Errors
/// Io.
pub fn is_zip(source: &dyn ByteSource) -> Result<bool> {
    let head = source.read_range(0..source.len().min(4))?;
    Ok(head.as_ref() == b"PK\x03\x04")
}

/// Returns whether the zip `source` has a directory that can be read.
///
/// # Errors
/// Io.
pub fn has_directory(source: &dyn ByteSource, limits: &Limits) -> Result<bool> {
    let mut window = Window::new(source.len());
    match fetched(source, &mut window, |window| Directory::read(window, limits)) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::Io => Err(e),
        Err(_) => Ok(false),
    }
}

/// The entries of a zip, by their own headers alone.
///
/// # Errors
/// Io.
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
                    let name = entry.name.shown();
                    out.lost.push(DESCRIPTOR.broken(format!(
                        "entry `{name}`: its length is not in its header, and no descriptor behind its bytes tells it"
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
            let name = name.shown();
            out.lost.push(DUPLICATE_NAME.broken(format!("a second entry is named `{name}`")));
            continue;
        }
        match check(source, &found, limits) {
            Ok(()) => out.entries.push(found),
            Err(e) if e.kind() == ErrorKind::Io => return Err(e),
            Err(e) => out.lost.push(e.within(format!("entry `{}`", name.shown()))),
        }
    }
    Ok(out)
}

/// Where the bytes of an entry end that start at `start`, by the descriptor behind them.
fn end_of(
    source: &Arc<dyn ByteSource>,
    entry: &Entry,
    start: u64,
    limits: &Limits,
) -> Result<Option<(Range<u64>, Descriptor)>> {
    let mut at = start;
    while at < source.len() {
        // A descriptor may reach into what is searched next.
        let end = source.len().min(at + STEP + DESCRIPTOR_LEN);
        let bytes = source.read_range(at..end)?;
        for (place, found) in descriptors(&bytes, at - start) {
            let data = start..at + place as u64;
            let is_whole = match entry.method {
                Method::Stored => found.len == found.stored_len,
                method => found.len <= method.encoding().most_decoded(found.stored_len),
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
                    // It may be that of another zip, which is the entry.
                    Err(_) => {}
                }
            }
        }
        at += STEP;
    }
    Ok(None)
}

/// Returns whether an entry or a directory begins at byte `at`, or the file ends there or inside of the four bytes that would tell.
fn is_followed(source: &Arc<dyn ByteSource>, at: u64) -> Result<bool> {
    let head = source.read_range(at.min(source.len())..source.len().min(at + 4))?;
    Ok([b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"].iter().any(|mark| mark.starts_with(&head)))
}

/// Compares the CRC-32 of an entry's bytes with the one that is said of it.
fn check(source: &Arc<dyn ByteSource>, of: &Recovered, limits: &Limits) -> Result<()> {
    let mut crc = Crc32::zip();
    for piece in of.pieces(source.clone(), limits)? {
        crc.update(&piece?);
    }
    let (crc, said) = (crc.value(), of.entry.crc);
    match crc == said {
        true => Ok(()),
        false => {
            let message = format!("the CRC-32 is {crc:#010x}, its header says {said:#010x}");
            Err(CRC32.broken(message))
        }
    }
}

/// The zip `source` up to the last of `entries`, with a directory of these behind it.
///
/// # Errors
/// Malformed, where they are not in it.
pub fn with_directory(
    source: Arc<dyn ByteSource>,
    entries: &[Recovered],
) -> Result<Arc<dyn ByteSource>> {
    let end = entries.iter().map(|of| of.end).max().unwrap_or(0);
    let mut list: Vec<Entry> = entries.iter().map(|of| of.entry.clone()).collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    let tail = MemorySource::new(directory(&list, end));
    let head = SliceSource::new(source, 0..end)?;
    Ok(Arc::new(JoinedSource::new(Arc::new(head), Arc::new(tail))))
}
