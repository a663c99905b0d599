//! Values of variable length, which are stored in global heaps, and references to objects.

use super::datatype::{Datatype, Kind, Number};
use super::heaps::global_heap_objects;
use super::reader::Reader;
use super::tree::slice;
use super::{LINK, TOO_MANY};
use bytes::Bytes;
use holdall_collections::{HashMap, HashSet, sort};
use holdall_core::error::{Remedy, Result};
use holdall_core::limits::Limits;
use holdall_core::model::ByteOrder;
use holdall_core::window::Stop;
use holdall_core::wire::cursor::Cursor;

/// The alignment of a value in the heap of records.
const ALIGN: usize = 8;

/// The paths of objects, by the addresses of their headers.
pub(super) type Paths = HashMap<u64, String>;

/// The objects of the global heap collections that have been read: by the address of the collection, then by the
/// object's number.
#[derive(Default)]
pub(super) struct GlobalHeaps(HashMap<u64, HashMap<u16, Bytes>>);

/// The location of a value in the heap.
#[derive(Clone, Copy)]
pub(super) struct Located {
    /// The number of bytes of a text, or of elements of a sequence.
    pub(super) len: u32,
    /// The address of the collection.
    at: Option<u64>,
    /// The number in the collection.
    number: u32,
}

impl Located {
    /// Reads a location.
    pub(super) fn read(reader: &Reader<'_>, bytes: &[u8]) -> Option<Located> {
        let mut cursor = Cursor::new(bytes);
        let (len, at, number) = (cursor.u32_le()?, reader.address(&mut cursor)?, cursor.u32_le()?);
        Some(Located { len, at: at.filter(|at| *at > 0), number })
    }
}

impl GlobalHeaps {
    /// Reads the collections with all objects that `values` refer to, each of which are bytes of values of a type.
    pub(super) fn load(
        &mut self,
        reader: &Reader<'_>,
        values: &[(&Datatype, &[u8])],
    ) -> Result<(), Stop> {
        loop {
            let (mut missing, mut seen) = (Vec::new(), HashSet::default());
            for (datatype, bytes) in values {
                self.find(reader, datatype, bytes, &mut seen, &mut missing);
            }
            sort(&mut missing);
            missing.dedup();
            if missing.is_empty() {
                return Ok(());
            }
            self.0.extend(global_heap_objects(reader, &missing)?);
        }
    }

