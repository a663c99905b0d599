//! Recovers a file whose end was lost by an older end of the same file further up, which an interrupted
//! append leaves.

use crate::OpenOptions;
use holdall_core::Result;
use holdall_formats::FORMATS;
use holdall_io::File;
use holdall_io::source::{ByteSource, FileSource, SliceSource};
use std::path::Path;
use std::sync::Arc;

/// Bytes that are searched for an older end at a time.
const STEP: u64 = 4 << 20;
/// The maximum number of bytes that identify an end.
const END_LEN: u64 = 16;
/// Bytes that show whether a table of contents can begin there.
const HEAD_LEN: u64 = 16;
/// Maximum number of older ends that are tried.
const MAX_ENDS: usize = 256;

/// Opens the file up to the last older end that is sound.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Option<File>> {
    let name = path.display().to_string();
    let whole: Arc<dyn ByteSource> = match FileSource::open(path) {
        Ok(file) => Arc::new(file),
        Err(_) => return Ok(None),
    };
    let finders: Vec<_> = FORMATS.iter().filter_map(|format| format.old_ends).collect();
    let (mut upto, mut tried) = (whole.len(), 0);
    while upto > 0 && !finders.is_empty() {
        let start = upto.saturating_sub(STEP);
        // The bytes that identify an end may reach into the range that was searched before.
        let bytes = whole.read_range(start..whole.len().min(upto + END_LEN))?;
        let mut ends: Vec<_> = finders.iter().flat_map(|find| find(&bytes)).collect();
        ends.sort_by_key(|end| std::cmp::Reverse(end.offset));
        for old in ends {
            let end = start + old.offset as u64;
            let Some(begin) = end.checked_sub(old.back) else { continue };
            // Ends after the current range were tried before.
            if end == whole.len() || (end > upto + END_LEN / 2 && upto < whole.len()) {
                continue;
            }
            let head = begin..end.min(begin + HEAD_LEN);
            // Mostly within the bytes that were read for the search.
            let begins = match begin.checked_sub(start) {
                Some(at) => (old.begins)(&bytes[at as usize..(head.end - start) as usize]),
                None => (old.begins)(&whole.read_range(head)?),
            };
            if !begins {
                continue;
            }
            if tried == MAX_ENDS {
                return Ok(None);
            }
            tried += 1;
            let part = SliceSource::new(whole.clone(), 0..end)?;
            if let Ok(file) = options.open_source(Arc::new(part), name.clone())
                && !file.is_empty()
            {
                return Ok(Some(file));
            }
        }
        upto = start;
    }
    Ok(None)
}
