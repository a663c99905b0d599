//! Zip archives: the locations of entries, read from the directory at the end.
//!
//! ```text
//! entry        local header | stored bytes [| descriptor]      any number, anywhere before the directory
//! directory    one record for each entry, without gaps
//! [zip64 end   record | locator]
//! end          22 bytes | comment, to the last byte of the file
//! ```
//!
//! [`Directory::read`] only reads the directory. [`Directory::data`] reads the local header of an entry when its bytes
//! are needed, and refuses it if it contradicts the directory. So opening a file only requires its directory, however
//! large the rest is.
//!
//! The reader is strict wherever zip readers are known to differ, because data that two readers see differently could
//! be checked by one and executed by the other: exactly one end record, at the end; nothing between it and the
//! directory; unique names; no overlapping entries; local headers that match the directory. Bytes before the first
//! entry and between entries belong to no entry, and are never read.

mod central;
mod descriptor;
mod end;
mod extra;
mod local;
pub mod read;
mod rules;
pub mod walk;
pub mod write;

pub use rules::*;

use self::end::End;
use crate::error::{Escape as _, Result};
use crate::limits::Limits;
use crate::model::Encoding;
use crate::window::{Stop, Window};
use crate::wire::cursor::Cursor;
use holdall_collections::DebugUnwrap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How the bytes of an entry are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Uncompressed (method 0).
    Stored,
    /// One Deflate stream without a header (method 8).
    Deflate,
    /// Frames of zstd (method 93).
    Zstd,
}

impl Method {
    /// Returns the method with this number in zips, if it is supported.
    pub const fn from_number(number: u16) -> Option<Method> {
        match number {
            0 => Some(Method::Stored),
            8 => Some(Method::Deflate),
            93 => Some(Method::Zstd),
            _ => None,
        }
    }

    /// Returns the method's number in zips.
    pub const fn number(self) -> u16 {
        match self {
            Method::Stored => 0,
            Method::Deflate => 8,
            Method::Zstd => 93,
        }
    }

    /// Returns the encoding of a component that is stored with this method.
    pub const fn encoding(self) -> Encoding {
        match self {
            Method::Stored => Encoding::Raw,
            Method::Deflate => Encoding::DEFLATE,
            Method::Zstd => Encoding::ZSTD,
        }
    }

    /// Returns the method's name: `stored`, `deflate` or `zstd`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Stored => "stored",
            Method::Deflate => "deflate",
            Method::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The kind of file that an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder. Its name ends with `/`, and it has no bytes.
    Folder,
    /// A symbolic link. Its bytes are the target.
    Symlink,
}

/// The directory of a zip. Memory is 52 bytes per entry, plus the names.
#[derive(Clone, Default)]
pub struct Directory {
    /// All names, concatenated.
    names: String,
    rows: Vec<Row>,
    /// The indices of entries in bytewise order of their names.
    by_name: Vec<u32>,
    /// The range of the directory in the file.
    range: Range<u64>,
    sums: EntryChecksums,
}

/// The treatment of the CRC-32s in a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum EntryChecksums {
    /// Checksums are compared with the bytes of the entries.
    #[default]
    Checked,
    /// Checksums are not compared, because the writer did not compute them.
    Absent,
}

/// One entry. Its name starts at the end of the previous row's.
#[derive(Clone)]
struct Row {
    /// The offset of the local header.
    header: u64,
    /// The end of the entry's room: the next header, or the directory.
    room_end: u64,
    stored_len: u64,
    decoded_len: u64,
    crc32: u32,
    name_end: u32,
    flags: u16,
    method: Method,
    kind: EntryKind,
    is_executable: bool,
}

