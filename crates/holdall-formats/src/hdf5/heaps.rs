//! The three kinds of heaps in a file: local heaps with the names of old groups, global heaps with values of variable
//! length, and fractal heaps with links and attributes.

use super::reader::{FIRST, Reader, each, little};
use super::tree::{self, number_len, slice};
use super::{FILTER, VERSION};
use bytes::Bytes;
use holdall_collections::HashMap;
use holdall_core::error::Result;
use holdall_core::window::Stop;
use holdall_core::wire::cursor::Cursor;

/// Returns the data of the local heap whose header is at an address.
pub(super) fn local_heap_data(reader: &Reader<'_>, at: u64) -> Result<Bytes, Stop> {
    let lengths = u64::from(reader.length).saturating_mul(2);
    let len = lengths.saturating_add(reader.offset.into()).saturating_add(8);
    let head = reader.bytes(at, len)?;
    reader.check_signature(at, &head, b"HEAP")?;
    let (version, len, data) = reader.read(at, "a heap", &head, |cursor| {
        cursor.take(4)?;
        let version = cursor.u8()?;
        cursor.take(3)?;
        let len = reader.length(cursor)?;
        reader.length(cursor)?;
        Some((version, len, reader.address(cursor)?))
    })?;
    if version != 0 {
        return Err(VERSION.broken(format!("unsupported heap version {version}")).into());
    }
    let data = data.ok_or_else(|| reader.broken(at, "a heap without data"))?;
    reader.bytes(data, len)
}

/// Returns the objects in the global heap collections at these addresses, by number.
pub(super) fn global_heap_objects(
    reader: &Reader<'_>,
    addresses: &[u64],
) -> Result<HashMap<u64, HashMap<u16, Bytes>>, Stop> {
    // The header of a collection, and of an entry, takes a multiple of 8 bytes.
    let prefix = u64::from(reader.length).saturating_add(8).next_multiple_of(8);
    let behind_len = prefix.saturating_sub(8).saturating_sub(reader.length.into());
    reader.ask(addresses.iter().map(|at| (*at, FIRST)))?;
    let lens = each(addresses, |at| {
        let head = reader.bytes(*at, prefix)?;
        reader.check_signature(*at, &head, b"GCOL")?;
        Ok(reader.read(*at, "a heap", &head, |cursor| {
            cursor.take(8)?;
            reader.length(cursor)
        })?)
    })?;
    reader.ask(addresses.iter().copied().zip(lens.iter().copied()))?;
    let mut out = HashMap::default();
    for (at, len) in addresses.iter().zip(lens) {
        let bytes = reader.bytes(*at, len)?;
        let mut objects = HashMap::default();
        let mut cursor = Cursor::new(&bytes);
        cursor.take(prefix);
        loop {
            let fields = (|| {
                let number = cursor.u16_le()?;
                cursor.take(6)?;
                let len = reader.length(&mut cursor)?;
                cursor.take(behind_len)?;
                Some((number, len))
            })();
            // Number 0 is the free space.
            let Some((number, len)) = fields.filter(|(number, _)| *number != 0) else { break };
            let from = cursor.position();
            if cursor.take(len).is_none() {
                let message = format!(
                    "entry {number} of a heap should have {len} bytes, but its collection is shorter"
                );
                return Err(reader.broken(*at, message).into());
            }
            objects.insert(number, slice(&bytes, from..cursor.position()));
            cursor.take(len.next_multiple_of(8).saturating_sub(len));
        }
        out.insert(*at, objects);
    }
    Ok(out)
}

/// A fractal heap, as its header describes it.
pub(super) struct FractalHeap {
    at: u64,
    id_len: u64,
    /// The maximum length of an object in a block.
    most_managed: u64,
    /// The address of the B-tree of objects that are stored outside of the blocks.
    huge: Option<u64>,
    width: u64,
    /// The length of a block in the first rows, in bytes.
    first: u64,
    /// The maximum length of a direct block.
    largest: u64,
    /// The number of bits of an offset in the heap.
    bits: u16,
    root: Option<u64>,
    /// The number of rows of the root, if it is an indirect block; 0 if it is a direct block.
    rows: u64,
}

