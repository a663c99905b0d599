//! FlatBuffers: tables of fields that refer to each other, read in place.
//!
//! ```text
//! table    i32: distance back to its list of fields; then the fields
//! fields   u16: bytes of this list; u16: bytes of the table; then u16 per field: its offset in the table, 0 if it is
//! missing
//! vector   u32: number of items; then the items
//! ```
//! Values that do not fit in a table are referred to by a u32: their distance from it in bytes.

use crate::window::{Stop, Window};
use bytes::Bytes;
use holdall_collections::sort_by;
use std::ops::Range;

crate::error::rules! {
    /// Rules of FlatBuffers.
    pub static RULES;

    /// A table, list, vector or field lies outside the file or its table.
    pub BOUNDS: Malformed "flatbuffer/bounds"
        "Tables, their field lists and vectors lie inside the file, and fields lie inside their table."
        hint "the download may not be complete";
}

/// The block size of fetches: tables are usually close to their lists of fields and their texts.
const BLOCK: u64 = 1024;

/// A table: its offset, and the offsets of its fields.
#[derive(Debug, Clone)]
pub struct Table {
    at: u64,
    len: u64,
    /// The offset of each field from the start of the table.
    fields: Bytes,
}

/// Reads a FlatBuffers file.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'w>(&'w Window);

