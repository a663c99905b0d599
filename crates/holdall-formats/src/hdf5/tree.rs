//! B-trees of versions 1 and 2.

use super::reader::{Reader, each, little};
use super::{LOOP, VERSION};
use bytes::Bytes;
use holdall_collections::HashSet;
use holdall_core::error::Result;
use holdall_core::window::Stop;
use holdall_core::wire::cursor::Cursor;
use std::cmp::Ordering;

/// The number of bytes of a node of version 1 that are read first.
const NODE: u64 = 1 << 10;
/// The number of bytes of a node of version 2 without its records.
const PREFIX: u64 = 6;

/// The keys of a tree of version 1.
pub(super) struct Keys<'a> {
    /// The length of a key, in bytes.
    pub(super) len: u64,
    /// Compares two keys; `None` if their order does not matter.
    pub(super) compare: Option<Compare<'a>>,
}

/// A node of a tree of version 1, and the keys before and after the entry that refers to it.
struct Child {
    at: u64,
    low: Option<Bytes>,
    high: Option<Bytes>,
}

/// Returns the entries of all leaves of a tree of version 1: the key of each, and the address of its child.
pub(super) fn entries_v1(
    reader: &Reader<'_>,
    root: u64,
    node_type: u8,
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
                let e = LOOP.broken(format!("the node at {at} occurs twice in a tree"));
                return Err(e.at(reader.locate(*at, 0)?).into());
            }
        }
        reader.ask(level.iter().map(|child| (child.at, NODE)))?;
        let nodes = each(&level, |Child { at, .. }| {
            let head = reader.head(*at, prefix)?;
            reader.check_signature(*at, &head, b"TREE")?;
            let (kind, depth, count) = reader.read(*at, "a tree's node", &head, |cursor| {
                cursor.take(4)?;
                let found = (cursor.u8()?, cursor.u8()?, cursor.u16_le()?);
                cursor.take(addresses)?;
                Some(found)
            })?;
            if kind != node_type {
                let message = format!("a node of type {kind} in a tree of type {node_type}");
                return Err(reader.broken(*at, message).into());
            }
            Ok((*at, depth, u64::from(count)))
        })?;
        let len = |count: u64| count.saturating_mul(each_len).saturating_add(prefix);
        reader.ask(nodes.iter().map(|(at, _, count)| (*at, len(*count))))?;
        let mut next = Vec::new();
        let wanted = depth.or(nodes.first().map(|(_, depth, _)| *depth)).unwrap_or(0);
        for ((at, found, count), own) in nodes.into_iter().zip(&level) {
            // Levels decrease, so there can be no loop.
            if found != wanted {
                let message = format!("expected a node of level {wanted}, found level {found}");
                return Err(reader.broken(at, message).into());
            }
            let bytes = reader.bytes(at, len(count))?;
            let mut cursor = Cursor::new(&bytes);
            cursor.take(prefix);
            let key_at = |number: u64| {
                let from = prefix.saturating_add(number.saturating_mul(each_len));
                slice(&bytes, from..from.saturating_add(keys.len))
            };
            // The key after the last entry is not used by a search.
            keys.check(reader, own, (0..count).map(key_at))?;
            for number in 0..count {
                let entry = cursor.take(keys.len).and_then(|_| reader.address(&mut cursor));
                let Some(Some(child)) = entry else {
                    return Err(reader.broken(at, "an entry of a tree has no address").into());
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
    /// Checks that the keys of a node are in ascending order, and lie between the keys before and after the entry that
    /// refers to the node. Entries in other places are not found by a search.
    fn check(
        &self,
        reader: &Reader<'_>,
        node: &Child,
        all: impl Iterator<Item = Bytes>,
    ) -> Result<()> {
        let Some(compare) = self.compare else { return Ok(()) };
        let wrong = || reader.broken(node.at, "the keys of a tree node are not in ascending order");
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
                    "a key of a tree node is not between the keys of its parent node",
                ));
            }
            before = Some(key);
        }
        Ok(())
    }
}

/// Returns the part of `bytes` in this range.
pub(super) fn slice(bytes: &Bytes, range: std::ops::Range<u64>) -> Bytes {
    let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(bytes.len());
    let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
    bytes.slice(start..end)
}

/// Compares two keys or records.
pub(super) type Compare<'a> = &'a dyn Fn(&Bytes, &Bytes) -> Ordering;

/// Returns all records of a tree of version 2 of type `node_type`. All have the same length. With `compare`, they must
/// be in ascending order, and those of each node between those of its parent node.
pub(super) fn records_v2(
    reader: &Reader<'_>,
    at: u64,
    node_type: u8,
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
        let e = VERSION.broken(format!("unsupported tree version {version}"));
        return Err(e.at(reader.locate(at, 0)?).into());
    }
    if kind != node_type || record_len == 0 {
        let message = format!("a tree of type {kind} with records of {record_len} bytes");
        return Err(reader.broken(at, message).into());
    }
    let Some(root) = root else { return Ok(Vec::new()) };
    // The number of bytes of the record counts that a node gives for its children.
    let leaf = node_len.saturating_sub(PREFIX.saturating_add(4)).checked_div(record_len);
    let leaf = leaf.unwrap_or(0);
    let own_len = number_len(leaf);
    let (mut below, mut below_len) = (leaf, 0u64);
    // From the leaves up: the length of a pointer to a node, and of the counts in it.
    let mut pointers = Vec::new();
    for _ in 0..depth {
        let pointer = u64::from(reader.offset).saturating_add(own_len).saturating_add(below_len);
        pointers.push((pointer, below_len));
        let room = node_len.saturating_sub(PREFIX.saturating_add(4)).saturating_sub(pointer);
        let most = room.checked_div(record_len.saturating_add(pointer)).unwrap_or(0);
        below = most.saturating_add(1).saturating_mul(below).saturating_add(most);
        below_len = number_len(below);
        if most == 0 {
            return Err(reader.broken(at, "the nodes of a tree are too short for a record").into());
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
                let e = LOOP.broken(format!("the node at {at} occurs twice in a tree"));
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
            // The records, between those before and after the pointer to the node.
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
                return Err(reader
                    .broken(at, "the records of a tree are not in ascending order")
                    .into());
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

/// Returns the number of bytes of a number up to `most`.
pub(super) fn number_len(most: u64) -> u64 {
    u64::from(64u32.saturating_sub(most.leading_zeros()).div_ceil(8).max(1))
}
