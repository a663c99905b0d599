//! Texts by their place, checked once instead of each time.

use super::rules::INDEX;
use super::{Accessor, Blob, Records};
use holdall_core::Result;
use holdall_schema::record::rules::ACCESS;
use holdall_schema::{Content, Entry, Kind};
use std::borrow::Cow;

/// The texts of a blob ([`Blob::texts`]) or of a member of records ([`Records::texts`]), in memory or mapped.
///
/// All bytes that they lie in, and all entries, are looked at when this is made. Where nothing is wrong with
/// them, no text is checked again, and one is found by a table of 16 bytes for each; else each is checked when
/// it is asked for.
#[derive(Clone)]
pub struct Texts<'t> {
    of: TextSource<'t>,
    count: u64,
    /// All of them; none where one is not sound.
    all: Vec<&'t str>,
}

#[derive(Clone)]
enum TextSource<'t> {
    Blob(&'t Blob),
    Records(&'t Records, Accessor),
}

impl Blob {
    /// All texts, for reading many of them. `None` where they are neither mapped nor in memory.
    ///
    /// # Errors
    /// `records/content`.
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
    /// A string member of all records, for reading many of them. `None` where they are neither mapped nor
    /// in memory, or where not every record has the member.
    ///
    /// # Errors
    /// As [`Records::accessor`]; `record/access` where it is not a string.
    pub fn texts(&self, path: &str) -> Result<Option<Texts<'_>>> {
        let part = self.accessor(path)?;
        let kind = &self.schema().ty(part.ty()).kind;
        if !matches!(kind, Kind::String) {
            let message = format!("a `TypeDef:{}` is not a string", kind.as_str());
            return Err(super::placed(ACCESS.broken(message), self.tensor()));
        }
        let (Some(entries), Some(heap), true) = (self.bytes(), self.heap(), part.is_always_there())
        else {
            return Ok(None);
        };
        self.compare()?;
        let entries = entries.get(part.offset()..).unwrap_or_default();
        let of = TextSource::Records(self, part);
        Ok(Some(Texts::new(of, self.len(), entries, self.0.stride, heap)))
    }
}

/// Every text, if all are sound. The entries stand `stride` bytes apart.
fn all<'t>(entries: &[u8], stride: usize, count: u64, heap: &'t str) -> Option<Vec<&'t str>> {
    let count = usize::try_from(count).ok()?;
    let mut all = Vec::with_capacity(count.min(entries.len()));
    for at in 0..count {
        let entry = entries.get(at.checked_mul(stride)?..)?.first_chunk()?;
        let Entry { offset, len } = Entry::from_bytes(*entry);
        let (start, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        // Where there are no bytes, the offset has a rule of its own.
        let is_sound = len > 0 || offset == 0;
        all.push(heap.get(start..start.checked_add(len)?).filter(|_| is_sound)?);
    }
    Some(all)
}

impl<'t> Texts<'t> {
    fn new(
        of: TextSource<'t>,
        count: u64,
        entries: &[u8],
        stride: usize,
        heap: &'t [u8],
    ) -> Texts<'t> {
        let text = std::str::from_utf8(heap).unwrap_or_default();
        let all = all(entries, stride, count, text).unwrap_or_default();
        Texts { of, count, all }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A text by its place.
    ///
    /// # Errors
    /// As [`Blob::str`], or [`Records::record`] and [`Record::string`](super::Record::string).
    #[inline]
    pub fn get(&self, index: u64) -> Result<&'t str> {
        match usize::try_from(index).ok().and_then(|at| self.all.get(at)) {
            Some(text) => Ok(text),
            None => self.checked(index),
        }
    }

    #[inline(never)]
    fn checked(&self, index: u64) -> Result<&'t str> {
        let (tensor, found) = match &self.of {
            TextSource::Blob(blob) => (blob.tensor(), blob.str(index)?),
            TextSource::Records(records, part) => {
                let found = records.record(index)?.string(part)?;
                (records.tensor(), found.unwrap_or_default())
            }
        };
        match found {
            Cow::Borrowed(text) => Ok(text),
            // What is at hand is borrowed.
            Cow::Owned(_) => Err(super::placed(INDEX.broken("a text not at hand"), tensor)),
        }
    }
}

impl std::fmt::Debug for Texts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Texts").field("len", &self.count).finish_non_exhaustive()
    }
}
