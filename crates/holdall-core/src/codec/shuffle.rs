//! HDF5's filter `shuffle`: the first bytes of all elements, then all second bytes, and so on.

use super::pipeline::BROKEN;
use super::{Codec, Collected, DecodedLen, StreamDecoder};
use crate::error::{Result, Rule};
use crate::limits::Limits;

/// The codec that stores the bytes of elements by their position in the element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shuffle {
    /// Bytes of an element; `None` for the width of the component's elements.
    width: Option<u32>,
}

impl Shuffle {
    /// Shuffles the component's elements.
    pub const OF_ELEMENTS: Shuffle = Shuffle { width: None };

    /// Shuffles elements of `width` bytes.
    pub const fn new(width: u32) -> Shuffle {
        Shuffle { width: Some(width) }
    }
}

impl Codec for Shuffle {
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        DecodedLen::Exactly(stored_len)
    }

    fn stream(&self, width: u64, limits: &Limits) -> Box<dyn StreamDecoder> {
        let width = self.width.map_or(width, u64::from);
        let width = usize::try_from(width).unwrap_or(usize::MAX);
        Collected::stream(limits, move |stored, _| Ok(unshuffle(stored, width)))
    }

    fn decode_chunk(&self, stored: &[u8], _: usize, _: usize) -> Result<Vec<u8>> {
        Ok(unshuffle(stored, self.width.unwrap_or(1) as usize))
    }

    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    fn length_rule(&self) -> &'static Rule {
        &BROKEN
    }
}

/// Restores the elements. Trailing bytes that are not a whole element stay at the end.
fn unshuffle(bytes: &[u8], width: usize) -> Vec<u8> {
    let count = bytes.len() / width.max(1);
    if width <= 1 || count <= 1 {
        return bytes.to_vec();
    }
    let mut out = bytes.to_vec();
    for (plane, of_plane) in bytes.chunks_exact(count).take(width).enumerate() {
        for (to, from) in out[plane..].iter_mut().step_by(width).zip(of_plane) {
            *to = *from;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_after_the_last_element_are_unchanged() {
        assert_eq!(unshuffle(&[1, 3, 5, 2, 4, 6, 7], 2), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(unshuffle(&[1, 2, 3], 1), [1, 2, 3]);
    }
}
