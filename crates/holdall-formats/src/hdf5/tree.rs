//! B-trees, of both versions.

use super::reader::{Reader, each, little};
use super::{LOOP, VERSION};
use bytes::Bytes;
use holdall_collections::HashSet;
use holdall_core::error::Result;
use holdall_core::window::Stop;
use holdall_core::wire::cursor::Cursor;
use std::cmp::Ordering;

/// Bytes that are looked at first of a node of version 1.
const NODE: u64 = 1 << 10;
/// Bytes of a node of version 2 without its records.
const PREFIX: u64 = 6;

/// The keys of a tree of version 1.
pub(super) struct Keys<'a> {
    /// Bytes of each.
    pub(super) len: u64,
    /// Which of two keys comes first; `None` where their order does not matter.
    pub(super) compare: Option<Compare<'a>>,
}

/// A node of a tree of version 1, and the keys on both sides of the entry that leads to it.
struct Child {
    at: u64,
    low: Option<Bytes>,
    high: Option<Bytes>,
}

/// The entries of all leaves of a tree of version 1: what stands before where each leads, and where that is.
pub(super) fn first(
    reader: &Reader<'_>,
    root: u64,
    of: u8,
    keys: &Keys<'_>,
) -> Result<Vec<(Bytes, u64)>, Stop> {
    let addresses = u64::from(reader.offset).saturating_mul(2);
    let prefix = addresses.saturating_add(8);
    let each_len = keys.len.saturating_add(reader.offset.into());
    let (mut seen, mut out) = (HashSet::default(), Vec::new());
    let mut level = vec![Child { at: root, low: None, high: None }];
    let mut depth: Option<u8> = None;
    while !level.is_empty() {
        for Child { at, .. } in &level {
            if !seen.insert(*at) {
                let e = LOOP.broken(format!("the node at {at} of a tree is part of it twice"));
                return Err(e.at(reader.locate(*at, 0)?).into());
            }
        }
        reader.ask(level.iter().map(|child| (child.at, NODE)))?;
        let nodes = each(&level, |Child { at, .. }| {
            let head = reader.head(*at, prefix)?;
            reader.signed(*at, &head, b"TREE")?;
            let (kind, depth, count) = reader.read(*at, "a tree's node", &head, |cursor| {
                cursor.take(4)?;
                let found = (cursor.u8()?, cursor.u8()?, cursor.u16_le()?);
                cursor.take(addresses)?;
                Some(found)
            })?;
            if kind != of {
                let message = format!("a node of the kind {kind} in a tree of the kind {of}");
                return Err(reader.broken(*at, message).into());
            }
            Ok((*at, depth, u64::from(count)))
        })?;
        let len = |count: u64| count.saturating_mul(each_len).saturating_add(prefix);
        reader.ask(nodes.iter().map(|(at, _, count)| (*at, len(*count))))?;
        let mut next = Vec::new();
        let wanted = depth.or(nodes.first().map(|(_, depth, _)| *depth)).unwrap_or(0);
        for ((at, found, count), own) in nodes.into_iter().zip(&level) {
            // A level below the one before: there is no way back.
            if found != wanted {
                let message = format!("a node of level {found} where one of {wanted} should be");
                return Err(reader.broken(at, message).into());
            }
            let bytes = reader.bytes(at, len(count))?;
            let mut cursor = Cursor::new(&bytes);
            cursor.take(prefix);
            let key_at = |number: u64| {
                let from = prefix.saturating_add(number.saturating_mul(each_len));
                slice(&bytes, from..from.saturating_add(keys.len))
            };
            // What follows the last entry bounds no search.
            keys.check(reader, own, (0..count).map(key_at))?;
            for number in 0..count {
                let entry = cursor.take(keys.len).and_then(|_| reader.address(&mut cursor));
                let Some(Some(child)) = entry else {
                    return Err(reader.broken(at, "an entry of a tree leads nowhere").into());
                };
                match found {
                    0 => out.push((key_at(number), child)),
                    _ => {
                        let following = number.saturating_add(1);
                        let high = (following < count).then(|| key_at(following));
                        let high = high.or_else(|| own.high.clone());
                        next.push(Child { at: child, low: Some(key_at(number)), high });
                    }
                }
            }
        }
        depth = Some(wanted.saturating_sub(1));
        level = next;
    }
    Ok(out)
}

impl Keys<'_> {
    /// Checks that the keys of a node rise, and lie between those on both sides of the entry that leads to it: a search of the tree
    /// finds no other entries.
    fn check(
        &self,
        reader: &Reader<'_>,
        node: &Child,
        all: impl Iterator<Item = Bytes>,
    ) -> Result<()> {
        let Some(compare) = self.compare else { return Ok(()) };
        let wrong = || reader.broken(node.at, "the keys of a tree's node do not rise");
        let mut before: Option<Bytes> = None;
        for key in all {
            if before.as_ref().is_some_and(|before| compare(before, &key) == Ordering::Greater) {
                return Err(wrong());
            }
            let is_above = |low: &Bytes| compare(low, &key) != Ordering::Greater;
            let is_below = |high: &Bytes| compare(&key, high) != Ordering::Greater;
            let is_inside =
                node.low.as_ref().is_none_or(is_above) && node.high.as_ref().is_none_or(is_below);
            if !is_inside {
                return Err(reader.broken(
                    node.at,
                    "a key of a tree's node is not between those of the node above it",
                ));
            }
            before = Some(key);
        }
        Ok(())
    }
}

