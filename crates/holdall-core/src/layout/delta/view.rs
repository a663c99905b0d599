//! Applying deltas.

use super::rank::Word;
use super::{
    ATTRIBUTE, BLOCK, CHANGED, COMPONENTS, DeltaType, GAP, GAPS, LAYOUT, LENGTH, MASK, MORE,
    PLANES, SPARE, STARTS, VALUE, role,
};
use crate::error::{Escape as _, Result};
use crate::layout::{LENGTH as BUFFER, ROWS, WRONG_LAYOUT};
use crate::model::{Component, DType, LogicalType, Role, TensorInfo, Value, element_count};
use bytes::Bytes;

/// A delta whose components were checked: applying it cannot fail.
#[derive(Debug, Clone)]
pub struct DeltaView {
    pub(super) element_type: DeltaType,
    pub(super) count: u64,
    pub(super) changed: u64,
    pub(super) base: String,
    pub(super) target: String,
    pub(super) positions: Positions,
    pub(super) planes: Vec<Bytes>,
    /// For each block, the offset in `gaps`, and the number of changed elements before it.
    pub(super) starts: Vec<(usize, usize)>,
}

#[derive(Debug, Clone)]
pub(super) enum Positions {
    Gaps(Bytes),
    Mask(Bytes),
}

impl DeltaView {
    /// Creates the view of a tensor of layout `delta`. `get` returns decoded components.
    ///
    /// # Errors
    /// Returns [`WRONG_LAYOUT`] if the tensor has another layout, the errors of `get`, and the rules of this module.
    pub fn from_tensor(
        info: &TensorInfo,
        get: impl Fn(&Role) -> Result<Bytes>,
    ) -> Result<DeltaView> {
        let facts = DeltaFacts::new(info)?;
        let DeltaFacts { element_type, count, changed, base, target } = facts;
        let width = element_type.width() as usize;
        let mut planes = Vec::with_capacity(width);
        for name in PLANES.iter().take(width) {
            let plane = get(&role(name))?;
            if plane.len() as u64 != changed {
                return Err(wrong_length(name, changed, plane.len()));
            }
            planes.push(plane);
        }
        check_planes(&planes)?;
        let starts = get(&role(STARTS))?;
        let positions = match info.component(&role(MASK)) {
            Some(_) => Positions::Mask(get(&role(MASK))?),
            None => Positions::Gaps(get(&role(GAPS))?),
        };
        let starts = read_starts(&starts, matches!(positions, Positions::Gaps(_)), count)?;
        if let Positions::Mask(mask) = &positions {
            if mask.len() as u64 != count.div_ceil(8) {
                return Err(wrong_length(MASK, count.div_ceil(8), mask.len()));
            }
            check_spare_bits(mask, count)?;
        }
        let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let starts = starts.into_iter().map(|(offset, n)| (index(offset), index(n))).collect();
        let view =
            DeltaView { element_type, count, changed, base, target, positions, planes, starts };
        view.check_positions()?;
        Ok(view)
    }

    /// Returns the type of the elements.
    pub fn element_type(&self) -> &DeltaType {
        &self.element_type
    }

    /// Returns the number of elements of the tensor.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of elements that differ.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Returns the digest of the base's elements, as text.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Returns the digest of the target's elements, as text.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Changes the elements of block `block` in `elements` from those of the base to those of the target.
    ///
    /// # Errors
    /// Returns [`ROWS`] if there is no such block, and the rule `layout/length` if `elements` do not have its length.
    pub fn apply(&self, block: u64, elements: &mut [u8]) -> Result<()> {
        let first = block.saturating_mul(BLOCK);
        let len =
            BLOCK.min(self.count.saturating_sub(first)).saturating_mul(self.element_type.width());
        if elements.len() as u64 != len {
            let message = format!("expected {len} bytes of a block, found {}", elements.len());
            return Err(BUFFER.broken(message));
        }
        self.apply_from(block, 0, elements)
    }

