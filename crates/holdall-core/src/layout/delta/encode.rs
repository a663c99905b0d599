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

/// Returns the delta from `base` to `target`, the little-endian elements of two tensors of this type and the same shape.
/// Returns `None` if they are equal, or have different lengths.
pub fn encode(element_type: &DeltaType, base: &[u8], target: &[u8]) -> Option<Encoded> {
    if base.len() != target.len() {
        return None;
    }
    match element_type.width() {
        1 => encode_words::<u8>(element_type, base, target),
        2 => encode_words::<u16>(element_type, base, target),
        4 => encode_words::<u32>(element_type, base, target),
        8 => encode_words::<u64>(element_type, base, target),
        _ => None,
    }
}

fn encode_words<W: Word>(element_type: &DeltaType, base: &[u8], target: &[u8]) -> Option<Encoded> {
    let count = base.len() / W::WIDTH;
    let pairs = || base.chunks_exact(W::WIDTH).zip(target.chunks_exact(W::WIDTH));
    let changed = pairs().filter(|(a, b)| a != b).count();
    if changed == 0 {
        return None;
    }
    let is_float = element_type.is_float();
    let as_gaps = changed < count / 16;
    let mut planes = vec![Vec::with_capacity(changed); W::WIDTH];
    let (mut gaps, mut starts) = (Vec::new(), Vec::new());
    let mut mask = vec![0u8; if as_gaps { 0 } else { count.div_ceil(8) }];
    let mut before = 0u64;
    let mut gap = 0usize;
    for (at, (a, b)) in pairs().enumerate() {
        if (at as u64).is_multiple_of(BLOCK) {
            if as_gaps {
                starts.extend_from_slice(&(gaps.len() as u64).to_le_bytes());
            }
            starts.extend_from_slice(&before.to_le_bytes());
            gap = 0;
        }
        if a == b {
            gap = gap.saturating_add(1);
            continue;
        }
        if as_gaps {
            while gap >= usize::from(MORE) {
                gaps.push(MORE);
                gap = gap.saturating_sub(usize::from(MORE));
            }
            // Less than 255.
            gaps.push(u8::try_from(gap).unwrap_or(MORE));
        } else if let Some(byte) = mask.get_mut(at / 8) {
            *byte |= 1 << (at % 8);
        }
        gap = 0;
        before = before.saturating_add(1);
        let (a, b) = (W::read(a), W::read(b));
        let distance = match is_float {
            true => b.rank().distance(a.rank()),
            false => b.distance(a),
        };
        planes.iter_mut().enumerate().for_each(|(k, plane)| plane.push(distance.byte(k)));
    }
    let positions = match as_gaps {
        true => (role(GAPS), gaps),
        false => (role(MASK), mask),
    };
    let mut components = vec![positions, (role(STARTS), starts)];
    components.extend(PLANES.iter().zip(planes).map(|(name, plane)| (role(name), plane)));
    Some(Encoded { changed: changed as u64, components })
}
