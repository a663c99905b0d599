//! Finding out what a source holds: its format, where its index lies, and the index.

use crate::source::{Access, ByteSource, FileSource, fetched, read_now};
use holdall_core::{Index, Limits, Result, Window};
use holdall_formats::Format;
use std::ops::Range;
use std::path::Path;

/// The format of a file of the file system, by its content.
///
/// # Errors
/// Io; `format/unknown`, `format/empty`.
pub fn format_of(path: impl AsRef<Path>) -> Result<&'static Format> {
    let path = path.as_ref();
    let found = FileSource::open(path).and_then(|source| {
        let mut window = Window::new(source.len());
        fetch_ends(&source, &mut window)?;
        fetched(&source, &mut window, holdall_formats::detect)
    });
    found.map_err(|e| e.in_source(path.display()))
}

/// Where the table of contents of what `source` holds lies, as far as its format tells that without decoding it.
///
/// # Errors
/// As [`format_of`]; what the format finds wrong on the way there.
pub fn table_of(source: &dyn ByteSource, limits: &Limits) -> Result<Option<Range<u64>>> {
    let mut window = Window::new(source.len());
    fetch_ends(source, &mut window)?;
    fetched(source, &mut window, |window| holdall_formats::table(window, limits))
}

/// Bytes fetched from each end of a file before anything is known about it, where every fetch is a
/// wait: enough for every magic number, and for the whole manifest or header of most files.
const FIRST_FETCH: u64 = 256 << 10;
/// The same of a file that is read, where a fetch costs less.
const FIRST_READ: u64 = 64 << 10;
/// Bytes fetched from the start of a file that is in the system's cache, where a fetch costs little and
/// what is not needed costs more.
const FIRST_TOUCH: u64 = 4 << 10;

/// Fetches what most formats want to see first.
pub fn fetch_ends(source: &dyn ByteSource, window: &mut Window) -> Result<()> {
    let len = source.len();
    let came = source.prefetched();
    if !came.is_empty() {
        came.into_iter().for_each(|(at, bytes)| window.add(at, bytes));
        return Ok(());
    }
    let first = 0..len.min(FIRST_TOUCH);
    let at_hand = match source.local() {
        Some(local) if local.is_mapped() => local.read_at_hand(first),
        Some(_) => None,
        None if source.terms().access == Access::Borrowed => Some(source.read_range(first)),
        None => None,
    };
    if let Some(bytes) = at_hand {
        window.add(0, bytes?);
        return Ok(());
    }
    let each = if source.terms().is_remote() { FIRST_FETCH } else { FIRST_READ };
    let head = 0..len.min(each);
    let tail = head.end.max(len.saturating_sub(each))..len;
    let ends = [head, tail];
    let bytes = read_now(source, &ends)?;
    ends.iter().zip(bytes).for_each(|(range, bytes)| window.add(range.start, bytes));
    Ok(())
}

/// Decodes the index of what `source` holds, fetching what the decoder asks for.
pub(crate) fn decode_index(source: &dyn ByteSource, limits: &Limits) -> Result<Index> {
    let mut window = Window::new(source.len());
    fetch_ends(source, &mut window)?;
    fetched(source, &mut window, |window| holdall_formats::decode(window, limits))
}