    /// Changes some elements of a block, as [`DeltaView::apply`] does: those from element `skipped` of the block on, as many as
    /// `elements` has.
    ///
    /// # Errors
    /// Returns [`ROWS`] if there is no such block, or if it has fewer elements.
    pub fn apply_from(&self, block: u64, skipped: u64, elements: &mut [u8]) -> Result<()> {
        let first = block.saturating_mul(BLOCK);
        let own = BLOCK.min(self.count.saturating_sub(first)).saturating_sub(skipped);
        let wanted = (elements.len() as u64).div_ceil(self.element_type.width());
        let start = usize::try_from(block).ok().and_then(|at| self.starts.get(at));
        let Some(start) = start.filter(|_| wanted <= own) else {
            let message = format!("block {block} has no {wanted} elements from {skipped} on");
            return Err(ROWS.broken(message));
        };
        // Less than a block.
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        match self.element_type.width() {
            1 => self.apply_words::<u8>(*start, first, skipped, elements),
            2 => self.apply_words::<u16>(*start, first, skipped, elements),
            4 => self.apply_words::<u32>(*start, first, skipped, elements),
            _ => self.apply_words::<u64>(*start, first, skipped, elements),
        }
        Ok(())
    }

    fn apply_words<W: Word>(
        &self,
        start: (usize, usize),
        first: u64,
        skipped: usize,
        elements: &mut [u8],
    ) {
        let is_float = self.element_type.is_float();
        let count = (elements.len() / W::WIDTH).saturating_add(skipped);
        let mut value = start.1;
        let mut change = |at: usize| {
            let mut distance = W::read(&[]);
            for (k, plane) in self.planes.iter().enumerate() {
                distance = distance.with_byte(k, plane.get(value).copied().unwrap_or_default());
            }
            value = value.saturating_add(1);
            let Some(at) = at.checked_sub(skipped) else { return };
            let at = at.saturating_mul(W::WIDTH);
            let Some(bytes) = elements.get_mut(at..at.saturating_add(W::WIDTH)) else { return };
            let old = W::read(bytes);
            let new = match is_float {
                true => old.rank().moved(distance).unrank(),
                false => old.moved(distance),
            };
            new.write(bytes);
        };
        match &self.positions {
            Positions::Gaps(gaps) => {
                let end = self.end_of_gaps(first);
                let mut at = 0usize;
                for gap in gaps.get(start.0..end).unwrap_or_default() {
                    at = at.saturating_add(usize::from(*gap));
                    if *gap != MORE {
                        change(at);
                        at = at.saturating_add(1);
                    }
                }
            }
            Positions::Mask(mask) => {
                // A block begins at a byte.
                let from = (first / 8) as usize;
                let bytes = mask.get(from..).unwrap_or_default().iter().take(count.div_ceil(8));
                for (at, byte) in bytes.enumerate() {
                    let mut left = *byte;
                    while left != 0 {
                        change(at.saturating_mul(8).saturating_add(left.trailing_zeros() as usize));
                        left &= left.wrapping_sub(1);
                    }
                }
            }
        }
    }

    /// Returns where the gaps of the block that begins at element `first` end.
    fn end_of_gaps(&self, first: u64) -> usize {
        let next = (first / BLOCK).saturating_add(1);
        let next = usize::try_from(next).ok().and_then(|at| self.starts.get(at));
        match (&self.positions, next) {
            (_, Some((offset, _))) => *offset,
            (Positions::Gaps(gaps), None) => gaps.len(),
            (Positions::Mask(_), None) => 0,
        }
    }

    /// Checks that positions lie in their blocks, and that there are as many as the starts and `changed` say.
    pub(super) fn check_positions(&self) -> Result<()> {
        if self.starts.first().is_some_and(|(offset, _)| *offset != 0) {
            return Err(GAP.broken("the gaps of the first block do not start at 0"));
        }
        let mut before = 0u64;
        for (at, (_, stated)) in self.starts.iter().enumerate() {
            if *stated as u64 != before {
                let message = format!("block {at} starts after {stated} changes, not {before}");
                return Err(CHANGED.broken(message));
            }
            let first = (at as u64).saturating_mul(BLOCK);
            let count = BLOCK.min(self.count.saturating_sub(first));
            before = before.saturating_add(match &self.positions {
                Positions::Gaps(gaps) => self.changes_of_gaps(gaps, at, first, count)?,
                Positions::Mask(mask) => {
                    let from = (first / 8) as usize;
                    let bytes = mask.get(from..).unwrap_or_default();
                    let bytes = bytes.iter().take(count.div_ceil(8) as usize);
                    bytes.fold(0, |n, byte| n.saturating_add(byte.count_ones().into()))
                }
            });
        }
        if before != self.changed {
            let (changed, roles) = (self.changed, if self.is_mask() { MASK } else { GAPS });
            let message = format!("`changed` is {changed}, but `{roles}` names {before} elements");
            return Err(CHANGED.broken(message));
        }
        Ok(())
    }

