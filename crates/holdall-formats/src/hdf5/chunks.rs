//! Finds the chunks of a dataset, with every type of index.

use super::reader::{Reader, each, little, without_sum};
use super::tree::{self, slice};
use super::{CHUNK, VERSION};
use bytes::Bytes;
use holdall_core::error::{Error, Result};
use holdall_core::read::{Chunk, Grid};
use holdall_core::window::Stop;
use holdall_core::wire::cursor::Cursor;

/// Types of B-trees of chunks: version 1, and version 2 without and with filters.
const V1_CHUNKS: u8 = 1;
const V2_CHUNKS: u8 = 10;
const V2_FILTERED_CHUNKS: u8 = 11;

/// The type of index of a dataset's chunks.
#[derive(Debug, Clone)]
pub(super) enum Index {
    /// A B-tree of version 1.
    Tree,
    /// A single chunk: its stored length and the skipped filters, if it was filtered.
    Single(Option<(u64, u32)>),
    /// Chunks one after the other.
    Implicit,
    FixedArray,
    ExtensibleArray,
    /// A B-tree of version 2.
    BTreeV2,
}

/// The description of a dataset in chunks.
pub(super) struct ChunkedDataset<'a> {
    pub(super) grid: &'a Grid,
    pub(super) chunk: &'a [u64],
    /// The maximum size of each dimension; `u64::MAX` if it is unlimited.
    pub(super) max_shape: &'a [u64],
    pub(super) has_filters: bool,
}

/// A chunk in an index: its address, its stored length, and its filter mask.
struct Entry {
    at: u64,
    /// The stored length in bytes; `None` if it is that of an unfiltered chunk.
    len: Option<u64>,
    filter_mask: u32,
}

