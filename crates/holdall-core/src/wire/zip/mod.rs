//! Zip archives: where each entry is, from the directory at the end alone.
//!
//! ```text
//! entry        local header | stored bytes [| descriptor]      any number, anywhere before the directory
//! directory    one record for each entry, without gaps
//! [zip64 end   record | locator]
//! end          22 bytes | comment, to the last byte of the file
//! ```
//!
//! [`Directory::read`] believes the directory and nothing else; [`Directory::data`] reads the local header
//! of one entry when its bytes are wanted, and refuses one that says otherwise. So opening a file costs
//! its directory, however large the rest is.
//!
//! Strict where readers of zip files are known to differ, because what two of them read differently can
//! be checked by one and run by the other: one end record, at the end; nothing between the directory and
//! it; names unique; entries apart from each other; local headers that agree. What may stand before the
//! first entry, and between entries, belongs to nobody and is never read.

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
use crate::error::{Result, Shown as _};
use crate::limits::Limits;
use crate::model::Encoding;
use crate::window::{Stop, Window};
use crate::wire::cursor::Cursor;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How the bytes of an entry are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// As they are (method 0).
    Stored,
    /// One stream of Deflate, without a header (method 8).
    Deflate,
    /// Frames of zstd (method 93).
    Zstd,
}

impl Method {
    /// The method of a number in a zip, if it is one that is read.
    pub const fn from_number(number: u16) -> Option<Method> {
        match number {
            0 => Some(Method::Stored),
            8 => Some(Method::Deflate),
            93 => Some(Method::Zstd),
            _ => None,
        }
    }

    /// Its number in a zip.
    pub const fn number(self) -> u16 {
        match self {
            Method::Stored => 0,
            Method::Deflate => 8,
            Method::Zstd => 93,
        }
    }

    /// The encoding of a component that is stored so.
    pub const fn encoding(self) -> Encoding {
        match self {
            Method::Stored => Encoding::Raw,
            Method::Deflate => Encoding::DEFLATE,
            Method::Zstd => Encoding::ZSTD,
        }
    }

    /// `stored`, `deflate` or `zstd`.
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

/// What an entry becomes on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder; its name ends in `/`, and it has no bytes.
    Folder,
    /// A symbolic link; its bytes are the target.
    Symlink,
}

/// What a zip's directory says. Memory is 52 bytes for each entry, and its name.
#[derive(Clone, Default)]
pub struct Directory {
    /// All names, one after the other.
    names: String,
    rows: Vec<Row>,
    /// Numbers of entries in bytewise order of their names.
    by_name: Vec<u32>,
    /// Where the directory is, in bytes of the file.
    place: Range<u64>,
    sums: Sums,
}

/// What the CRC-32s of a directory are compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Sums {
    /// The bytes of the entries.
    #[default]
    Checked,
    /// Nothing: the writer did not sum.
    Absent,
}

/// One entry. Its name starts where that of the row before ends.
#[derive(Clone)]
struct Row {
    /// Offset of the local header.
    header: u64,
    /// Where the entry must end at the latest: at the next header, or at the directory.
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
    /// Reads the directory of the zip in `window`: its end, then all of it. The window keeps it, for several formats are
    /// zips, and a decoder that needs more bytes is called again.
    ///
    /// # Errors
    /// [`RULES`], but for [`LOCAL_HEADER`], [`DESCRIPTOR`] and [`CRC32`].
    pub fn read(window: &Window, limits: &Limits) -> Result<Arc<Directory>, Stop> {
        let end = end::find(window, limits)?;
        window.once(|| Directory::from_end(end, window))
    }

    fn from_end(end: End, window: &Window) -> Result<Directory, Stop> {
        let bytes = window.bytes(end.directory.clone())?;
        let mut directory = Directory { place: end.directory.clone(), ..Directory::default() };
        // `end` held the count against the bytes of the directory.
        directory.rows.reserve_exact(usize::try_from(end.count).unwrap_or(0));
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

    /// How many entries there are, folders included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The bytes of the file that hold the directory itself; entries lie before them.
    pub fn range(&self) -> Range<u64> {
        self.place.clone()
    }

    /// Entry number `at`, in the directory's order.
    pub fn at(&self, at: usize) -> Option<Entry<'_>> {
        self.rows.get(at).map(|row| Entry { directory: self, row, at })
    }