    /// Adds the addresses of the collections that are not read yet to `missing`. `seen` has the objects that were
    /// looked at, with the type as which they were.
    fn find(
        &self,
        reader: &Reader<'_>,
        datatype: &Datatype,
        bytes: &[u8],
        seen: &mut HashSet<(u64, u32, usize)>,
        missing: &mut Vec<u64>,
    ) {
        let each =
            || bytes.chunks_exact(usize::try_from(datatype.size).unwrap_or(usize::MAX).max(1));
        match &datatype.kind {
            Kind::VarText | Kind::Var(_) => {
                for value in each() {
                    let Some(found) = Located::read(reader, value) else { continue };
                    let (Some(at), 1..) = (found.at, found.len) else { continue };
                    let Some(objects) = self.0.get(&at) else {
                        missing.push(at);
                        continue;
                    };
                    let object = u16::try_from(found.number).ok().and_then(|n| objects.get(&n));
                    let (Kind::Var(datatype), Some(object)) = (&datatype.kind, object) else {
                        continue;
                    };
                    if datatype.is_varying() && seen.insert((at, found.number, datatype.identity()))
                    {
                        self.find(reader, datatype, object, seen, missing);
                    }
                }
            }
            Kind::Array(_, datatype) if datatype.is_varying() => {
                self.find(reader, datatype, bytes, seen, missing)
            }
            Kind::Record(members) => {
                for member in members.iter().filter(|member| member.datatype.is_varying()) {
                    for value in each() {
                        let value = part(value, member.at, member.datatype.size);
                        self.find(
                            reader,
                            &member.datatype,
                            value.unwrap_or_default(),
                            seen,
                            missing,
                        );
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the bytes of a value of `len` items of `width` bytes; `None` if the heap does not have as many.
    pub(super) fn get(&self, found: Located, width: u64) -> Option<Bytes> {
        if found.len == 0 {
            return Some(Bytes::new());
        }
        let object = self.0.get(&found.at?)?.get(&u16::try_from(found.number).ok()?)?;
        let wanted = u64::from(found.len).checked_mul(width)?;
        (object.len() as u64 >= wanted).then(|| slice(object, 0..wanted))
    }
}

/// Returns the bytes of a member.
pub(super) fn part(record: &[u8], at: u64, len: u32) -> Option<&[u8]> {
    let at = usize::try_from(at).ok()?;
    record.get(at..at.checked_add(usize::try_from(len).ok()?)?)
}

/// Returns a text without what follows its first zero byte.
pub(super) fn ended(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns the path of the object that a reference leads to; an empty text if it leads nowhere.
pub(super) fn referenced<'p>(
    reader: &Reader<'_>,
    paths: &'p Paths,
    bytes: &[u8],
) -> Result<&'p str> {
    match reader.address(&mut Cursor::new(bytes)) {
        Some(None | Some(0)) => Ok(""),
        Some(Some(at)) if paths.contains_key(&at) => Ok(paths.get(&at).map_or("", String::as_str)),
        _ => Err(LINK.broken("a reference leads to no object of the file")),
    }
}

/// The number of bytes of datasets that may still be kept in memory.
pub(super) struct Room {
    left: u64,
    most: u64,
}

impl Room {
    pub(super) fn new(limits: &Limits) -> Room {
        Room { left: limits.header_len, most: limits.header_len }
    }

    /// Counts bytes.
    pub(super) fn take(&mut self, len: u64) -> Result<()> {
        let most = self.most;
        self.left = self.left.checked_sub(len).ok_or_else(|| {
            let message = format!(
                "values of variable length and virtual datasets take more than {most} bytes together"
            );
            let raise = Remedy::RaiseLimit { limit: "header_len", at_least: None };
            TOO_MANY.broken(message).with_remedy(raise)
        })?;
        Ok(())
    }
}

/// Records whose values of variable length are in a heap of their own.
#[derive(Default)]
pub(super) struct Records {
    pub(super) records: Vec<u8>,
    pub(super) heap: Vec<u8>,
    /// The identities of the types whose texts are not all UTF-8.
    pub(super) bytes: HashSet<usize>,
}

/// Converts values to records.
pub(super) struct Conversion<'a, 'w> {
    pub(super) reader: &'a Reader<'w>,
    pub(super) heaps: &'a GlobalHeaps,
    pub(super) paths: &'a Paths,
    pub(super) room: &'a mut Room,
    pub(super) out: Records,
    /// The place in the heap of each value that has been converted: its bytes are shared by all that refer to it.
    known: HashMap<(u64, u32, u32, usize), (u64, u64)>,
    /// The same for the paths of objects.
    known_paths: HashMap<String, (u64, u64)>,
}

impl<'a, 'w> Conversion<'a, 'w> {
    pub(super) fn new(
        reader: &'a Reader<'w>,
        heaps: &'a GlobalHeaps,
        paths: &'a Paths,
        room: &'a mut Room,
    ) -> Conversion<'a, 'w> {
        Conversion {
            reader,
            heaps,
            paths,
            room,
            out: Records::default(),
            known: HashMap::default(),
            known_paths: HashMap::default(),
        }
    }

    /// Converts values of a type, which follow one another.
    ///
    /// # Errors
    /// Returns an error if a value is missing from the heap, and of [`Room::take`].
    pub(super) fn run(mut self, datatype: &Datatype, values: &[u8]) -> Result<Records> {
        let mut records = Vec::new();
        self.all(datatype, values, &mut records)?;
        self.out.records = records;
        Ok(self.out)
    }

    fn all(&mut self, datatype: &Datatype, values: &[u8], to: &mut Vec<u8>) -> Result<()> {
        let size = usize::try_from(datatype.size).unwrap_or(usize::MAX).max(1);
        let count = values.len().checked_div(size).unwrap_or(0) as u64;
        self.room.take(count.saturating_mul(datatype.width()))?;
        values.chunks_exact(size).try_for_each(|value| self.one(datatype, value, to))
    }

    fn one(&mut self, datatype: &Datatype, value: &[u8], to: &mut Vec<u8>) -> Result<()> {
        match &datatype.kind {
            Kind::Number(number) => turned(number, value, to),
            Kind::Enum(datatype, _) => self.one(datatype, value, to)?,
            Kind::Array(_, datatype) => {
                let size = usize::try_from(datatype.size).unwrap_or(usize::MAX).max(1);
                value.chunks_exact(size).try_for_each(|value| self.one(datatype, value, to))?;
            }
            Kind::Record(members) => {
                for member in members {
                    let own = part(value, member.at, member.datatype.size);
                    let outside = || self.reader.broken(0, "a member lies outside of its record");
                    self.one(&member.datatype, own.ok_or_else(outside)?, to)?;
                }
            }
            Kind::VarText | Kind::Var(_) => {
                let missing = || self.reader.broken(0, "a value is missing from the heap");
                let found = Located::read(self.reader, value).ok_or_else(missing)?;
                let entry = self.entry(datatype, found)?;
                push(entry, to);
            }
            Kind::Reference => {
                let path = referenced(self.reader, self.paths, value)?;
                let entry = match self.known_paths.get(path) {
                    Some(known) => *known,
                    None => {
                        let entry = self.keep(path.as_bytes(), 1)?;
                        self.known_paths.insert(path.to_owned(), entry);
                        entry
                    }
                };
                push(entry, to);
            }
            Kind::Text(_) | Kind::Opaque(_) | Kind::Other(_) => to.extend_from_slice(value),
        }
        Ok(())
    }

    /// Returns the location of a value in the heap of the records.
    fn entry(&mut self, datatype: &Datatype, found: Located) -> Result<(u64, u64)> {
        let key = (found.at.unwrap_or(0), found.number, found.len, datatype.identity());
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let width = match &datatype.kind {
            Kind::Var(datatype) => datatype.size.into(),
            _ => 1,
        };
        let missing = || self.reader.broken(0, "a value is missing from the heap");
        let value = self.heaps.get(found, width).ok_or_else(missing)?;
        let entry = match &datatype.kind {
            Kind::Var(datatype) => {
                let mut items = Vec::new();
                self.all(datatype, &value, &mut items)?;
                self.keep(&items, ALIGN)?
            }
            _ => {
                let text = ended(&value);
                if std::str::from_utf8(text).is_err() {
                    self.out.bytes.insert(datatype.identity());
                }
                self.room.take(text.len() as u64)?;
                self.keep(text, 1)?
            }
        };
        self.known.insert(key, entry);
        Ok(entry)
    }

    /// Adds bytes to the heap, at a multiple of `align`.
    fn keep(&mut self, bytes: &[u8], align: usize) -> Result<(u64, u64)> {
        if bytes.is_empty() {
            return Ok((0, 0));
        }
        let heap = &mut self.out.heap;
        let start = heap.len().next_multiple_of(align);
        heap.resize(start, 0);
        heap.extend_from_slice(bytes);
        Ok((start as u64, bytes.len() as u64))
    }
}

/// Adds an entry.
fn push((start, len): (u64, u64), to: &mut Vec<u8>) {
    to.extend_from_slice(&start.to_le_bytes());
    to.extend_from_slice(&len.to_le_bytes());
}

/// Adds a number, little-endian.
fn turned(number: &Number, value: &[u8], to: &mut Vec<u8>) {
    if number.order == ByteOrder::Little {
        return to.extend_from_slice(value);
    }
    let width = usize::try_from(number.dtype.width()).unwrap_or(1).max(1);
    for part in value.chunks(width) {
        to.extend(part.iter().rev());
    }
}