impl ChunkedDataset<'_> {
    /// Returns all chunks that are stored and have elements of the dataset.
    pub(super) fn chunks(
        &self,
        reader: &Reader<'_>,
        index: &Index,
        at: u64,
    ) -> Result<Vec<Chunk>, Stop> {
        let mut out = Vec::new();
        match index {
            Index::Tree => self.tree(reader, at, &mut out)?,
            Index::Single(single) => {
                let entry = Entry {
                    at,
                    len: single.map(|(len, _)| len),
                    filter_mask: single.map_or(0, |single| single.1),
                };
                self.add(reader, Some(0), entry, &mut out)?;
            }
            Index::Implicit => {
                let bounded_grid = self.bounded_grid()?;
                let len = self.grid.chunk_len();
                // The number of chunks that the file has space for, however many the shape has.
                let capacity = reader.end.saturating_sub(reader.base).checked_div(len).unwrap_or(0);
                for number in 0..bounded_grid.count().min(capacity.saturating_add(1)) {
                    let Some(own) = self.number(bounded_grid.coordinates(number)) else { continue };
                    let at = number.checked_mul(len).and_then(|n| n.checked_add(at));
                    let at = at.ok_or_else(|| self.too_many_chunks())?;
                    self.add(reader, Some(own), Entry { at, len: None, filter_mask: 0 }, &mut out)?;
                }
            }
            Index::FixedArray => {
                let bounded_grid = self.bounded_grid()?;
                for (number, entry) in self.fixed_array(reader, at)? {
                    self.add(
                        reader,
                        self.number(bounded_grid.coordinates(number)),
                        entry,
                        &mut out,
                    )?;
                }
            }
            Index::ExtensibleArray => {
                let (bounded_grid, unlimited) = self.unlimited_grid()?;
                for (number, entry) in self.extensible_array(reader, at)? {
                    let mut coordinates = bounded_grid.coordinates(number);
                    // The index has the unlimited dimension first.
                    if let Some(first) = coordinates.first().copied() {
                        coordinates.remove(0);
                        coordinates.insert(unlimited.min(coordinates.len()), first);
                    }
                    self.add(reader, self.number(coordinates), entry, &mut out)?;
                }
            }
            Index::BTreeV2 => self.second_tree(reader, at, &mut out)?,
        }
        Ok(out)
    }

    /// Returns the number of a chunk in the grid; `None` if the chunk is outside of the dataset's present shape.
    fn number(&self, coordinates: Vec<u64>) -> Option<u64> {
        self.grid.number(&coordinates)
    }

    /// Adds a chunk, if it is inside the dataset.
    fn add(
        &self,
        reader: &Reader<'_>,
        number: Option<u64>,
        entry: Entry,
        out: &mut Vec<Chunk>,
    ) -> Result<()> {
        let Some(number) = number else { return Ok(()) };
        let len = entry.len.unwrap_or_else(|| self.grid.chunk_len());
        let stored = reader.locate(entry.at, len)?;
        out.push(Chunk { number, stored: stored.into(), skipped_steps: entry.filter_mask });
        Ok(())
    }

    #[cold]
    fn too_many_chunks(&self) -> Error {
        CHUNK.broken("an index has more chunks than the dataset can have")
    }

    fn tree(&self, reader: &Reader<'_>, at: u64, out: &mut Vec<Chunk>) -> Result<(), Stop> {
        let rank = self.chunk.len() as u64;
        let key_len = rank.saturating_add(1).saturating_mul(8).saturating_add(8);
        // The stored length and the filter mask come before the offsets.
        let coordinates = |key: &Bytes| {
            let mut cursor = Cursor::new(key);
            cursor.take(8);
            (0..=rank).map(|_| cursor.u64_le()).collect::<Option<Vec<u64>>>()
        };
        let compare = |a: &Bytes, b: &Bytes| coordinates(a).cmp(&coordinates(b));
        let keys = tree::Keys { len: key_len, compare: Some(&compare) };
        for (key, address) in tree::entries_v1(reader, at, V1_CHUNKS, &keys)? {
            let (len, filter_mask, offsets, element) =
                reader.read(at, "a chunk's key", &key, |cursor| {
                    let (len, filter_mask) = (cursor.u32_le()?, cursor.u32_le()?);
                    let offsets =
                        (0..rank).map(|_| cursor.u64_le()).collect::<Option<Vec<u64>>>()?;
                    Some((len, filter_mask, offsets, cursor.u64_le()?))
                })?;
            let wrong = |message: String| -> Result<Stop> {
                Ok(CHUNK.broken(message).at(reader.locate(at, 0)?).into())
            };
            let divided = offsets.iter().zip(self.chunk).map(|(offset, chunk)| {
                offset.checked_rem(*chunk).filter(|rest| *rest == 0)?;
                offset.checked_div(*chunk)
            });
            let Some(divided) = divided.collect::<Option<Vec<u64>>>() else {
                let message = format!(
                    "a chunk starts at {offsets:?}, which is not a multiple of the chunk shape {:?}",
                    self.chunk
                );
                return Err(wrong(message)?);
            };
            if element != 0 {
                let message = format!(
                    "the chunk at {offsets:?} starts at byte {element} of an element, expected 0"
                );
                return Err(wrong(message)?);
            }
            let Some(number) = self.number(divided) else {
                let message = format!("the chunk at {offsets:?} lies outside of the dataset");
                return Err(wrong(message)?);
            };
            let entry = Entry { at: address, len: Some(len.into()), filter_mask };
            self.add(reader, Some(number), entry, out)?;
        }
        Ok(())
    }

    fn second_tree(&self, reader: &Reader<'_>, at: u64, out: &mut Vec<Chunk>) -> Result<(), Stop> {
        let rank = self.chunk.len() as u64;
        let kind = if self.has_filters { V2_FILTERED_CHUNKS } else { V2_CHUNKS };
        let coordinates_len = rank.saturating_mul(8);
        // The position of the chunk comes last.
        let coordinates = |record: &Bytes| {
            let mut cursor = Cursor::new(record);
            cursor.take((record.len() as u64).saturating_sub(coordinates_len));
            (0..rank).map(|_| cursor.u64_le()).collect::<Option<Vec<u64>>>()
        };
        let compare = |a: &Bytes, b: &Bytes| coordinates(a).cmp(&coordinates(b));
        for record in tree::records_v2(reader, at, kind, Some(&compare))? {
            let entry_len = (record.len() as u64).saturating_sub(coordinates_len);
            let (entry, coordinates) = reader.read(at, "a chunk's record", &record, |cursor| {
                let entry = self.entry(reader, cursor, entry_len)?;
                let coordinates =
                    (0..rank).map(|_| cursor.u64_le()).collect::<Option<Vec<u64>>>()?;
                Some((entry, coordinates))
            })?;
            let Some(entry) = entry else { continue };
            let Some(number) = self.number(coordinates.clone()) else {
                let message = format!("chunk {coordinates:?} lies outside of the dataset");
                return Err(CHUNK.broken(message).at(reader.locate(at, 0)?).into());
            };
            self.add(reader, Some(number), entry, out)?;
        }
        Ok(())
    }

    /// Reads the next entry; `None` if its chunk is not stored.
    fn entry(
        &self,
        reader: &Reader<'_>,
        cursor: &mut Cursor<'_>,
        len: u64,
    ) -> Option<Option<Entry>> {
        let at = reader.address(cursor)?;
        if !self.has_filters {
            return Some(at.map(|at| Entry { at, len: None, filter_mask: 0 }));
        }
        let len = len.checked_sub(u64::from(reader.offset).saturating_add(4))?;
        let len = little(cursor.take(len)?)?;
        let filter_mask = cursor.u32_le()?;
        Some(at.map(|at| Entry { at, len: Some(len), filter_mask }))
    }

    /// Reads consecutive entries, the first of which is number `first`.
    fn entries(
        &self,
        reader: &Reader<'_>,
        at: u64,
        bytes: &Bytes,
        first: u64,
        len: u64,
        out: &mut Vec<(u64, Entry)>,
    ) -> Result<()> {
        let mut from = 0u64;
        let mut number = first;
        while from.saturating_add(len) <= bytes.len() as u64 && len > 0 {
            let own = slice(bytes, from..from.saturating_add(len));
            let entry =
                reader.read(at, "an entry", &own, |cursor| self.entry(reader, cursor, len))?;
            out.extend(entry.map(|entry| (number, entry)));
            from = from.saturating_add(len);
            number = number.saturating_add(1);
        }
        Ok(())
    }

    /// Returns the entries of a fixed array.
    fn fixed_array(&self, reader: &Reader<'_>, at: u64) -> Result<Vec<(u64, Entry)>, Stop> {
        let sizes = u64::from(reader.offset).saturating_add(reader.length.into());
        let header = reader.block(at, sizes.saturating_add(12), b"FAHD")?;
        let read = reader.read(at, "a fixed array", &header, |cursor| {
            let [version, _, entry_len, page_bits] = cursor.array()?;
            Some((version, entry_len, page_bits, reader.length(cursor)?, reader.address(cursor)?))
        })?;
        let (version, entry_len, page_bits, count, block) = read;
        self.check_version(version)?;
        let (Some(block), len) = (block, u64::from(entry_len)) else { return Ok(Vec::new()) };
        let page = 1u64.checked_shl(page_bits.into()).unwrap_or(u64::MAX);
        let prefix = u64::from(reader.offset).saturating_add(6);
        let mut out = Vec::new();
        if count <= page {
            let whole = count.saturating_mul(len).saturating_add(prefix).saturating_add(4);
            let bytes = reader.block(block, whole, b"FADB")?;
            let bytes = slice(&bytes, prefix.saturating_sub(4)..bytes.len() as u64);
            self.entries(reader, block, &bytes, 0, len, &mut out)?;
            return Ok(out);
        }
        let pages = count.div_ceil(page);
        let bits_len = pages.div_ceil(8);
        let head_len = prefix.saturating_add(bits_len).saturating_add(4);
        let head = reader.block(block, head_len, b"FADB")?;
        let bits = slice(&head, prefix.saturating_sub(4)..head.len() as u64);
        let wanted: Vec<(u64, u64)> = (0..pages)
            .filter(|number| is_set(&bits, *number))
            .map(|number| (number, count.saturating_sub(number.saturating_mul(page)).min(page)))
            .collect();
        // All pages except the last have the same length.
        let step = page.saturating_mul(len).saturating_add(4);
        let start = block.saturating_add(head_len);
        let page_address = |number: u64| start.saturating_add(number.saturating_mul(step));
        let page_len = |count: u64| count.saturating_mul(len).saturating_add(4);
        reader
            .ask(wanted.iter().map(|(number, count)| (page_address(*number), page_len(*count))))?;
        let found = each(wanted, |(number, count)| {
            read_page(reader, page_address(number), page_len(count)).map(|bytes| (number, bytes))
        })?;
        for (number, bytes) in found {
            let first = number.saturating_mul(page);
            self.entries(reader, page_address(number), &bytes, first, len, &mut out)?;
        }
        Ok(out)
    }

    /// Returns the entries of an extensible array.
    fn extensible_array(&self, reader: &Reader<'_>, at: u64) -> Result<Vec<(u64, Entry)>, Stop> {
        let lengths = u64::from(reader.length).saturating_mul(6);
        let len = lengths.saturating_add(reader.offset.into()).saturating_add(16);
        let header = reader.block(at, len, b"EAHD")?;
        let (fields, count, block) = reader.read(at, "an extensible array", &header, |cursor| {
            let fields: [u8; 8] = cursor.array()?;
            for _ in 0..4 {
                reader.length(cursor)?;
            }
            let count = reader.length(cursor)?;
            reader.length(cursor)?;
            Some((fields, count, reader.address(cursor)?))
        })?;
        let [version, _, entry_len, bits, own, least, pointers, page_bits] = fields;
        self.check_version(version)?;
        let Some(block) = block else { return Ok(Vec::new()) };
        let (len, least, pointers) = (u64::from(entry_len), u64::from(least), u64::from(pointers));
        let own = u64::from(own);
        let is_invalid =
            !least.is_power_of_two() || !pointers.is_power_of_two() || bits > 64 || len == 0;
        if is_invalid || u64::from(bits) < u64::from(least.max(1).ilog2()) {
            return Err(reader.broken(at, "an extensible array with invalid parameters").into());
        }
        // Groups of blocks: from group to group, alternately, the number of blocks and the entries of each double.
        let groups = u64::from(bits).saturating_sub(least.ilog2().into()).saturating_add(1);
        let direct = u64::from(pointers.ilog2()).saturating_mul(2).min(groups);
        let blocks_of = |group: u64| power_of_two(group / 2);
        let entries_of =
            |group: u64| power_of_two(group.saturating_add(1) / 2).saturating_mul(least);
        let block_count = pointers.saturating_sub(1).saturating_mul(2);
        let group_count = groups.saturating_sub(direct);
        let prefix = u64::from(reader.offset).saturating_add(6);
        let whole = block_count
            .saturating_add(group_count)
            .saturating_mul(reader.offset.into())
            .saturating_add(own.saturating_mul(len))
            .saturating_add(prefix)
            .saturating_add(4);
        let bytes = reader.block(block, whole, b"EAIB")?;
        let from = prefix.saturating_sub(4);
        let own_end = from.saturating_add(own.saturating_mul(len));
        let mut out = Vec::new();
        self.entries(reader, block, &slice(&bytes, from..own_end), 0, len, &mut out)?;
        let addresses = slice(&bytes, own_end..bytes.len() as u64);
        let mut cursor = Cursor::new(&addresses);
        // Blocks of entries: the number of the first entry, the number of entries, and the address.
        let mut blocks: Vec<(u64, u64, u64, Option<Bytes>)> = Vec::new();
        let mut first = own;
        let mut left = block_count;
        let page = 1u64.checked_shl(page_bits.into()).unwrap_or(u64::MAX);
        let mut later = Vec::new();
        for group in 0..groups {
            let (number, each) = (blocks_of(group), entries_of(group));
            if first >= count {
                break;
            }
            if group < direct {
                for _ in 0..number.min(left) {
                    let Some(address) = reader.address(&mut cursor) else { break };
                    blocks.extend(address.map(|at| (first, each, at, None)));
                    first = first.saturating_add(each);
                }
                left = left.saturating_sub(number);
                continue;
            }
            if group == direct {
                // The addresses of groups come after the addresses of all blocks.
                let from = block_count.saturating_mul(reader.offset.into());
                cursor = Cursor::new(
                    addresses
                        .get(usize::try_from(from).unwrap_or(usize::MAX)..)
                        .unwrap_or_default(),
                );
            }
            if let Some(Some(at)) = reader.address(&mut cursor) {
                later.push((at, number, each, first));
            }
            first = first.saturating_add(number.saturating_mul(each));
        }
        let place_len = u64::from(bits.div_ceil(8));
        let prefix = prefix.saturating_add(place_len);
        let found = each(later, |(at, number, each, first)| {
            let bits_len = match each > page {
                true => page_count(each, page).div_ceil(8),
                false => 0,
            };
            let all_bits = number.saturating_mul(bits_len);
            let whole = number
                .saturating_mul(reader.offset.into())
                .saturating_add(all_bits)
                .saturating_add(prefix)
                .saturating_add(4);
            let bytes = reader.block(at, whole, b"EASB")?;
            let from = prefix.saturating_sub(4);
            let bits_end = from.saturating_add(all_bits);
            let addresses = slice(&bytes, bits_end..bytes.len() as u64);
            let mut cursor = Cursor::new(&addresses);
            let mut found = Vec::new();
            for block in 0..number {
                let Some(address) = reader.address(&mut cursor) else { break };
                let own = from.saturating_add(block.saturating_mul(bits_len));
                let bits = slice(&bytes, own..own.saturating_add(bits_len));
                let first = first.saturating_add(block.saturating_mul(each));
                found.extend(address.map(|at| (first, each, at, Some(bits))));
            }
            Ok(found)
        })?;
        blocks.extend(found.into_iter().flatten());
        let page_len = page.saturating_mul(len).saturating_add(4);
        // Stored pages or whole blocks: address, length, first entry.
        let mut runs = Vec::new();
        for (first, entries, at, bits) in blocks {
            if entries <= page {
                let whole = entries.saturating_mul(len).saturating_add(prefix).saturating_add(4);
                runs.push((at, whole, first, true));
                continue;
            }
            let start = at.saturating_add(prefix).saturating_add(4);
            let Some(bits) = bits else { continue };
            for number in 0..page_count(entries, page) {
                if is_set(&bits, number) {
                    let at = start.saturating_add(number.saturating_mul(page_len));
                    let first = first.saturating_add(number.saturating_mul(page));
                    runs.push((at, page_len, first, false));
                }
            }
        }
        reader.ask(runs.iter().map(|(at, len, ..)| (*at, *len)))?;
        let found = each(runs, |(at, whole, first, is_block)| {
            let bytes = match is_block {
                true => {
                    let bytes = reader.block(at, whole, b"EADB")?;
                    slice(&bytes, prefix.saturating_sub(4)..bytes.len() as u64)
                }
                false => read_page(reader, at, whole)?,
            };
            Ok((at, first, bytes))
        })?;
        for (at, first, bytes) in found {
            self.entries(reader, at, &bytes, first, len, &mut out)?;
        }
        out.retain(|(number, _)| *number < count);
        Ok(out)
    }

    fn check_version(&self, version: u8) -> Result<()> {
        match version {
            0 => Ok(()),
            _ => Err(VERSION
                .broken(format!("expected version 0 of the index of chunks, found {version}"))),
        }
    }

    /// Returns the grid of chunks of a dataset whose dimensions are all limited.
    fn bounded_grid(&self) -> Result<ChunkGrid> {
        let most = self.max_shape.iter().zip(self.chunk);
        let cells = most.map(|(most, chunk)| most.div_ceil(*chunk));
        ChunkGrid::new(cells.collect()).ok_or_else(|| self.too_many_chunks())
    }

    /// Returns the grid of chunks with the unlimited dimension moved to the front, and the index of that dimension.
    fn unlimited_grid(&self) -> Result<(ChunkGrid, usize)> {
        let unlimited = self.max_shape.iter().position(|most| *most == u64::MAX).unwrap_or(0);
        let most = self.max_shape.iter().zip(self.chunk);
        let mut cells: Vec<u64> = most.map(|(most, chunk)| most.div_ceil(*chunk)).collect();
        if unlimited < cells.len() {
            cells.remove(unlimited);
        }
        // The size of the first dimension does not affect the numbering.
        cells.insert(0, 1);
        let cells = ChunkGrid::new(cells).ok_or_else(|| self.too_many_chunks())?;
        Ok((cells, unlimited))
    }
}

