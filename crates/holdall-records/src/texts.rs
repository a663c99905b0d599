//! Texts by index that are validated once instead of on each access.

use super::rules::INDEX;
use super::{Accessor, Blob, Records};
use holdall_core::Result;
use holdall_schema::record::rules::ACCESS;
use holdall_schema::{Content, Entry, Kind};
use std::borrow::Cow;

/// All texts of a blob ([`Blob::texts`]) or of a string member of records ([`Records::texts`]), in memory or mapped.
///
/// All bytes and entries are validated when this is created. If they are all valid, no text is validated again, and
/// each is looked up in a table that takes 16 bytes per text. Otherwise each text is validated when it is requested.
#[derive(Clone)]
pub struct Texts<'t> {
    source: TextSource<'t>,
    count: u64,
    /// All texts; empty if one of them is invalid.
    all: Vec<&'t str>,
}

#[derive(Clone)]
enum TextSource<'t> {
    Blob(&'t Blob),
    Records(&'t Records, Accessor),
}

impl Blob {
    /// Returns all texts for repeated access, or `None` if the bytes are neither mapped nor in memory.
    ///
    /// # Errors
    /// Returns `records/content` if the blob does not contain text.
    pub fn texts(&self) -> Result<Option<Texts<'_>>> {
        self.check_content(matches!(self.content(), Content::Utf8 | Content::Json), "text")?;
        let (Some(entries), Some(heap)) = (self.0.entries.whole(), self.0.heap.whole()) else {
            return Ok(None);
        };
        self.compare()?;
        Ok(Some(Texts::new(TextSource::Blob(self), self.len(), entries, Entry::LEN, heap)))
    }
}

impl Records {
    /// Returns a string member of all records for repeated access, or `None` if the bytes are neither mapped nor in
    /// memory or a record can be without the member.
    ///
    /// # Errors
    /// Returns the errors of [`Records::accessor`], and `record/access` if the member is not a string.
    pub fn texts(&self, path: &str) -> Result<Option<Texts<'_>>> {
        let part = self.accessor(path)?;
        let kind = &self.schema().ty(part.ty()).kind;
        if !matches!(kind, Kind::String) {
            let message = format!("a `TypeDef:{}` is not a string", kind.as_str());
            return Err(super::placed(ACCESS.broken(message), self.tensor()));
        }
        let (Some(entries), Some(heap), true) =
            (self.bytes(), self.heap(), part.is_always_present())
        else {
            return Ok(None);
        };
        self.compare()?;
        let entries = entries.get(part.offset()..).unwrap_or_default();
        let source = TextSource::Records(self, part);
        Ok(Some(Texts::new(source, self.len(), entries, self.0.stride, heap)))
    }
}

/// Returns all texts, or `None` if one is invalid. `stride` is the distance between two entries in bytes.
fn all<'t>(entries: &[u8], stride: usize, count: u64, heap: &'t str) -> Option<Vec<&'t str>> {
    let count = usize::try_from(count).ok()?;
    let mut all = Vec::with_capacity(count.min(entries.len()));
    for at in 0..count {
        let entry = entries.get(at.checked_mul(stride)?..)?.first_chunk()?;
        let Entry { offset, len } = Entry::from_bytes(*entry);
        let (start, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        // An empty text must have offset 0.
        let is_sound = len > 0 || offset == 0;
        all.push(heap.get(start..start.checked_add(len)?).filter(|_| is_sound)?);
    }
    Some(all)
}

impl<'t> Texts<'t> {
    fn new(
        source: TextSource<'t>,
        count: u64,
        entries: &[u8],
        stride: usize,
        heap: &'t [u8],
    ) -> Texts<'t> {
        let text = std::str::from_utf8(heap).unwrap_or_default();
        let all = all(entries, stride, count, text).unwrap_or_default();
        Texts { source, count, all }
    }

    /// Returns the number of texts.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Returns `true` if there are no texts.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the text at `index`.
    ///
    /// # Errors
    /// Returns the errors of [`Blob::str`], or those of [`Records::record`] and
    /// [`Record::string`](super::Record::string).
    #[inline]
    pub fn get(&self, index: u64) -> Result<&'t str> {
        match usize::try_from(index).ok().and_then(|at| self.all.get(at)) {
            Some(text) => Ok(text),
            None => self.checked(index),
        }
    }

    #[inline(never)]
    fn checked(&self, index: u64) -> Result<&'t str> {
        let (tensor, found) = match &self.source {
            TextSource::Blob(blob) => (blob.tensor(), blob.str(index)?),
            TextSource::Records(records, part) => {
                let found = records.record(index)?.string(part)?;
                (records.tensor(), found.unwrap_or_default())
            }
        };
        match found {
            Cow::Borrowed(text) => Ok(text),
            // Bytes in memory are borrowed, so this does not happen.
            Cow::Owned(_) => Err(super::placed(INDEX.broken("the text is not in memory"), tensor)),
        }
    }
}

impl std::fmt::Debug for Texts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Texts").field("len", &self.count).finish_non_exhaustive()
    }
}
