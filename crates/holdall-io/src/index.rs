//! Reading the format and the index of a source.

use crate::source::{Access, ByteSource, FileSource, fetched, read_now};
use holdall_core::{Index, Limits, Result, Window};
use holdall_formats::Format;
use std::ops::Range;
use std::path::Path;

/// Returns the format of a local file, detected from its content.
///
/// # Errors
/// Returns an `Io` error; `format/unknown` if no format recognises the content; `format/empty` if the file is empty.
pub fn format_of(path: impl AsRef<Path>) -> Result<&'static Format> {
    let path = path.as_ref();
    let found = FileSource::open(path).and_then(|source| {
        let mut window = Window::new(source.len());
        fetch_ends(&source, &mut window)?;
        fetched(&source, &mut window, holdall_formats::detect)
    });
    found.map_err(|e| e.in_source(path.display()))
}

/// Returns the byte range of the file's index on disk, if the format can locate it without decoding it.
///
/// # Errors
/// Returns the same errors as [`format_of`]; errors of the format while it looks for the index.
pub fn table_of(source: &dyn ByteSource, limits: &Limits) -> Result<Option<Range<u64>>> {
    let mut window = Window::new(source.len());
    fetch_ends(source, &mut window)?;
    fetched(source, &mut window, |window| holdall_formats::table(window, limits))
}

/// The number of bytes fetched from each end of a remote file, where every fetch is a round trip: enough for every
/// magic number, and for the whole manifest or header of most files.
const FIRST_FETCH: u64 = 256 << 10;
/// The number of bytes read from each end of a local file, where a fetch costs less.
const FIRST_READ: u64 = 64 << 10;
/// The number of bytes read from the start of a file in the system's page cache: a second read is cheap, and unneeded
/// bytes are not.
const FIRST_TOUCH: u64 = 4 << 10;

/// Fetches the start and the end of a source into `window`, which most formats read first.
pub fn fetch_ends(source: &dyn ByteSource, window: &mut Window) -> Result<()> {
    let len = source.len();
    let prefetched = source.prefetched();
    if !prefetched.is_empty() {
        prefetched.into_iter().for_each(|(at, bytes)| window.add(at, bytes));
        return Ok(());
    }
    let first = 0..len.min(FIRST_TOUCH);
    let cached = match source.local() {
        Some(local) if local.is_mapped() => local.read_without_waiting(first),
        Some(_) => None,
        None if source.read_hints().access == Access::Borrowed => Some(source.read_range(first)),
        None => None,
    };
    if let Some(bytes) = cached {
        window.add(0, bytes?);
        return Ok(());
    }
    let each = if source.read_hints().is_remote() { FIRST_FETCH } else { FIRST_READ };
    let head = 0..len.min(each);
    let tail = head.end.max(len.saturating_sub(each))..len;
    let ends = [head, tail];
    let bytes = read_now(source, &ends)?;
    ends.iter().zip(bytes).for_each(|(range, bytes)| window.add(range.start, bytes));
    Ok(())
}

/// Decodes the index of a source, and fetches the ranges that the decoder requests.
pub(crate) fn decode_index(source: &dyn ByteSource, limits: &Limits) -> Result<Index> {
    let mut window = Window::new(source.len());
    fetch_ends(source, &mut window)?;
    fetched(source, &mut window, |window| holdall_formats::decode(window, limits))
}
