//! The links of a group.

use super::header::{Header, kind};
use super::heaps::{FractalHeap, local_heap_data};
use super::reader::{Reader, each, little};
use super::tree::{self, slice};
use super::{LOOP, NAME, VERSION};
use bytes::Bytes;
use holdall_collections::HashSet;
use holdall_collections::sort_by;
use holdall_core::error::{Escape as _, Result};
use holdall_core::window::Stop;

/// The types of the B-trees with a group's links, of version 1 and of version 2.
const LINKS: u8 = 0;
const LINKS_BY_NAME: u8 = 5;
/// The cache type of a symbol table entry that is a soft link.
const IS_PATH: u32 = 2;
/// The number of bytes of a symbol table that are read first: the length that h5py writes.
const TABLE: u64 = 328;

/// A name and its target.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) to: Target,
}

#[derive(Debug, Clone)]
pub(super) enum Target {
    /// The object whose header is at this address.
    Object(u64),
    /// A soft link to this path.
    Path(String),
    /// A target outside of the file, with a description.
    Elsewhere(String),
}

/// Returns `true` if an object is a group.
pub(super) fn is_group(header: &Header) -> bool {
    [kind::SYMBOLS, kind::LINK_INFO, kind::LINK].iter().any(|kind| header.has(*kind))
}

/// Returns the links of a group, sorted by name.
pub(super) fn links(reader: &Reader<'_>, header: &Header) -> Result<Vec<Link>, Stop> {
    let mut links = Vec::new();
    for message in header.all(kind::LINK) {
        links.push(link(reader, message.at, &message.body)?);
    }
    if let Some(message) = header.get(reader, kind::LINK_INFO)? {
        links.append(&mut dense(reader, message.at, &message.body)?);
    }
    if let Some(message) = header.get(reader, kind::SYMBOLS)? {
        links.append(&mut symbols(reader, message.at, &message.body)?);
    }
    sort_by(&mut links, |a, b| a.name.cmp(&b.name));
    for (a, b) in links.iter().zip(links.iter().skip(1)) {
        if a.name == b.name {
            let message = format!("duplicate link `{}`", a.name.escaped());
            return Err(NAME.broken(message).into());
        }
    }
    Ok(links)
}

/// Checks the name of a link.
fn named(reader: &Reader<'_>, at: u64, bytes: &[u8]) -> Result<String> {
    let name = std::str::from_utf8(bytes).ok();
    match name.filter(|name| !name.is_empty() && !name.contains('/') && *name != ".") {
        Some(name) => Ok(name.to_owned()),
        None => {
            let message = format!("`{}` is not a valid name of a link", bytes.escape_ascii());
            Err(NAME.broken(message).at(reader.locate(at, 0).unwrap_or_default()))
        }
    }
}

