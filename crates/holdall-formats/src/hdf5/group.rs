//! What a group links to.

use super::fractal::{self, Fractal};
use super::header::{Header, kind};
use super::reader::{Reader, each, little};
use super::tree::{self, slice};
use super::{LOOP, NAME, VERSION};
use bytes::Bytes;
use holdall_collections::HashSet;
use holdall_collections::sort_by;
use holdall_core::error::{Result, Shown as _};
use holdall_core::window::Stop;

/// The kind of a tree of version 1 that has a group's links, and of version 2.
const LINKS: u8 = 0;
const LINKS_BY_NAME: u8 = 5;
/// Where a table's entry says that it is a link to a path.
const IS_PATH: u32 = 2;
/// Bytes that are looked at first of a table of links: what h5py writes.
const TABLE: u64 = 328;

/// A name, and what it leads to.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) to: Target,
}

#[derive(Debug, Clone)]
pub(super) enum Target {
    /// The object whose header is there.
    Object(u64),
    /// Another link of this file, by its path.
    Path(String),
    /// What is not in this file, in words.
    Elsewhere(String),
}

/// Whether an object is a group.
pub(super) fn is_group(header: &Header) -> bool {
    [kind::SYMBOLS, kind::LINK_INFO, kind::LINK].iter().any(|kind| header.has(*kind))
}

/// The links of a group, by their names.
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
            let message = format!("two links are named `{}`", a.name.shown());
            return Err(NAME.broken(message).into());
        }
    }
    Ok(links)
}

/// A name as links may have it.
fn named(reader: &Reader<'_>, at: u64, bytes: &[u8]) -> Result<String> {
    let name = std::str::from_utf8(bytes).ok();
    match name.filter(|name| !name.is_empty() && !name.contains('/') && *name != ".") {
        Some(name) => Ok(name.to_owned()),
        None => {
            let message = format!("`{}` is not a name of a link", bytes.escape_ascii());
            Err(NAME.broken(message).at(reader.locate(at, 0).unwrap_or_default()))
        }
    }
}

/// A path that a link leads to, without what is behind a zero byte.
fn path(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// The link that a message describes.
fn link(reader: &Reader<'_>, at: u64, body: &[u8]) -> Result<Link> {
    let (version, fields) = reader.read(at, "a link", body, |cursor| {
        let (version, flags) = (cursor.u8()?, cursor.u8()?);
        let of = if flags & 8 != 0 { cursor.u8()? } else { 0 };
        cursor.take(if flags & 4 != 0 { 8 } else { 0 })?;
        cursor.take(if flags & 16 != 0 { 1 } else { 0 })?;
        let len = little(cursor.take(1 << (flags & 3))?)?;
        let name = cursor.take(len)?;
        let to = match of {
            0 => reader.address(cursor)?.map(Target::Object),
            _ => {
                let len = cursor.u16_le()?;
                let value = cursor.take(len.into())?;
                Some(match of {
                    1 => Target::Path(path(value)),
                    64 => {
                        let (file, inside) = outside(value);
                        Target::Elsewhere(format!(
                            "`{}` of the file `{}`",
                            inside.shown(),
                            file.shown()
                        ))
                    }
                    _ => Target::Elsewhere(format!("what a link of the type {of} is to")),
                })
            }
        };
        Some((version, (name, to)))
    })?;
    if version != 1 {
        let e = VERSION.broken(format!("a link of version {version}"));
        return Err(e.at(reader.locate(at, 0)?));
    }
    let name = named(reader, at, fields.0)?;
    let to = fields.1.ok_or_else(|| reader.broken(at, "a link leads nowhere"))?;
    Ok(Link { name, to })
}

/// The file that an external link leads to, and the path in it.
fn outside(value: &[u8]) -> (String, String) {
    let rest = value.get(1..).unwrap_or_default();
    let file = path(rest);
    let inside = path(rest.get(file.len().saturating_add(1)..).unwrap_or_default());
    (file, inside)
}

/// The links of a heap.
fn dense(reader: &Reader<'_>, at: u64, body: &[u8]) -> Result<Vec<Link>, Stop> {
    let (version, heap, names) = reader.read(at, "link info", body, |cursor| {
        let (version, flags) = (cursor.u8()?, cursor.u8()?);
        cursor.take(if flags & 1 != 0 { 8 } else { 0 })?;
        Some((version, reader.address(cursor)?, reader.address(cursor)?))
    })?;
    if version != 0 {
        return Err(VERSION.broken(format!("link info of version {version}")).into());
    }
    let (Some(heap), Some(names)) = (heap, names) else { return Ok(Vec::new()) };
    let heap = Fractal::read(reader, heap)?;
    let records = tree::second(reader, names, LINKS_BY_NAME, None)?;
    // A hash stands before the id.
    let ids = records.iter().map(|record| slice(record, 4..record.len() as u64));
    let objects = heap.objects(reader, ids)?;
    Ok(objects.iter().map(|(at, body)| link(reader, *at, body)).collect::<Result<_>>()?)
}

/// The links of an old group: tables that a tree leads to, and a heap with their names.
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
            tree::first(reader, root, LINKS, &keys).map(|found| (found, Bytes::new()))
        }
        false => fractal::local(reader, names).map(|found| (Vec::new(), found)),
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
        let e = LOOP.broken(format!("the table at {again} is part of a group twice"));
        return Err(e.at(reader.locate(*again, 0)?).into());
    }
    reader.ask(tables.iter().map(|table| (*table, TABLE)))?;
    let sizes = u64::from(reader.offset).saturating_add(reader.length.into());
    let entry_len = sizes.saturating_add(24);
    let tables = each(tables, |table| {
        let head = reader.bytes(table, 8)?;
        reader.signed(table, &head, b"SNOD")?;
        let (version, count) = reader.read(table, "a table of links", &head, |cursor| {
            cursor.take(4)?;
            let version = cursor.u8()?;
            cursor.u8()?;
            Some((version, cursor.u16_le()?))
        })?;
        if version != 1 {
            return Err(VERSION.broken(format!("a table of links of version {version}")).into());
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
                let outside =
                    || reader.broken(table, format!("there is no name at {at} of a heap"));
                Ok(from.ok_or_else(outside)?.split(|byte| *byte == 0).next().unwrap_or_default())
            };
            let to = match (kept, object) {
                (IS_PATH, _) => {
                    let at = u32::from_le_bytes([a, b, c, d]);
                    Target::Path(path(text(at.into())?))
                }
                (_, Some(object)) => Target::Object(object),
                _ => return Err(reader.broken(table, "a link leads nowhere").into()),
            };
            links.push(Link { name: named(reader, table, text(name)?)?, to });
        }
    }
    Ok(links)
}
