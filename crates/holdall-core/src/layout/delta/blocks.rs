//! Blocks of a delta, each read without the others.

use super::view::{
    DeltaFacts, Positions, check_planes, check_spare_bits, read_starts, wrong_length,
};
use super::{BLOCK, CHANGED, DeltaType, DeltaView, GAP, GAPS, LENGTH, MASK, PLANES, STARTS, role};
use crate::error::Result;
use crate::layout::ROWS;
use crate::model::{Role, TensorInfo};
use bytes::Bytes;
use std::ops::Range;

/// Where the blocks of a delta are in its components.
#[derive(Debug, Clone)]
pub struct DeltaBlocks {
    element_type: DeltaType,
    count: u64,
    base: String,
    target: String,
    is_mask: bool,
    /// For each block and the end, the offset in `gaps`, and the number of changed elements before it.
    starts: Vec<(u64, u64)>,
}

impl DeltaBlocks {
    /// Finds the blocks of a tensor of layout `delta`; `get` returns decoded components, of which only `starts` is read.
    ///
    /// # Errors
    /// Returns the errors of `get`, and those of [`DeltaView::from_tensor`] about attributes, components, their lengths and `starts`.
    pub fn from_tensor(
        info: &TensorInfo,
        get: impl Fn(&Role) -> Result<Bytes>,
    ) -> Result<DeltaBlocks> {
        let DeltaFacts { element_type, count, changed, base, target } = DeltaFacts::new(info)?;
        let gaps = info.component(&role(GAPS)).map(|c| {
            c.decoded_len.ok_or_else(|| LENGTH.broken("the length of `gaps` is not stated"))
        });
        let gaps = gaps.transpose()?;
        let bytes = get(&role(STARTS))?;
        let mut starts = read_starts(&bytes, gaps.is_some(), count)?;
        if starts.first().is_some_and(|(offset, _)| *offset != 0) {
            return Err(GAP.broken("the gaps of the first block do not start at 0"));
        }
        if let Some((_, before)) = starts.first().filter(|(_, before)| *before != 0) {
            return Err(CHANGED.broken(format!("block 0 starts after {before} changes, not 0")));
        }
        starts.push((gaps.unwrap_or_default(), changed));
        let pairs = starts.iter().zip(starts.iter().skip(1));
        for (block, ((offset, before), (end, after))) in pairs.enumerate() {
            if offset > end {
                return Err(GAP.broken(format!("block {block} ends before it starts")));
            }
            let first = (block as u64).saturating_mul(BLOCK);
            let own = BLOCK.min(count.saturating_sub(first));
            if after.checked_sub(*before).is_none_or(|changes| changes > own) {
                let message =
                    format!("block {block} of {own} elements has changes {before} to {after}");
                return Err(CHANGED.broken(message));
            }
        }
        let is_mask = gaps.is_none();
        Ok(DeltaBlocks { element_type, count, base, target, is_mask, starts })
    }

    /// Returns the digest of the target's elements, as text.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Reads block `block`, as a delta of its own with one block; `get` returns ranges of decoded components.
    ///
    /// # Errors
    /// Returns [`ROWS`] if there is no such block, the errors of `get`, and the rules of this module about its contents.
    pub fn block(
        &self,
        block: u64,
        get: impl Fn(&Role, Range<u64>) -> Result<Bytes>,
    ) -> Result<DeltaView> {
        let at = usize::try_from(block).unwrap_or(usize::MAX);
        let ends = (self.starts.get(at), self.starts.get(at.saturating_add(1)));
        let (Some((offset, before)), Some((end, after))) = ends else {
            return Err(ROWS.broken(format!("there is no block {block}")));
        };
        let first = block.saturating_mul(BLOCK);
        let count = BLOCK.min(self.count.saturating_sub(first));
        let changed = after.saturating_sub(*before);
        let positions = match self.is_mask {
            true => {
                // A block begins at a byte.
                let start = first / 8;
                let mask = get(&role(MASK), start..start.saturating_add(count.div_ceil(8)))?;
                check_spare_bits(&mask, count)?;
                Positions::Mask(mask)
            }
            false if offset == end => Positions::Gaps(Bytes::new()),
            false => Positions::Gaps(get(&role(GAPS), *offset..*end)?),
        };
        let width = usize::try_from(self.element_type.width()).unwrap_or(usize::MAX);
        let plane = |name: &&str| match changed {
            0 => Ok(Bytes::new()),
            _ => get(&role(name), *before..*after),
        };
        let planes = PLANES.iter().take(width).map(plane).collect::<Result<Vec<Bytes>>>()?;
        if let Some(plane) = planes.iter().find(|plane| plane.len() as u64 != changed) {
            return Err(wrong_length("d", changed, plane.len()));
        }
        check_planes(&planes)?;
        let view = DeltaView {
            element_type: self.element_type.clone(),
            count,
            changed,
            base: self.base.clone(),
            target: self.target.clone(),
            positions,
            planes,
            starts: vec![(0, 0)],
        };
        view.check_positions()?;
        Ok(view)
    }
}