    fn changes_of_gaps(&self, gaps: &[u8], block: usize, first: u64, count: u64) -> Result<u64> {
        let start = self.starts.get(block).map_or(0, |(offset, _)| *offset);
        let own = gaps.get(start..self.end_of_gaps(first));
        let own = own.ok_or_else(|| GAP.broken(format!("block {block} ends before it starts")))?;
        if own.last() == Some(&MORE) {
            return Err(GAP.broken(format!("the gaps of block {block} end in 255")));
        }
        let (mut at, mut changes) = (0u64, 0u64);
        for gap in own {
            at = at.saturating_add(u64::from(*gap));
            if *gap == MORE {
                continue;
            }
            if at >= count {
                let message = format!("a gap leads to element {at} of block {block}, of {count}");
                return Err(GAP.broken(message));
            }
            at = at.saturating_add(1);
            changes = changes.saturating_add(1);
        }
        Ok(changes)
    }

    fn is_mask(&self) -> bool {
        matches!(self.positions, Positions::Mask(_))
    }
}

/// The attributes of a delta, whose components were checked against them.
pub(super) struct DeltaFacts {
    pub(super) element_type: DeltaType,
    pub(super) count: u64,
    pub(super) changed: u64,
    pub(super) base: String,
    pub(super) target: String,
}

impl DeltaFacts {
    pub(super) fn new(info: &TensorInfo) -> Result<DeltaFacts> {
        if info.layout().as_str() != LAYOUT {
            let layout = info.layout().as_str().escaped();
            return Err(WRONG_LAYOUT.broken(format!("expected a delta, found `{layout}`")));
        }
        let element_type = element_type(info)?;
        let (base, target) = (digest(info, "base")?, digest(info, "target")?);
        let changed = match info.attributes().get("changed") {
            Some(Value::Integer(n)) => u64::try_from(*n).ok().filter(|n| *n > 0),
            _ => None,
        };
        let changed = changed.ok_or_else(|| {
            ATTRIBUTE.broken("`changed` is missing, or is not an integer from 1 on")
        })?;
        let count = element_count(info.shape()).unwrap_or(u64::MAX);
        if changed > count {
            let message = format!("{changed} elements changed, of {count}");
            return Err(CHANGED.broken(message));
        }
        check_components(info, &element_type)?;
        let facts = DeltaFacts { element_type, count, changed, base, target };
        facts.check_lengths(info)?;
        Ok(facts)
    }

    /// Compares the lengths that the file states, before memory is taken for the components.
    fn check_lengths(&self, info: &TensorInfo) -> Result<()> {
        let stated = |name: &str| info.component(&role(name)).and_then(|c| c.decoded_len);
        let shown = |len: u64| usize::try_from(len).unwrap_or(usize::MAX);
        let width = usize::try_from(self.element_type.width()).unwrap_or(usize::MAX);
        let planes = PLANES.iter().take(width).map(|name| (*name, self.changed));
        for (name, expected) in planes.chain([(MASK, self.count.div_ceil(8))]) {
            if let Some(found) = stated(name).filter(|len| *len != expected) {
                return Err(wrong_length(name, expected, shown(found)));
            }
        }
        // A byte for each change, and for each 255 elements that are skipped.
        let most = self.changed.saturating_add(self.count / u64::from(MORE));
        if let Some(found) = stated(GAPS).filter(|len| *len > most) {
            let message = format!("{found} gaps lead past the {} elements", self.count);
            return Err(GAP.broken(message));
        }
        let expected = starts_len(self.count, stated(GAPS).is_some());
        match stated(STARTS).filter(|len| *len != expected) {
            Some(found) => Err(wrong_length(STARTS, expected, shown(found))),
            None => Ok(()),
        }
    }
}

fn element_type(info: &TensorInfo) -> Result<DeltaType> {
    let text = |key| info.attributes().get(key).and_then(Value::as_text);
    let dtype = text("dtype").and_then(DType::from_name);
    let logical = match info.attributes().get("type") {
        None => None,
        Some(Value::Text(name)) => Some(LogicalType::from_name(name)),
        Some(_) => return Err(ATTRIBUTE.broken("`type` is not a text")),
    };
    dtype.and_then(|dtype| DeltaType::new(dtype, logical)).ok_or_else(|| {
        ATTRIBUTE.broken("`dtype` and `type` are not the type of a number of whole bytes")
    })
}