impl FractalHeap {
    /// Reads the heap whose header is at an address.
    pub(super) fn read(reader: &Reader<'_>, at: u64) -> Result<FractalHeap, Stop> {
        let lengths = u64::from(reader.length).saturating_mul(12);
        let addresses = u64::from(reader.offset).saturating_mul(3);
        let len = lengths.saturating_add(addresses).saturating_add(26);
        let header = reader.head(at, len)?;
        reader.check_signature(at, &header, b"FRHP")?;
        let (version, filters_len, heap) = reader.read(at, "a heap", &header, |cursor| {
            cursor.take(4)?;
            let version = cursor.u8()?;
            let (id_len, filters_len, _) = (cursor.u16_le()?, cursor.u16_le()?, cursor.u8()?);
            let most_managed = cursor.u32_le()?;
            reader.length(cursor)?;
            let huge = reader.address(cursor)?;
            reader.length(cursor)?;
            reader.address(cursor)?;
            for _ in 0..8 {
                reader.length(cursor)?;
            }
            let width = cursor.u16_le()?;
            let (first, largest) = (reader.length(cursor)?, reader.length(cursor)?);
            let (bits, _) = (cursor.u16_le()?, cursor.u16_le()?);
            let (root, rows) = (reader.address(cursor)?, cursor.u16_le()?);
            let heap = FractalHeap {
                at,
                id_len: id_len.into(),
                most_managed: most_managed.into(),
                huge,
                width: width.into(),
                first,
                largest,
                bits,
                root,
                rows: rows.into(),
            };
            Some((version, filters_len, heap))
        })?;
        if version != 0 {
            return Err(VERSION
                .broken(format!("unsupported fractal heap version {version}"))
                .into());
        }
        if filters_len != 0 {
            let message = "links or attributes are in a filtered heap";
            return Err(FILTER.broken(message).into());
        }
        reader.block(at, len, b"FRHP")?;
        let is_whole = |len: u64| len.is_power_of_two() && len >= 8;
        if heap.width == 0
            || heap.width > 1 << 12
            || !is_whole(heap.first)
            || !is_whole(heap.largest)
            || heap.largest < heap.first
            || !(1..=64).contains(&heap.bits)
        {
            return Err(reader.broken(at, "the block lengths of a heap are invalid").into());
        }
        Ok(heap)
    }

    /// Returns the objects with these ids.
    pub(super) fn objects(
        &self,
        reader: &Reader<'_>,
        ids: impl IntoIterator<Item = Bytes>,
    ) -> Result<Vec<(u64, Bytes)>, Stop> {
        each(ids, |id| self.object(reader, &id))
    }