/// Returns the path that a link refers to, which ends before the first zero byte.
fn path(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// Reads the message of a link.
fn link(reader: &Reader<'_>, at: u64, body: &[u8]) -> Result<Link> {
    let (version, fields) = reader.read(at, "a link", body, |cursor| {
        let (version, flags) = (cursor.u8()?, cursor.u8()?);
        let link_type = if flags & 8 != 0 { cursor.u8()? } else { 0 };
        cursor.take(if flags & 4 != 0 { 8 } else { 0 })?;
        cursor.take(if flags & 16 != 0 { 1 } else { 0 })?;
        let len = little(cursor.take(1 << (flags & 3))?)?;
        let name = cursor.take(len)?;
        let to = match link_type {
            0 => reader.address(cursor)?.map(Target::Object),
            _ => {
                let len = cursor.u16_le()?;
                let value = cursor.take(len.into())?;
                Some(match link_type {
                    1 => Target::Path(path(value)),
                    64 => {
                        let (file, inside) = outside(value);
                        Target::Elsewhere(format!(
                            "`{}` of the file `{}`",
                            inside.escaped(),
                            file.escaped()
                        ))
                    }
                    _ => Target::Elsewhere(format!("the target of a link of type {link_type}")),
                })
            }
        };
        Some((version, (name, to)))
    })?;
    if version != 1 {
        let e = VERSION.broken(format!("unsupported link version {version}"));
        return Err(e.at(reader.locate(at, 0)?));
    }
    let name = named(reader, at, fields.0)?;
    let to = fields.1.ok_or_else(|| reader.broken(at, "a link has no target"))?;
    Ok(Link { name, to })
}

/// Returns the file that an external link refers to, and the path in it.
fn outside(value: &[u8]) -> (String, String) {
    let rest = value.get(1..).unwrap_or_default();
    let file = path(rest);
    let inside = path(rest.get(file.len().saturating_add(1)..).unwrap_or_default());
    (file, inside)
}

/// Returns the links in a fractal heap.
fn dense(reader: &Reader<'_>, at: u64, body: &[u8]) -> Result<Vec<Link>, Stop> {
    let (version, heap, names) = reader.read(at, "link info", body, |cursor| {
        let (version, flags) = (cursor.u8()?, cursor.u8()?);
        cursor.take(if flags & 1 != 0 { 8 } else { 0 })?;
        Some((version, reader.address(cursor)?, reader.address(cursor)?))
    })?;
    if version != 0 {
        return Err(VERSION.broken(format!("unsupported version of link info: {version}")).into());
    }
    let (Some(heap), Some(names)) = (heap, names) else { return Ok(Vec::new()) };
    let heap = FractalHeap::read(reader, heap)?;
    let records = tree::records_v2(reader, names, LINKS_BY_NAME, None)?;
    // A hash comes before the id.
    let ids = records.iter().map(|record| slice(record, 4..record.len() as u64));
    let objects = heap.objects(reader, ids)?;
    Ok(objects.iter().map(|(at, body)| link(reader, *at, body)).collect::<Result<_>>()?)
}

/// Returns the links of an old group: symbol tables in a B-tree, with the names in a local heap.
fn symbols(reader: &Reader<'_>, at: u64, body: &[u8]) -> Result<Vec<Link>, Stop> {
    let (root, names) = reader.read(at, "a group", body, |cursor| {
        Some((reader.address(cursor)?, reader.address(cursor)?))
    })?;
    let (Some(root), Some(names)) = (root, names) else {
        return Err(reader.broken(at, "a group without a tree or a heap").into());
    };
    let both = each([true, false], |is_tree| match is_tree {
        true => {
            let keys = tree::Keys { len: reader.length.into(), compare: None };
            tree::entries_v1(reader, root, LINKS, &keys).map(|found| (found, Bytes::new()))
        }
        false => local_heap_data(reader, names).map(|found| (Vec::new(), found)),
    })?;
    let (mut tables, mut names) = (Vec::new(), Bytes::new());
    for (found, heap) in both {
        tables.extend(found.into_iter().map(|(_, table)| table));
        if !heap.is_empty() {
            names = heap;
        }
    }
    let mut seen = HashSet::default();
    if let Some(again) = tables.iter().find(|table| !seen.insert(**table)) {
        let e = LOOP.broken(format!("the symbol table at {again} is used twice in a group"));
        return Err(e.at(reader.locate(*again, 0)?).into());
    }
    reader.ask(tables.iter().map(|table| (*table, TABLE)))?;
    let sizes = u64::from(reader.offset).saturating_add(reader.length.into());
    let entry_len = sizes.saturating_add(24);
    let tables = each(tables, |table| {
        let head = reader.bytes(table, 8)?;
        reader.check_signature(table, &head, b"SNOD")?;
        let (version, count) = reader.read(table, "a table of links", &head, |cursor| {
            cursor.take(4)?;
            let version = cursor.u8()?;
            cursor.u8()?;
            Some((version, cursor.u16_le()?))
        })?;
        if version != 1 {
            return Err(VERSION.broken(format!("unsupported link table version {version}")).into());
        }
        let len = u64::from(count).saturating_mul(entry_len);
        Ok((table, count, reader.bytes(table.saturating_add(8), len)?))
    })?;
    let mut links = Vec::new();
    for (table, count, bytes) in tables {
        let mut cursor = holdall_core::wire::cursor::Cursor::new(&bytes);
        for _ in 0..count {
            let entry = (|| {
                let name = reader.length(&mut cursor)?;
                let object = reader.address(&mut cursor)?;
                let kept = cursor.u32_le()?;
                cursor.u32_le()?;
                Some((name, object, kept, cursor.array::<16>()?))
            })();
            let cut = || reader.broken(table, "a table of links ends before its last entry");
            let (name, object, kept, [a, b, c, d, ..]) = entry.ok_or_else(cut)?;
            let text = |at: u64| -> Result<&[u8]> {
                let from = usize::try_from(at).ok().and_then(|at| names.get(at..));
                let from = from.filter(|from| from.contains(&0));
                let outside = || reader.broken(table, format!("a heap has no name at offset {at}"));
                Ok(from.ok_or_else(outside)?.split(|byte| *byte == 0).next().unwrap_or_default())
            };
            let to = match (kept, object) {
                (IS_PATH, _) => {
                    let at = u32::from_le_bytes([a, b, c, d]);
                    Target::Path(path(text(at.into())?))
                }
                (_, Some(object)) => Target::Object(object),
                _ => return Err(reader.broken(table, "a link has no target").into()),
            };
            links.push(Link { name: named(reader, table, text(name)?)?, to });
        }
    }
    Ok(links)
}