impl<'w> Reader<'w> {
    /// Creates a reader of the file in `window`.
    pub fn new(window: &'w Window) -> Reader<'w> {
        Reader(window)
    }

    /// Returns the root table.
    ///
    /// # Errors
    /// Returns [`BOUNDS`] if it is outside the file, and [`Stop::Need`] if bytes are missing.
    pub fn root(&self) -> Result<Table, Stop> {
        self.table(self.target(0)?)
    }

    /// Returns the table at `offset`.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::root`].
    pub fn table(&self, offset: u64) -> Result<Table, Stop> {
        let back = i64::from(i32::from_le_bytes(self.array(offset)?));
        let outside = || -> Stop {
            BOUNDS.broken("the field list of a table is outside the file").at(offset..offset).into()
        };
        let list = offset.checked_add_signed(back.saturating_neg()).ok_or_else(outside)?;
        let [list_len, len] = [self.u16(list)?, self.u16(list.saturating_add(2))?].map(u64::from);
        let range = list.saturating_add(4)..list.saturating_add(list_len.max(4));
        if offset.checked_add(len).is_none_or(|end| end > self.0.len()) {
            let message = format!("a table of {len} bytes exceeds the file");
            return Err(BOUNDS.broken(message).at(offset..offset.saturating_add(4)).into());
        }
        Ok(Table { at: offset, len, fields: self.bytes(range)? })
    }

    /// Returns the offset in the file of field `number` of a table, which has `width` bytes, or `None` if the field is
    /// missing.
    ///
    /// # Errors
    /// Returns [`BOUNDS`] if the field is outside its table.
    pub fn field(&self, table: &Table, number: usize, width: u64) -> Result<Option<u64>, Stop> {
        let bytes = table.fields.chunks_exact(2).nth(number);
        let offset = bytes.and_then(|b| b.first_chunk().copied()).map_or(0, u16::from_le_bytes);
        let offset = u64::from(offset);
        if offset == 0 {
            return Ok(None);
        }
        let end = offset.saturating_add(width);
        if offset < 4 || end > table.len {
            let message = format!(
                "field {number} at bytes {offset}..{end} is outside its table of {} bytes",
                table.len
            );
            return Err(BOUNDS.broken(message).at(table.at..table.at.saturating_add(4)).into());
        }
        Ok(Some(table.at.saturating_add(offset)))
    }

    /// Returns the `N` bytes of a field that is a number, or `None` if it is missing.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::root`].
    pub fn number<const N: usize>(
        &self,
        table: &Table,
        number: usize,
    ) -> Result<Option<[u8; N]>, Stop> {
        match self.field(table, number, N as u64)? {
            Some(at) => self.array(at).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the offset that a field refers to.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::root`].
    pub fn pointed(&self, table: &Table, number: usize) -> Result<Option<u64>, Stop> {
        match self.field(table, number, 4)? {
            Some(at) => self.target(at).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the table that a field refers to.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::root`].
    pub fn inner(&self, table: &Table, number: usize) -> Result<Option<Table>, Stop> {
        match self.pointed(table, number)? {
            Some(at) => self.table(at).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the range of the items of the vector or text that a field refers to. Items have `width` bytes.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::root`].
    pub fn vector(
        &self,
        table: &Table,
        number: usize,
        width: u64,
    ) -> Result<Option<Range<u64>>, Stop> {
        let Some(at) = self.pointed(table, number)? else { return Ok(None) };
        let count = u64::from(u32::from_le_bytes(self.array(at)?));
        let start = at.saturating_add(4);
        let end = count.checked_mul(width).and_then(|len| start.checked_add(len));
        match end.filter(|end| *end <= self.0.len()) {
            Some(end) => Ok(Some(start..end)),
            None => {
                let message =
                    format!("a vector of {count} items of {width} bytes exceeds the file");
                Err(BOUNDS.broken(message).at(at..start).into())
            }
        }
    }

    /// Calls `read` with each table of a vector of tables, and returns the results. Missing bytes of all tables are
    /// requested together.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::root`] and of `read`.
    pub fn tables<T>(
        &self,
        range: Range<u64>,
        mut read: impl FnMut(u64, Table) -> Result<T, Stop>,
    ) -> Result<Vec<T>, Stop> {
        let bytes = self.bytes(range.clone())?;
        let (mut out, mut needs) = (Vec::new(), Vec::new());
        for (number, offset) in (0u64..).zip(bytes.as_chunks::<4>().0) {
            let at = range.start.saturating_add(number.saturating_mul(4));
            let at = at.saturating_add(u32::from_le_bytes(*offset).into());
            match self.table(at).and_then(|table| read(number, table)) {
                Ok(found) => out.push(found),
                Err(Stop::Need(ranges)) => needs.extend(ranges),
                Err(fail) => return Err(fail),
            }
        }
        if needs.is_empty() {
            return Ok(out);
        }
        // Many tables lie in one block.
        sort_by(&mut needs, |a, b| (a.start, a.end).cmp(&(b.start, b.end)));
        needs.dedup();
        Err(Stop::Need(needs))
    }

    /// Returns the bytes in a range.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::root`].
    pub fn bytes(&self, range: Range<u64>) -> Result<Bytes, Stop> {
        if range.end > self.0.len() || range.start > range.end {
            let message =
                format!("bytes beyond the end of the file, which has {} bytes", self.0.len());
            return Err(BOUNDS.broken(message).at(range).into());
        }
        match self.0.bytes(range.clone()) {
            Err(Stop::Need(_)) => {}
            found => return found,
        }
        let start = (range.start / BLOCK).saturating_mul(BLOCK);
        let end = range.end.checked_next_multiple_of(BLOCK).unwrap_or(range.end);
        let found = self.0.bytes(start..end.min(self.0.len()))?;
        let at = |n: u64| usize::try_from(n.saturating_sub(start)).unwrap_or(usize::MAX);
        Ok(found.slice(at(range.start)..at(range.end)))
    }

    /// Returns the offset that the u32 at `at` refers to.
    fn target(&self, at: u64) -> Result<u64, Stop> {
        Ok(at.saturating_add(u32::from_le_bytes(self.array(at)?).into()))
    }

    fn u16(&self, at: u64) -> Result<u16, Stop> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn array<const N: usize>(&self, at: u64) -> Result<[u8; N], Stop> {
        let found = self.bytes(at..at.saturating_add(N as u64))?;
        Ok(found.first_chunk::<N>().copied().unwrap_or([0; N]))
    }
}
