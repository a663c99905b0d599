//! Index files of models. A loader reads the files that they name, so these have to be scanned too.

use super::{Found, HEAD, Job};
use crate::shards::{MAX_INDEX, Map, SHARD_INDEX, SHARD_MISSING};
use holdall_collections::HashSet;
use holdall_core::error::{Error, Escape as _};
use holdall_core::window::{Stop, Window};
use holdall_json::Reader;

/// An index file of a model, and the files that it names and that were not scanned with it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelIndex {
    /// The name of the index file in the report: `ARCHIVE!/NAME` for a file in an archive.
    pub source: String,
    /// The paths of the files, relative to the folder of the index.
    pub files: Vec<String>,
}

impl ModelIndex {
    /// Returns the error that lists the files that were not scanned.
    pub fn unread(&self) -> Error {
        let shown: Vec<_> =
            self.files.iter().take(MAX_SHOWN).map(|name| format!("`{}`", name.escaped())).collect();
        let more = match self.files.len().saturating_sub(MAX_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message =
            format!("the index names files that were not scanned: {}{more}", shown.join(", "));
        SHARD_MISSING.broken(message).in_source(&self.source)
    }

    /// Removes the files that were scanned. `scanned` has the names of all scanned files.
    pub(super) fn leave_out(&mut self, scanned: &HashSet<String>) {
        let folder = self.source.rfind('/').and_then(|at| self.source.get(..=at)).unwrap_or("");
        self.files.retain(|name| !scanned.contains(&format!("{folder}{name}")));
    }
}

/// The maximum number of files that an error lists.
const MAX_SHOWN: usize = 8;
/// The key that identifies a JSON file as an index.
const KEY: &str = "weight_map";

/// Records the files that an index names. The name of the file does not matter.
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
            let message = format!("the index has {len} bytes, at most {MAX_INDEX} are allowed");
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
        // Loaders may be able to read it.
        Err(e) if has_key(&text) => found.unread(job, e),
        Err(_) => {}
    }
    Ok(())
}

/// Returns `true` if a file with these first bytes may be an index.
pub(super) fn starts(head: &[u8]) -> bool {
    head.trim_ascii_start().first() == Some(&b'{') && mentions_key(head)
}

/// Returns `true` if a JSON text has the key of an index, as far as the text can be parsed.
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

/// Returns `true` if a text contains the key of an index, with or without escapes.
fn mentions_key(text: &[u8]) -> bool {
    let has = |part: &[u8]| memchr::memmem::find(text, part).is_some();
    has(KEY.as_bytes()) || (has(b"\\u00") && has(b"_map"))
}

/// The maximum depth of JSON in which the key is searched.
const MAX_DEPTH: usize = 128;
