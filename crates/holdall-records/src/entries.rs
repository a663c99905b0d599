//! Moves records from one heap to another: copies the heap data that their entries refer to, and changes the entries to
//! refer to the copies.

use holdall_core::{Error, Result};
use holdall_schema::record::rules::{
    ENTRY_ALIGN, ENTRY_BOUNDS, ENTRY_EMPTY, ENTRY_LENGTH, LENGTH, TOO_LARGE, UNION_TAG,
};
use holdall_schema::{Entry, Extent, Heap, Kind, Len, Schema, Struct, TypeId, Union};
use std::borrow::Cow;
use std::ops::Range;

/// The heap that the records refer to.
pub(super) struct From<'f> {
    /// The length of the entry in bytes.
    pub(super) len: u64,
    /// Returns a range of it; the range must be in bounds.
    pub(super) get: &'f (dyn Fn(Range<u64>) -> Result<Cow<'f, [u8]>> + 'f),
}

/// Moves records of one schema.
pub(super) struct Mover<'m, 'f, H> {
    schema: &'m Schema,
    from: &'f From<'f>,
    to: &'m mut H,
    most: u64,
    /// The number of heap bytes that the current record may still read.
    left: u64,
}

impl<'m, 'f, H: Heap> Mover<'m, 'f, H> {
    /// Creates a mover that reads at most `most` bytes of the heap for each record.
    pub(super) fn new(
        schema: &'m Schema,
        from: &'f From<'f>,
        to: &'m mut H,
        most: u64,
    ) -> Mover<'m, 'f, H> {
        Mover { schema, from, to, most, left: most }
    }

    /// Moves one record.
    pub(super) fn record(&mut self, ty: TypeId, record: &mut [u8]) -> Result<()> {
        self.left = self.most;
        self.value(ty, record)
    }

    fn value(&mut self, ty: TypeId, bytes: &mut [u8]) -> Result<()> {
        let schema = self.schema;
        let found = schema.ty(ty);
        if found.heap_align.is_none() {
            return Ok(());
        }
        match &found.kind {
            Kind::String | Kind::Bytes | Kind::Record => {
                let Some(data) = self.take(bytes)? else { return Ok(()) };
                let offset = self.to.append(&data, 1)?;
                put(bytes, Entry { offset, len: data.len() as u64 })
            }
            Kind::Array(array) => {
                let items = schema.extent(array.items)?;
                match array.len {
                    Len::Fixed(_) => self.elements(array.items, items, bytes),
                    Len::Variable { .. } => self.array(array.items, items, bytes),
                }
            }
            Kind::Struct(fields) => self.fields(fields, bytes),
            Kind::Union(union) => self.union(union, bytes),
            _ => Ok(()),
        }
    }

    fn array(&mut self, ty: TypeId, items: Extent, bytes: &mut [u8]) -> Result<()> {
        let entry = entry(bytes)?;
        if !entry.len.is_multiple_of(items.stride.max(1)) {
            let message =
                format!("{} bytes, not a multiple of the element size {}", entry.len, items.stride);
            return Err(ENTRY_LENGTH.broken(message));
        }
        if !entry.offset.is_multiple_of(u64::from(items.align.max(1))) {
            let (align, at) = (items.align, entry.offset);
            return Err(ENTRY_ALIGN.broken(format!(
                "offset {at} of the elements is not a multiple of their alignment {align}"
            )));
        }
        let Some(mut data) = self.take(bytes)? else { return Ok(()) };
        if self.schema.ty(ty).heap_align.is_some() {
            self.elements(ty, items, data.to_mut())?;
        }
        let offset = self.to.append(&data, items.align)?;
        put(bytes, Entry { offset, len: entry.len })
    }

    fn elements(&mut self, ty: TypeId, items: Extent, bytes: &mut [u8]) -> Result<()> {
        let (Ok(stride), Ok(size)) = (usize::try_from(items.stride), usize::try_from(items.size))
        else {
            return Err(short(bytes));
        };
        for element in bytes.chunks_exact_mut(stride.max(1)) {
            let Some(element) = element.get_mut(..size) else { continue };
            self.value(ty, element)?;
        }
        Ok(())
    }

    fn fields(&mut self, fields: &Struct, bytes: &mut [u8]) -> Result<()> {
        for member in &fields.members {
            if self.schema.ty(member.ty).heap_align.is_none() {
                continue;
            }
            if let Some(bit) = member.presence {
                let byte = bytes.get(bit as usize / 8).copied().unwrap_or(0);
                if byte & (1 << (bit % 8)) == 0 {
                    continue;
                }
            }
            self.part(member.ty, member.offset.unwrap_or(0), bytes)?;
        }
        Ok(())
    }

    fn union(&mut self, union: &Union, bytes: &mut [u8]) -> Result<()> {
        let mut tag = [0; 4];
        for (slot, b) in tag.iter_mut().zip(bytes.iter()).take(union.width.bytes() as usize) {
            *slot = *b;
        }
        let tag = u32::from_le_bytes(tag);
        let Some(variant) = union.variants.get(tag as usize) else {
            let message = format!(
                "tag {tag} is out of range for a union with {} variants",
                union.variants.len()
            );
            return Err(UNION_TAG.broken(message));
        };
        self.part(variant.ty, u64::from(union.start), bytes)
    }

    fn part(&mut self, ty: TypeId, start: u64, bytes: &mut [u8]) -> Result<()> {
        let size = self.schema.extent(ty)?.size;
        let end = usize::try_from(start.saturating_add(size)).unwrap_or(usize::MAX);
        let range = usize::try_from(start).unwrap_or(usize::MAX)..end;
        match bytes.get_mut(range) {
            Some(slot) => self.value(ty, slot),
            None => Err(short(bytes)),
        }
    }

    /// Returns the bytes that an entry refers to, or `None` if the entry is empty.
    fn take(&mut self, bytes: &[u8]) -> Result<Option<Cow<'f, [u8]>>> {
        let Entry { offset, len } = entry(bytes)?;
        if len == 0 {
            if offset != 0 {
                let message = format!("an entry of 0 bytes has the offset {offset}, not 0");
                return Err(ENTRY_EMPTY.broken(message));
            }
            return Ok(None);
        }
        let end = offset.checked_add(len).filter(|end| *end <= self.from.len);
        let Some(end) = end else {
            let heap = self.from.len;
            return Err(ENTRY_BOUNDS.broken(format!(
                "an entry of {len} bytes at offset {offset} ends after its heap of {heap} bytes"
            )));
        };
        self.left = self.left.checked_sub(len).ok_or_else(|| {
            TOO_LARGE.broken(format!("a record refers to more than {} bytes", self.most))
        })?;
        (self.from.get)(offset..end).map(Some)
    }
}

pub(super) fn entry(bytes: &[u8]) -> Result<Entry> {
    match bytes.first_chunk() {
        Some(bytes) => Ok(Entry::from_bytes(*bytes)),
        None => Err(short(bytes)),
    }
}

fn put(bytes: &mut [u8], entry: Entry) -> Result<()> {
    match bytes.first_chunk_mut() {
        Some(slot) => {
            *slot = entry.to_bytes();
            Ok(())
        }
        None => Err(short(bytes)),
    }
}

#[cold]
fn short(bytes: &[u8]) -> Error {
    LENGTH.broken(format!("a member ends after the {} bytes of its record", bytes.len()))
}
