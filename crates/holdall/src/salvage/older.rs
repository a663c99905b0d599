//! A file whose end was lost, by an older end of the same file further up: what an append that was cut off leaves behind.

use crate::OpenOptions;
use holdall_core::Result;
use holdall_formats::FORMATS;
use holdall_io::File;
use holdall_io::source::{ByteSource, FileSource, SliceSource};
use std::path::Path;
use std::sync::Arc;

/// Bytes that are searched for an older end at a time.
const STEP: u64 = 4 << 20;
/// The most bytes that tell an end.
const END_LEN: u64 = 16;
/// Bytes that tell whether a table of contents may begin.
const HEAD_LEN: u64 = 16;
/// Older ends that are tried.
const MOST_ENDS: usize = 256;

/// The file up to the last older end that is a sound one.
pub(super) fn older(path: &Path, options: &OpenOptions) -> Result<Option<File>> {
    let name = path.display().to_string();
    let whole: Arc<dyn ByteSource> = match FileSource::open(path) {
        Ok(file) => Arc::new(file),
        Err(_) => return Ok(None),
    };
    let finders: Vec<_> = FORMATS.iter().filter_map(|format| format.old_ends).collect();
    let (mut upto, mut tried) = (whole.len(), 0);
    while upto > 0 && !finders.is_empty() {
        let start = upto.saturating_sub(STEP);
        // What an end is told by may reach into what was searched before.
        let bytes = whole.read_range(start..whole.len().min(upto + END_LEN))?;
        let mut ends: Vec<_> = finders.iter().flat_map(|find| find(&bytes)).collect();
        ends.sort_by_key(|end| std::cmp::Reverse(end.at));
        for old in ends {
            let end = start + old.at as u64;
            let Some(begin) = end.checked_sub(old.back) else { continue };
            // Those that end behind what is searched now were tried before.
            if end == whole.len() || (end > upto + END_LEN / 2 && upto < whole.len()) {
                continue;
            }
            let head = begin..end.min(begin + HEAD_LEN);
            // Mostly in what was read for the search.
            let begins = match begin.checked_sub(start) {
                Some(at) => (old.begins)(&bytes[at as usize..(head.end - start) as usize]),
                None => (old.begins)(&whole.read_range(head)?),
            };
            if !begins {
                continue;
            }
            if tried == MOST_ENDS {
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
