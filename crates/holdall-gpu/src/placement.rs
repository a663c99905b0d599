//! Placement of components: the buffers to create, and the byte ranges of each component. Nothing here accesses a
//! device.

use crate::rules::LIMITS;
use holdall::Result;

/// How tensors are distributed over buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Many tensors per buffer, in buffers of up to this many bytes, so that a model of a thousand tensors needs only a
    /// few buffers. Each component starts at an offset that a binding may have.
    Arena(u64),
    /// One buffer per component.
    Each,
}

impl Default for Placement {
    /// Returns buffers of up to 256 MiB for several tensors.
    fn default() -> Placement {
        Placement::Arena(256 << 20)
    }
}

/// The device's limits for buffers and bindings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// The maximum length of a page in bytes: a multiple of `align`.
    page: u64,
    /// The alignment of offsets of bindings.
    align: u64,
}

impl Sizes {
    pub(crate) fn from_limits(limits: &wgpu::Limits) -> Result<Sizes> {
        let align = u64::from(limits.min_storage_buffer_offset_alignment).max(256);
        let most = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        match most / align * align {
            0 => Err(LIMITS.broken(format!("the device allows only {most} bytes"))),
            page => Ok(Sizes { page, align }),
        }
    }
}

/// Bytes of a component in one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) buffer: usize,
    pub(crate) offset: u64,
    /// Bytes of the component; the space in the buffer is rounded up to a multiple of 4.
    pub(crate) len: u64,
}

/// The placement of all components.
#[derive(Debug, Default)]
pub(crate) struct Allocation {
    /// The length of each buffer.
    pub(crate) buffers: Vec<u64>,
    /// The pages of each component, in the order of its bytes.
    pub(crate) spots: Vec<Vec<Spot>>,
}

/// Places components of these lengths. All pages of a component but the last have the maximum length, so that a shader
/// finds the page of a byte by a division.
pub(crate) fn allocate(lens: &[u64], placement: Placement, sizes: Sizes) -> Allocation {
    let room = match placement {
        Placement::Arena(room) => room.min(sizes.page),
        Placement::Each => 0,
    };
    let mut allocation = Allocation::default();
    // The last arena buffer, which may have space left.
    let mut open: Option<usize> = None;
    for len in lens {
        let taken = len.next_multiple_of(4);
        let mut spots = Vec::new();
        if taken > 0 && taken <= room {
            let fits = |at: usize| {
                let offset = allocation.buffers[at].next_multiple_of(sizes.align);
                (offset + taken <= room).then_some((at, offset))
            };
            let (buffer, offset) = open.and_then(fits).unwrap_or((allocation.buffers.len(), 0));
            if buffer == allocation.buffers.len() {
                allocation.buffers.push(0);
            }
            open = Some(buffer);
            allocation.buffers[buffer] = offset + taken;
            spots.push(Spot { buffer, offset, len: *len });
        } else {
            let mut left = *len;
            while left > 0 {
                let len = left.min(sizes.page);
                spots.push(Spot { buffer: allocation.buffers.len(), offset: 0, len });
                allocation.buffers.push(len.next_multiple_of(4));
                left -= len;
            }
        }
        allocation.spots.push(spots);
    }
    allocation
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Sizes = Sizes { page: 1024, align: 256 };

    #[test]
    fn small_components_share_a_buffer_and_start_where_bindings_may() {
        let allocation = allocate(&[5, 0, 300, 500, 100], Placement::Arena(1024), SMALL);
        let spot = |buffer, offset, len| vec![Spot { buffer, offset, len }];
        assert_eq!(
            allocation.spots,
            [spot(0, 0, 5), vec![], spot(0, 256, 300), spot(1, 0, 500), spot(1, 512, 100)]
        );
        assert_eq!(allocation.buffers, [556, 612]);
    }

    #[test]
    fn long_components_are_split_into_whole_pages() {
        let allocation = allocate(&[2500, 8], Placement::Arena(u64::MAX), SMALL);
        let lens: Vec<u64> = allocation.spots[0].iter().map(|s| s.len).collect();
        assert_eq!(lens, [1024, 1024, 452]);
        assert_eq!(allocation.buffers, [1024, 1024, 452, 8]);
        assert!(allocation.spots.iter().flatten().all(|s| s.offset == 0));
    }

    #[test]
    fn each_has_its_own_buffer_where_that_is_asked_for() {
        let allocation = allocate(&[1, 2, 3], Placement::Each, SMALL);
        assert_eq!(allocation.buffers, [4, 4, 4]);
    }

    #[test]
    fn no_two_components_share_a_byte_whatever_their_lengths() {
        for seed in 0..200u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let lens: Vec<u64> = (0..20)
                .map(|_| {
                    state =
                        state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 33) % 1500
                })
                .collect();
            let allocation = allocate(&lens, Placement::Arena(900), SMALL);
            let mut taken: Vec<Vec<(u64, u64)>> = vec![Vec::new(); allocation.buffers.len()];
            for (len, spots) in lens.iter().zip(&allocation.spots) {
                assert_eq!(spots.iter().map(|s| s.len).sum::<u64>(), *len);
                for s in spots {
                    assert_eq!(s.offset % 256, 0);
                    taken[s.buffer].push((s.offset, s.offset + s.len.next_multiple_of(4)));
                }
            }
            for (ranges, len) in taken.iter_mut().zip(&allocation.buffers) {
                ranges.sort();
                assert!(ranges.windows(2).all(|w| w[0].1 <= w[1].0));
                assert!(ranges.iter().all(|r| r.1 <= *len));
            }
        }
    }
}