/// Returns the text of a digest.
fn digest(info: &TensorInfo, key: &str) -> Result<String> {
    let text = info.attributes().get(key).and_then(Value::as_text);
    let is_known = |text: &&str| {
        let (name, digits) = text.split_once(':').unwrap_or_default();
        let len = match name {
            "xxh3-128" => 32,
            "sha256" => 64,
            _ => 0,
        };
        digits.len() == len && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let text = text.filter(is_known);
    text.map(str::to_owned).ok_or_else(|| ATTRIBUTE.broken(format!("`{key}` is not a digest")))
}

/// Checks the roles and types of the components.
fn check_components(info: &TensorInfo, element_type: &DeltaType) -> Result<()> {
    let has = |name| info.component(&role(name)).is_some();
    match (has(GAPS), has(MASK)) {
        (true, false) | (false, true) => {}
        (true, true) => return Err(COMPONENTS.broken("both `gaps` and `mask` are present")),
        (false, false) => return Err(COMPONENTS.broken("neither `gaps` nor `mask` is present")),
    }
    let width = element_type.width() as usize;
    for name in PLANES.iter().take(width).copied().chain([STARTS]) {
        if !has(name) {
            return Err(COMPONENTS.broken(format!("missing component `{name}`")));
        }
    }
    let known = |c: &Component| {
        let name = c.role.as_str();
        [GAPS, MASK, STARTS].contains(&name) || PLANES.iter().take(width).any(|p| *p == name)
    };
    for c in info.components() {
        if !known(&c) {
            let name = c.role.as_str().escaped();
            return Err(COMPONENTS.broken(format!("the layout has no component `{name}`")));
        }
        let wanted = if c.role.as_str() == STARTS { DType::U64 } else { DType::U8 };
        if c.dtype != wanted || c.logical_type.is_some() {
            let message = format!("`{}` has the dtype {}, not {wanted}", c.role, c.dtype);
            return Err(COMPONENTS.broken(message));
        }
    }
    Ok(())
}

/// Checks that no element has all bits set in its planes, which would be the distance of equal elements.
pub(super) fn check_planes(planes: &[Bytes]) -> Result<()> {
    let Some((first, others)) = planes.split_first() else { return Ok(()) };
    let is_largest = |(at, byte): (usize, &u8)| {
        *byte == u8::MAX && others.iter().all(|plane| plane.get(at) == Some(&u8::MAX))
    };
    match first.iter().enumerate().any(is_largest) {
        true => Err(VALUE.broken("a changed element has all bits set in its planes")),
        false => Ok(()),
    }
}

/// Reads `starts`: for each block the offset in `gaps`, which is 0 with a mask, and the number of changed elements before it.
pub(super) fn read_starts(starts: &[u8], has_gaps: bool, count: u64) -> Result<Vec<(u64, u64)>> {
    let expected = starts_len(count, has_gaps);
    if starts.len() as u64 != expected {
        return Err(wrong_length(STARTS, expected, starts.len()));
    }
    let (words, _) = starts.as_chunks::<8>();
    let number = |word: &[u8; 8]| u64::from_le_bytes(*word);
    if !has_gaps {
        return Ok(words.iter().map(|before| (0, number(before))).collect());
    }
    let (pairs, _) = words.as_chunks::<2>();
    Ok(pairs.iter().map(|[offset, before]| (number(offset), number(before))).collect())
}

/// Returns the bytes of `starts`.
fn starts_len(count: u64, has_gaps: bool) -> u64 {
    let numbers = if has_gaps { 2u64 } else { 1 };
    count.div_ceil(BLOCK).saturating_mul(numbers).saturating_mul(8)
}

/// Checks that the bits of `mask` after the last of `count` elements are 0.
pub(super) fn check_spare_bits(mask: &[u8], count: u64) -> Result<()> {
    let used = (count % 8) as u32;
    match used > 0 && mask.last().is_some_and(|byte| byte.wrapping_shr(used) != 0) {
        true => Err(SPARE.broken("bits of `mask` after the last element are set")),
        false => Ok(()),
    }
}

pub(super) fn wrong_length(name: &str, expected: u64, found: usize) -> crate::Error {
    LENGTH.broken(format!("`{name}` has {found} bytes, not {expected}"))
}