impl Directory {
    /// Reads the directory of the zip in `window`: first its end, then all of it. The window keeps it, because several
    /// formats are zips, and because a decoder that needs more bytes is called again.
    ///
    /// # Errors
    /// Returns an error of [`RULES`], except [`LOCAL_HEADER`], [`DESCRIPTOR`] and [`CRC32`], if the directory is
    /// malformed.
    pub fn read(window: &Window, limits: &Limits) -> Result<Arc<Directory>, Stop> {
        let end = end::find(window, limits)?;
        window.once(|| Directory::from_end(end, window))
    }

    fn from_end(end: End, window: &Window) -> Result<Directory, Stop> {
        let bytes = window.bytes(end.directory.clone())?;
        let mut directory = Directory { range: end.directory.clone(), ..Directory::default() };
        // `end` compared the count with the bytes of the directory.
        directory.rows.reserve_exact(usize::try_from(end.count).debug_unwrap());
        let mut cursor = Cursor::new(&bytes);
        for _ in 0..end.count {
            central::read(&mut cursor, &mut directory)?;
        }
        if cursor.remaining() != 0 {
            let left = cursor.remaining();
            let message = format!("{left} bytes follow the last of {} entries", end.count);
            return Err(DIRECTORY.broken(message).at(end.directory).into());
        }
        directory.sort_names()?;
        directory.check_room()?;
        Ok(directory)
    }

    /// Returns the number of entries, including folders.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns `true` if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the range of the directory in the file. All entries are before it.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns the entry at `index`, in the directory's order.
    pub fn at(&self, index: usize) -> Option<Entry<'_>> {
        self.rows.get(index).map(|row| Entry { directory: self, row, at: index })
    }

    /// Returns all entries, in the directory's order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        self.rows.iter().enumerate().map(|(at, row)| Entry { directory: self, row, at })
    }

    /// Returns all entries, in bytewise order of their names.
    pub fn entries_by_name(&self) -> impl Iterator<Item = Entry<'_>> {
        self.by_name.iter().filter_map(|&at| self.at(at as usize))
    }

    /// Returns the entry with this name.
    pub fn get(&self, name: &str) -> Option<Entry<'_>> {
        let found = self.by_name.binary_search_by(|&at| self.name(at as usize).cmp(name)).ok()?;
        self.at(*self.by_name.get(found)? as usize)
    }

    /// Returns the range of the stored bytes of `entry` in the file, from its local header, which is compared with the
    /// directory.
    ///
    /// # Errors
    /// Returns [`LOCAL_HEADER`], [`OVERLAP`] or [`ZIP64`] if the header is malformed or differs.
    pub fn data(&self, entry: Entry<'_>, window: &Window) -> Result<Range<u64>, Stop> {
        local::data(entry, window)
    }

    /// Compares the descriptor after the bytes of `entry`, if its flags announce one, with the directory. For checks of
    /// a whole zip.
    ///
    /// # Errors
    /// Returns [`DESCRIPTOR`] if it differs, and the errors of [`Directory::data`].
    pub fn check_descriptor(&self, entry: Entry<'_>, window: &Window) -> Result<(), Stop> {
        match descriptor::is_promised(entry) {
            true => descriptor::check(entry, self.data(entry, window)?.end, window),
            false => Ok(()),
        }
    }

    /// Returns the bytes that [`Directory::data`] needs, unless the header is unusually long. Used to fetch the headers
    /// of many entries at once.
    pub fn header(&self, entry: Entry<'_>) -> Range<u64> {
        local::likely_ranges(entry)
    }

    fn name(&self, at: usize) -> &str {
        let start = at.checked_sub(1).and_then(|before| self.rows.get(before));
        let start = start.map_or(0, |row| row.name_end);
        let end = self.rows.get(at).map_or(start, |row| row.name_end);
        self.names.get(start as usize..end as usize).debug_unwrap()
    }

    fn sort_names(&mut self) -> Result<()> {
        let count = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let mut by_name: Vec<u32> = (0..count).collect();
        // Fast if names are sorted, as usual. Every way to sort compares two equal names.
        let mut are_unique = true;
        by_name.sort_by(|&a, &b| {
            let order = self.name(a as usize).cmp(self.name(b as usize));
            are_unique &= order.is_ne() || a == b;
            order
        });
        let neighbours = by_name.iter().zip(by_name.iter().skip(1));
        for (&a, &b) in neighbours.filter(|_| !are_unique) {
            let name = self.name(a as usize);
            if name == self.name(b as usize) {
                let message = format!("two entries are named `{}`", name.escaped());
                return Err(DUPLICATE_NAME.broken(message).at(self.range.clone()));
            }
        }
        self.by_name = by_name;
        Ok(())
    }

    /// Computes the room of each entry, and refuses entries that need more for their header, name and stored bytes.
    fn check_room(&mut self) -> Result<()> {
        let header = |at: u32| self.rows.get(at as usize).map_or(0, |row| row.header);
        let count = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let mut by_place: Vec<u32> = (0..count).collect();
        // Fast if entries are in the directory's order, as usual.
        by_place.sort_by_key(|&at| header(at));
        let mut room_end = self.range.start;
        for &at in by_place.iter().rev() {
            let name_len = self.name(at as usize).len() as u64;
            let Some(row) = self.rows.get_mut(at as usize) else { continue };
            row.room_end = room_end;
            let least = local::LEN.saturating_add(name_len).saturating_add(row.stored_len);
            let end = row.header.saturating_add(least);
            if end > room_end {
                let (start, is_last) = (row.header, room_end == self.range.start);
                let name = self.name(at as usize).escaped();
                let (rule, what) =
                    if is_last { (&BOUNDS, "directory") } else { (&OVERLAP, "next entry") };
                let message = format!(
                    "entry `{name}` needs at least {least} bytes from byte {start}, but the {what} starts at \
                     {room_end}"
                );
                return Err(rule.broken(message).at(start..end));
            }
            room_end = row.header;
        }
        Ok(())
    }

    /// Accepts CRC-32s that are all 0, for a format whose writer may omit them, like torch. They are then not compared.
    pub fn with_optional_checksums(mut self) -> Directory {
        if self.rows.iter().all(|row| row.crc32 == 0) {
            self.sums = EntryChecksums::Absent;
        }
        self
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("entries", &self.len()).finish_non_exhaustive()
    }
}

