//! Index files of models, which name the files that a loader reads with them: those are to be scanned too.

use super::{Found, HEAD, Job};
use crate::shards::{MAX_INDEX, Map, SHARD_INDEX, SHARD_MISSING};
use holdall_collections::HashSet;
use holdall_core::error::{Error, Shown as _};
use holdall_core::window::{Stop, Window};
use holdall_json::Reader;

/// An index file of a model, and the files that it names and that were not scanned with it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelIndex {
    /// The index file, as a report calls it: `ARCHIVE!/NAME` of one in an archive.
    pub source: String,
    /// The paths of the files, from the folder that the index is in.
    pub files: Vec<String>,
}

impl ModelIndex {
    /// Returns the error that says which files were not scanned.
    pub fn unread(&self) -> Error {
        let shown: Vec<_> =
            self.files.iter().take(MOST_SHOWN).map(|name| format!("`{}`", name.shown())).collect();
        let more = match self.files.len().saturating_sub(MOST_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "the index names files that are not here to be scanned: {}{more}",
            shown.join(", ")
        );
        SHARD_MISSING.broken(message).in_source(&self.source)
    }

    /// Leaves out the files that were scanned, by the names of all that were.
    pub(super) fn leave_out(&mut self, scanned: &HashSet<String>) {
        let folder = self.source.rfind('/').and_then(|at| self.source.get(..=at)).unwrap_or("");
        self.files.retain(|name| !scanned.contains(&format!("{folder}{name}")));
    }
}

/// The number of files that an error names.
const MOST_SHOWN: usize = 8;
/// The key that makes a file of JSON an index.
const KEY: &str = "weight_map";

/// Notes the files that the file names if it is an index, whatever it is called.
pub(super) fn index(
    job: &Job,
    window: &Window,
    head: &[u8],
    found: &mut Found,
) -> Result<(), Stop> {
    if head.trim_ascii_start().first() != Some(&b'{') {
        return Ok(());
    }
    let len = window.len();
    if len > MAX_INDEX {
        if mentions_key(head) {
            let message = format!("it has {len} bytes, at most {MAX_INDEX}");
            found.unread(job, SHARD_INDEX.broken(message));
        }
        return Ok(());
    }
    let text = window.head(len.max(HEAD))?;
    match Map::read(&text, &job.name) {
        Ok(map) => {
            let (source, files) = (job.name.clone(), map.files().to_vec());
            found.indices.push(ModelIndex { source, files });
        }
        // Loaders may read it all the same.
        Err(e) if has_key(&text) => found.unread(job, e),
        Err(_) => {}
    }
    Ok(())
}

/// Whether what begins so may be an index.
pub(super) fn starts(head: &[u8]) -> bool {
    head.trim_ascii_start().first() == Some(&b'{') && mentions_key(head)
}

/// Whether a text of JSON has the key of an index, as far as it can be read.
fn has_key(text: &[u8]) -> bool {
    let read = || -> Result<bool, Error> {
        let mut reader = Reader::new(text, 0, MAX_DEPTH)?;
        reader.begin_object()?;
        let mut key = String::new();
        while let Some(field) = reader.next_key(&mut key)? {
            if field == KEY {
                return Ok(true);
            }
            reader.skip()?;
        }
        reader.end()?;
        Ok(false)
    };
    read().unwrap_or_else(|_| mentions_key(text))
}

/// Whether a text has the key of an index, spelt plainly or with escapes.
fn mentions_key(text: &[u8]) -> bool {
    let has = |part: &[u8]| memchr::memmem::find(text, part).is_some();
    has(KEY.as_bytes()) || (has(b"\\u00") && has(b"_map"))
}

/// The nesting of JSON that is followed to find the key.
const MAX_DEPTH: usize = 128;
