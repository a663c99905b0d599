//! Making deltas.

use super::rank::Word;
use super::{BLOCK, DeltaType, GAPS, MASK, MORE, PLANES, STARTS, role};
use crate::model::Role;

/// The components of a delta, as little-endian bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded {
    /// The number of changed elements.
    pub changed: u64,
    /// The components by role, in the order of the layout.
    pub components: Vec<(Role, Vec<u8>)>,
}

impl Encoded {
    /// Returns the bytes of all components.
    pub fn len(&self) -> usize {
        self.components.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Returns `true` if there are no components.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the number of elements of `width` bytes that differ.
pub fn count_changed(width: u64, base: &[u8], target: &[u8]) -> u64 {
    fn count<const N: usize>(base: &[u8], target: &[u8]) -> u64 {
        let (base, target) = (base.as_chunks::<N>().0, target.as_chunks::<N>().0);
        base.iter().zip(target).filter(|(a, b)| a != b).count() as u64
    }
    match width {
        1 => count::<1>(base, target),
        2 => count::<2>(base, target),
        4 => count::<4>(base, target),
        _ => count::<8>(base, target),
    }
}

/// Returns the delta from `base` to `target`, the little-endian elements of two tensors of this type and the same shape.
/// Returns `None` if they are equal, or have different lengths.
pub fn encode(element_type: &DeltaType, base: &[u8], target: &[u8]) -> Option<Encoded> {
    if base.len() != target.len() {
        return None;
    }
    let width = element_type.width();
    let count = (base.len() as u64).checked_div(width)?;
    let changed = count_changed(width, base, target);
    if changed == 0 {
        return None;
    }
    let mut encoder = DeltaEncoder::new(element_type, count, changed);
    encoder.push(base, target);
    Some(encoder.finish())
}

/// Makes a delta from the elements of two tensors, in pieces. Memory is that of the delta.
#[derive(Debug)]
pub struct DeltaEncoder {
    width: u64,
    is_float: bool,
    /// The positions are gaps, and not a mask.
    as_gaps: bool,
    gaps: Vec<u8>,
    mask: Vec<u8>,
    starts: Vec<u8>,
    planes: Vec<Vec<u8>>,
    /// The index of the next element.
    at: usize,
    /// The number of changed elements before it.
    before: u64,
    /// The number of unchanged elements before it, in its block.
    gap: usize,
}

impl DeltaEncoder {
    /// Creates the encoder for tensors of `count` elements, of which `changed` differ.
    pub fn new(element_type: &DeltaType, count: u64, changed: u64) -> DeltaEncoder {
        let as_gaps = changed < count / 16;
        let mask = if as_gaps { 0 } else { count.div_ceil(8) };
        let len = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        DeltaEncoder {
            width: element_type.width(),
            is_float: element_type.is_float(),
            as_gaps,
            gaps: Vec::new(),
            mask: vec![0; len(mask)],
            starts: Vec::new(),
            planes: vec![Vec::with_capacity(len(changed)); len(element_type.width())],
            at: 0,
            before: 0,
            gap: 0,
        }
    }

    /// Adds the next elements of both tensors: as many of one as of the other, whole ones.
    pub fn push(&mut self, base: &[u8], target: &[u8]) {
        match self.width {
            1 => self.push_words::<u8>(base, target),
            2 => self.push_words::<u16>(base, target),
            4 => self.push_words::<u32>(base, target),
            _ => self.push_words::<u64>(base, target),
        }
    }

    fn push_words<W: Word>(&mut self, base: &[u8], target: &[u8]) {
        for (a, b) in base.chunks_exact(W::WIDTH).zip(target.chunks_exact(W::WIDTH)) {
            if (self.at as u64).is_multiple_of(BLOCK) {
                if self.as_gaps {
                    self.starts.extend_from_slice(&(self.gaps.len() as u64).to_le_bytes());
                }
                self.starts.extend_from_slice(&self.before.to_le_bytes());
                self.gap = 0;
            }
            let at = self.at;
            self.at = at.saturating_add(1);
            if a == b {
                self.gap = self.gap.saturating_add(1);
                continue;
            }
            self.add_position(at);
            self.before = self.before.saturating_add(1);
            let (a, b) = (W::read(a), W::read(b));
            let distance = match self.is_float {
                true => b.rank().distance(a.rank()),
                false => b.distance(a),
            };
            let planes = self.planes.iter_mut().enumerate();
            planes.for_each(|(k, plane)| plane.push(distance.byte(k)));
        }
    }

    fn add_position(&mut self, at: usize) {
        if self.as_gaps {
            while self.gap >= usize::from(MORE) {
                self.gaps.push(MORE);
                self.gap = self.gap.saturating_sub(usize::from(MORE));
            }
            // Less than 255.
            self.gaps.push(u8::try_from(self.gap).unwrap_or(MORE));
        } else if let Some(byte) = self.mask.get_mut(at / 8) {
            *byte |= 1 << (at % 8);
        }
        self.gap = 0;
    }

    /// Returns the delta.
    pub fn finish(self) -> Encoded {
        let positions = match self.as_gaps {
            true => (role(GAPS), self.gaps),
            false => (role(MASK), self.mask),
        };
        let mut components = vec![positions, (role(STARTS), self.starts)];
        let planes = PLANES.iter().zip(self.planes);
        components.extend(planes.map(|(name, plane)| (role(name), plane)));
        Encoded { changed: self.before, components }
    }
}