/// The number of chunks in each dimension. Chunks are numbered in row-major order.
struct ChunkGrid(Vec<u64>);

impl ChunkGrid {
    fn new(cells: Vec<u64>) -> Option<ChunkGrid> {
        cells.iter().try_fold(1u64, |n, cells| n.checked_mul(*cells))?;
        Some(ChunkGrid(cells))
    }

    fn count(&self) -> u64 {
        self.0.iter().fold(1, |n, cells| n.saturating_mul(*cells))
    }

    /// Returns the position of a chunk by its number. The first dimension is unlimited.
    fn coordinates(&self, number: u64) -> Vec<u64> {
        let mut rest = number;
        let mut coordinates: Vec<u64> = Vec::with_capacity(self.0.len());
        for (at, cells) in self.0.iter().enumerate().rev() {
            match at {
                0 => coordinates.push(rest),
                _ => {
                    coordinates.push(rest.checked_rem(*cells).unwrap_or(0));
                    rest = rest.checked_div(*cells).unwrap_or(0);
                }
            }
        }
        coordinates.reverse();
        coordinates
    }
}

/// Reads a page of entries, and removes its checksum.
fn read_page(reader: &Reader<'_>, at: u64, len: u64) -> Result<Bytes, Stop> {
    let bytes = reader.bytes(at, len)?;
    reader.verified_len(at, &bytes)?;
    Ok(slice(&bytes, 0..without_sum(len)))
}

/// Returns `true` if a bit is set. Bit 0 is the highest of the first byte.
fn is_set(bits: &[u8], number: u64) -> bool {
    let byte = usize::try_from(number / 8).ok().and_then(|at| bits.get(at));
    byte.is_some_and(|byte| byte & (0x80 >> (number % 8)) != 0)
}

fn page_count(entries: u64, page: u64) -> u64 {
    entries.checked_div(page).unwrap_or(0)
}

/// Returns 2 to the power of `exponent`.
fn power_of_two(exponent: u64) -> u64 {
    1u64.checked_shl(u32::try_from(exponent).unwrap_or(u32::MAX)).unwrap_or(u64::MAX)
}
