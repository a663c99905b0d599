//! Converts rows to records, one column after the other.

use super::write::{Column, Maker, Put};
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use holdall_schema::record::rules::MISSING_MEMBER;
use holdall_schema::{Kind, Member, TypeId};

/// Records and the bytes that their entries refer to.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// The records, each at a multiple of their stride.
    pub(crate) records: Vec<u8>,
    pub(crate) heap: Vec<u8>,
    pub(crate) count: usize,
}

/// A row that is not a record, and the reason.
type WrongRow = (usize, Error);

impl Maker<'_> {
    /// Replaces the contents of `block` by the records of the first `rows` rows of a column.
    pub(super) fn fill(
        &self,
        column: &Column<'_>,
        ty: TypeId,
        rows: usize,
        stride: usize,
        block: &mut Block,
    ) -> Result<(), WrongRow> {
        block.records.clear();
        block.records.resize(rows.saturating_mul(stride), 0);
        block.heap.clear();
        block.count = rows;
        let (Kind::Struct(fields), Put::Struct(columns), None) =
            (&self.schema.ty(ty).kind, &column.put, &column.nulls)
        else {
            let size = self.schema.extent(ty).map_err(|e| (0, e))?.size as usize;
            for (row, record) in block.records.chunks_exact_mut(stride).enumerate() {
                let made = match column.is_null(row) {
                    true => Err(MISSING_MEMBER.broken("a record cannot be null")),
                    false => {
                        let record = record.get_mut(..size).unwrap_or_default();
                        self.put(column, ty, row, record, &mut block.heap)
                    }
                };
                made.map_err(|e| (row, e))?;
            }
            return Ok(());
        };
        let (mut left, mut wrong) = (rows, None);
        for (member, column) in fields.members.iter().zip(columns) {
            // Only an earlier row can still be the first wrong one.
            if let Err((row, e)) = self.member(member, column.as_ref(), left, stride, block) {
                left = row;
                let e = e.within(format!("`{}`", member.name.escaped()));
                wrong = Some((row, e));
            }
        }
        wrong.map_or(Ok(()), Err)
    }

    /// Writes a member of the first `rows` records.
    fn member(
        &self,
        member: &Member,
        column: Option<&Column<'_>>,
        rows: usize,
        stride: usize,
        block: &mut Block,
    ) -> Result<(), WrongRow> {
        // The member is part of the record, whose size fits in memory.
        let size = self.schema.extent(member.ty).map_err(|e| (0, e))?.size as usize;
        let start = member.offset.unwrap_or(0) as usize;
        if let (Some(bit), Some(column)) = (member.presence, column) {
            let (byte, bit) = (bit as usize / 8, 1 << (bit % 8));
            for (row, record) in block.records.chunks_exact_mut(stride).take(rows).enumerate() {
                if let (Some(byte), false) = (record.get_mut(byte), column.is_null(row)) {
                    *byte |= bit;
                }
            }
        }
        if let Some(Column { nulls: None, put: Put::Plain(values, width) }) = column {
            let slots = block.records.get_mut(start..).unwrap_or_default().chunks_mut(stride);
            let slots = slots.take(rows);
            match width {
                1 => scatter::<1>(values, slots),
                2 => scatter::<2>(values, slots),
                4 => scatter::<4>(values, slots),
                _ => scatter::<8>(values, slots),
            }
            return Ok(());
        }
        let Block { records, heap, .. } = block;
        for (row, record) in records.chunks_exact_mut(stride).take(rows).enumerate() {
            let there = column.filter(|c| !c.is_null(row));
            let slot = record.get_mut(start..start + size).unwrap_or_default();
            let made = match there {
                Some(column) => self.put(column, member.ty, row, slot, heap),
                None if member.presence.is_some() => Ok(()),
                None => self.default(member, slot, heap),
            };
            made.map_err(|e| (row, e))?;
        }
        Ok(())
    }
}

/// Copies values of `N` bytes to the starts of slots.
fn scatter<'r, const N: usize>(values: &[u8], slots: impl Iterator<Item = &'r mut [u8]>) {
    for (slot, value) in slots.zip(values.as_chunks::<N>().0) {
        if let Some(slot) = slot.first_chunk_mut() {
            *slot = *value;
        }
    }
}