    /// Returns the address and the bytes of an object.
    fn object(&self, reader: &Reader<'_>, id: &Bytes) -> Result<(u64, Bytes), Stop> {
        let id = slice(id, 0..self.id_len);
        let first = id.first().copied().unwrap_or(0xff);
        let odd = |what: &str| reader.broken(self.at, format!("a heap id {what}"));
        if first >> 6 != 0 {
            return Err(odd("has an unknown version").into());
        }
        let rest = slice(&id, 1..self.id_len);
        match (first >> 4) & 3 {
            0 => {
                let of_block = u64::from(self.largest.ilog2().div_ceil(8));
                let len = number_len(self.most_managed).min(of_block);
                let (at, len) = reader.read(self.at, "an id of a heap", &rest, |cursor| {
                    let at = little(cursor.take(u64::from(self.bits.div_ceil(8)))?)?;
                    Some((at, little(cursor.take(len)?)?))
                })?;
                let at = self.locate(reader, at, len)?;
                Ok((at, reader.bytes(at, len)?))
            }
            1 => {
                let sizes = u64::from(reader.offset).saturating_add(reader.length.into());
                let read = |cursor: &mut Cursor<'_>| {
                    Some((reader.address(cursor)?, reader.length(cursor)?))
                };
                let found = match self.id_len > sizes {
                    true => Some(reader.read(self.at, "an id of a heap", &rest, read)?),
                    false => self.huge(reader, &rest)?,
                };
                let Some((Some(at), len)) = found else {
                    return Err(odd("refers to no object").into());
                };
                Ok((at, reader.bytes(at, len)?))
            }
            2 => {
                // A short tiny object has its length in 4 bits.
                let (len, from) = match self.id_len <= 18 {
                    true => (u64::from(first & 15), 1),
                    false => {
                        let low = id.get(1).copied().unwrap_or_default();
                        (u64::from(u16::from_be_bytes([first & 15, low])), 2)
                    }
                };
                let end = len.saturating_add(1).saturating_add(from);
                if end > self.id_len {
                    return Err(odd("gives a length that is longer than the id").into());
                }
                Ok((self.at, slice(&id, from..end)))
            }
            _ => Err(odd("has an unknown type").into()),
        }
    }

    /// Returns the location of an object outside of the blocks, from the B-tree of these objects.
    fn huge(&self, reader: &Reader<'_>, id: &Bytes) -> Result<Option<(Option<u64>, u64)>, Stop> {
        let Some(tree) = self.huge else { return Ok(None) };
        for record in tree::records_v2(reader, tree, 1, None)? {
            let found = reader.read(tree, "a record", &record, |cursor| {
                let heap_range = (reader.address(cursor)?, reader.length(cursor)?);
                Some((heap_range, cursor.take(reader.length.into())?))
            })?;
            let (heap_range, number) = found;
            if little(number) == little(id.get(..8).unwrap_or(id)) {
                return Ok(Some(heap_range));
            }
        }
        Ok(None)
    }

    /// Returns the address of `len` bytes at an offset in the heap.
    fn locate(&self, reader: &Reader<'_>, at: u64, len: u64) -> Result<u64, Stop> {
        let outside = || reader.broken(self.at, format!("offset {at} is in no block of a heap"));
        let mut block = self.root.ok_or_else(outside)?;
        let (mut rows, mut start, mut size) = (self.rows, 0u64, self.first);
        while rows > 0 {
            let (row, first_of_row) = self.row(at.saturating_sub(start)).ok_or_else(outside)?;
            if row >= rows {
                return Err(outside().into());
            }
            size = self.size(row);
            let column = at.saturating_sub(start).saturating_sub(first_of_row);
            let column = column.checked_div(size).unwrap_or(0);
            let number = row.saturating_mul(self.width).saturating_add(column);
            let child = self.child(reader, block, rows, number)?;
            start = start.saturating_add(first_of_row).saturating_add(column.saturating_mul(size));
            block = child.ok_or_else(outside)?;
            // A row of large blocks has indirect blocks, each with as many rows as its length requires.
            rows = match size > self.largest {
                true => self.rows_in(size),
                false => 0,
            };
        }
        let within = at.checked_sub(start).ok_or_else(outside)?;
        if within.checked_add(len).is_none_or(|end| end > size) {
            return Err(outside().into());
        }
        Ok(block.saturating_add(within))
    }

    /// Returns the row that contains an offset in an indirect block, and the offset at which the row starts.
    fn row(&self, at: u64) -> Option<(u64, u64)> {
        let (mut start, mut row) = (0u64, 0u64);
        loop {
            let end = start.checked_add(self.size(row).checked_mul(self.width)?)?;
            if at < end {
                return Some((row, start));
            }
            (start, row) = (end, row.checked_add(1)?);
        }
    }

    /// Returns the length of each block of a row. The first two rows have the same.
    fn size(&self, row: u64) -> u64 {
        let doubled = u32::try_from(row.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(2u64.saturating_pow(doubled))
    }

    /// Returns the number of rows of an indirect block that spans `size` bytes of the heap.
    fn rows_in(&self, size: u64) -> u64 {
        let row = self.first.saturating_mul(self.width).max(1);
        let log = |n: u64| u64::from(n.max(1).ilog2());
        log(size).saturating_sub(log(row)).saturating_add(1)
    }

    /// Returns the address of a block in an indirect block.
    fn child(
        &self,
        reader: &Reader<'_>,
        at: u64,
        rows: u64,
        number: u64,
    ) -> Result<Option<u64>, Stop> {
        let place_len = u64::from(self.bits.div_ceil(8));
        let prefix = u64::from(reader.offset).saturating_add(place_len).saturating_add(1);
        let count = rows.saturating_mul(self.width);
        let len =
            count.saturating_mul(reader.offset.into()).saturating_add(prefix).saturating_add(8);
        let content = reader.block(at, len, b"FHIB")?;
        let from = number.saturating_mul(reader.offset.into()).saturating_add(prefix);
        let address = slice(&content, from..from.saturating_add(reader.offset.into()));
        let mut cursor = Cursor::new(&address);
        Ok(reader.address(&mut cursor).flatten())
    }
}