/// One entry of a [`Directory`].
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    directory: &'a Directory,
    row: &'a Row,
    at: usize,
}

impl<'a> Entry<'a> {
    /// Returns the name as in the file, with `/` as separator and at the end of folders.
    pub fn name(self) -> &'a str {
        self.directory.name(self.at)
    }

    /// Returns the entry's index in the directory.
    pub fn position(self) -> usize {
        self.at
    }

    /// Returns the kind of file.
    pub fn kind(self) -> EntryKind {
        self.row.kind
    }

    /// Returns `true` if the entry is a file that its owner may execute.
    pub fn is_executable(self) -> bool {
        self.row.is_executable
    }

    /// Returns how the entry's bytes are stored.
    pub fn method(self) -> Method {
        self.row.method
    }

    /// Returns the CRC-32 (of zip, not CRC-32C) of the decoded bytes.
    pub fn crc32(self) -> u32 {
        self.row.crc32
    }

    /// Returns the CRC-32 of the decoded bytes, unless the writer omitted all of them: see
    /// [`Directory::with_optional_checksums`].
    pub fn checked_crc32(self) -> Option<u32> {
        (self.directory.sums == EntryChecksums::Checked).then_some(self.row.crc32)
    }

    /// Returns the number of stored bytes.
    pub fn stored_len(self) -> u64 {
        self.row.stored_len
    }

    /// Returns the number of decoded bytes, according to the directory.
    pub fn decoded_len(self) -> u64 {
        self.row.decoded_len
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name())
            .field("kind", &self.kind())
            .field("method", &self.method())
            .field("stored_len", &self.stored_len())
            .field("decoded_len", &self.decoded_len())
            .finish_non_exhaustive()
    }
}