    /// All entries, in the directory's order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        self.rows.iter().enumerate().map(|(at, row)| Entry { directory: self, row, at })
    }

    /// All entries, in bytewise order of their names.
    pub fn entries_by_name(&self) -> impl Iterator<Item = Entry<'_>> {
        self.by_name.iter().filter_map(|&at| self.at(at as usize))
    }

    /// The entry of that name.
    pub fn get(&self, name: &str) -> Option<Entry<'_>> {
        let found = self.by_name.binary_search_by(|&at| self.name(at as usize).cmp(name)).ok()?;
        self.at(*self.by_name.get(found)? as usize)
    }

    /// Where the stored bytes of `entry` are, in bytes of the file, by its local header, which is held
    /// against the directory.
    ///
    /// # Errors
    /// [`LOCAL_HEADER`], [`OVERLAP`], [`ZIP64`].
    pub fn data(&self, entry: Entry<'_>, window: &Window) -> Result<Range<u64>, Stop> {
        local::data(entry, window)
    }

    /// Holds the descriptor behind the bytes of `entry`, where its flags promise one, against the directory: for those
    /// who look through the whole of a zip.
    ///
    /// # Errors
    /// [`DESCRIPTOR`], and as [`Directory::data`].
    pub fn check_descriptor(&self, entry: Entry<'_>, window: &Window) -> Result<(), Stop> {
        match descriptor::is_promised(entry) {
            true => descriptor::check(entry, self.data(entry, window)?.end, window),
            false => Ok(()),
        }
    }

    /// The bytes that [`Directory::data`] will ask for, unless the header is an unusually long one:
    /// whoever wants the data of many entries can fetch them at once.
    pub fn header(&self, entry: Entry<'_>) -> Range<u64> {
        local::likely(entry)
    }

    fn name(&self, at: usize) -> &str {
        let start = at.checked_sub(1).and_then(|before| self.rows.get(before));
        let start = start.map_or(0, |row| row.name_end);
        let end = self.rows.get(at).map_or(start, |row| row.name_end);
        self.names.get(start as usize..end as usize).unwrap_or_default()
    }

    fn sort_names(&mut self) -> Result<()> {
        let count = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let mut by_name: Vec<u32> = (0..count).collect();
        // Quick where names come sorted, as most do. Two that are the same are compared by every way to sort.
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
                let message = format!("two entries are named `{}`", name.shown());
                return Err(DUPLICATE_NAME.broken(message).at(self.place.clone()));
            }
        }
        self.by_name = by_name;
        Ok(())
    }

    /// Finds the room that each entry has, and refuses those that need more: the header, the name and
    /// the stored bytes at least.
    fn check_room(&mut self) -> Result<()> {
        let header = |at: u32| self.rows.get(at as usize).map_or(0, |row| row.header);
        let count = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let mut by_place: Vec<u32> = (0..count).collect();
        // Quick where entries lie in the directory's order, as most do.
        by_place.sort_by_key(|&at| header(at));
        let mut room_end = self.place.start;
        for &at in by_place.iter().rev() {
            let name_len = self.name(at as usize).len() as u64;
            let Some(row) = self.rows.get_mut(at as usize) else { continue };
            row.room_end = room_end;
            let least = local::LEN.saturating_add(name_len).saturating_add(row.stored_len);
            let end = row.header.saturating_add(least);
            if end > room_end {
                let (start, is_last) = (row.header, room_end == self.place.start);
                let name = self.name(at as usize).shown();
                let (rule, what) =
                    if is_last { (&BOUNDS, "directory") } else { (&OVERLAP, "next entry") };
                let message = format!(
                    "entry `{name}` takes {least} bytes or more from byte {start}, the {what} starts at \
                     {room_end}"
                );
                return Err(rule.broken(message).at(start..end));
            }
            room_end = row.header;
        }
        Ok(())
    }

    /// The same for a format whose writer may leave all CRC-32s 0, as torch does where it is asked not to sum: they say
    /// nothing then.
    pub fn with_optional_sums(mut self) -> Directory {
        if self.rows.iter().all(|row| row.crc32 == 0) {
            self.sums = Sums::Absent;
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
    /// Its name, as the file has it: `/` between parts, and at the end of a folder's.
    pub fn name(self) -> &'a str {
        self.directory.name(self.at)
    }

    /// Its number, in the directory's order.
    pub fn position(self) -> usize {
        self.at
    }

    /// What it becomes on a disk.
    pub fn kind(self) -> EntryKind {
        self.row.kind
    }

    /// Whether it is a file that its owner may execute.
    pub fn is_executable(self) -> bool {
        self.row.is_executable
    }

    /// How its bytes are stored.
    pub fn method(self) -> Method {
        self.row.method
    }

    /// CRC-32 (the one of zip, not CRC-32C) of the decoded bytes.
    pub fn crc32(self) -> u32 {
        self.row.crc32
    }

    /// CRC-32 of the decoded bytes, unless the writer left out all of them: see [`Directory::with_optional_sums`].
    pub fn sum(self) -> Option<u32> {
        (self.directory.sums == Sums::Checked).then_some(self.row.crc32)
    }

    /// Bytes in the zip.
    pub fn stored_len(self) -> u64 {
        self.row.stored_len
    }

    /// Bytes after decoding: what the directory says.
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