/// A part of bytes, in numbers of the file.
pub(super) fn slice(bytes: &Bytes, range: std::ops::Range<u64>) -> Bytes {
    let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(bytes.len());
    let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
    bytes.slice(start..end)
}

/// Which of two keys, or records, comes first.
pub(super) type Compare<'a> = &'a dyn Fn(&Bytes, &Bytes) -> Ordering;

/// All records of a tree of version 2 of the kind `of`, of the same length each. With `compare` they MUST rise, each node's between
/// those of the node above.
pub(super) fn second(
    reader: &Reader<'_>,
    at: u64,
    of: u8,
    compare: Option<Compare<'_>>,
) -> Result<Vec<Bytes>, Stop> {
    let sizes = u64::from(reader.offset).saturating_add(reader.length.into());
    let header = reader.block(at, sizes.saturating_add(22), b"BTHD")?;
    let read = reader.read(at, "a tree", &header, |cursor| {
        let (version, kind) = (cursor.u8()?, cursor.u8()?);
        let (node_len, record_len, depth) = (cursor.u32_le()?, cursor.u16_le()?, cursor.u16_le()?);
        cursor.take(2)?;
        let (root, count) = (reader.address(cursor)?, cursor.u16_le()?);
        Some((version, kind, u64::from(node_len), u64::from(record_len), depth, root, count))
    })?;
    let (version, kind, node_len, record_len, depth, root, count) = read;
    if version != 0 {
        let e = VERSION.broken(format!("a tree of version {version}"));
        return Err(e.at(reader.locate(at, 0)?).into());
    }
    if kind != of || record_len == 0 {
        let message = format!("a tree of kind {kind}, records of {record_len} bytes");
        return Err(reader.broken(at, message).into());
    }
    let Some(root) = root else { return Ok(Vec::new()) };
    // How long the numbers are by which a node says how many records are in and below the nodes that it leads to.
    let leaf = node_len.saturating_sub(PREFIX.saturating_add(4)).checked_div(record_len);
    let leaf = leaf.unwrap_or(0);
    let own_len = number_len(leaf);
    let (mut below, mut below_len) = (leaf, 0u64);
    // From the leaves up: the length of what leads to a node, and of the numbers in it.
    let mut pointers = Vec::new();
    for _ in 0..depth {
        let pointer = u64::from(reader.offset).saturating_add(own_len).saturating_add(below_len);
        pointers.push((pointer, below_len));
        let room = node_len.saturating_sub(PREFIX.saturating_add(4)).saturating_sub(pointer);
        let most = room.checked_div(record_len.saturating_add(pointer)).unwrap_or(0);
        below = most.saturating_add(1).saturating_mul(below).saturating_add(most);
        below_len = number_len(below);
        if most == 0 {
            return Err(reader.broken(at, "the nodes of a tree have no room for records").into());
        }
    }
    let (mut seen, mut out) = (HashSet::default(), Vec::new());
    let mut level = vec![(root, u64::from(count), None, None)];
    while !level.is_empty() {
        let pointer = pointers.pop();
        let signature = if pointer.is_some() { b"BTIN" } else { b"BTLF" };
        let len = |count: u64| {
            let pointers =
                pointer.map_or(0, |(len, _)| count.saturating_add(1).saturating_mul(len));
            let records = count.saturating_mul(record_len);
            PREFIX.saturating_add(4).saturating_add(records).saturating_add(pointers)
        };
        for (at, ..) in &level {
            if !seen.insert(*at) {
                let e = LOOP.broken(format!("the node at {at} of a tree is part of it twice"));
                return Err(e.at(reader.locate(*at, 0)?).into());
            }
        }
        reader.ask(level.iter().map(|(at, count, ..)| (*at, len(*count))))?;
        let mut next = Vec::new();
        for (at, count, low, high) in level {
            let bytes = reader.block(at, len(count), signature)?;
            let mut cursor = Cursor::new(&bytes);
            let cut = || reader.broken(at, "a tree's node ends before its last record");
            cursor.take(2).ok_or_else(cut)?;
            // The records, between those on both sides of what leads to the node.
            let mut bounds: Vec<Option<Bytes>> = vec![low];
            for _ in 0..count {
                let from = cursor.position();
                cursor.take(record_len).ok_or_else(cut)?;
                let record = slice(&bytes, from..cursor.position());
                bounds.push(Some(record.clone()));
                out.push(record);
            }
            bounds.push(high);
            let known: Vec<&Bytes> = bounds.iter().flatten().collect();
            let rise = |compare: Compare<'_>| known.is_sorted_by(|a, b| compare(a, b).is_le());
            if compare.is_some_and(|compare| !rise(compare)) {
                return Err(reader.broken(at, "the records of a tree do not rise").into());
            }
            let Some((_, below_len)) = pointer else { continue };
            for both in bounds.windows(2) {
                let child = reader.address(&mut cursor).flatten().ok_or_else(cut)?;
                let count = cursor.take(own_len).and_then(little).ok_or_else(cut)?;
                cursor.take(below_len).ok_or_else(cut)?;
                let (low, high) = (both.first().cloned(), both.last().cloned());
                next.push((child, count, low.flatten(), high.flatten()));
            }
        }
        level = next;
    }
    Ok(out)
}

/// Bytes that a number up to `most` takes.
pub(super) fn number_len(most: u64) -> u64 {
    u64::from(64u32.saturating_sub(most.leading_zeros()).div_ceil(8).max(1))
}
