//! HDF5's filter `scaleoffset`: numbers are stored as their distance from a chunk's minimum, in as few bits as
//! possible; floats as this distance in steps of a power of ten.
//!
//! ```text
//! u32 bits of a number · u8: 8 · u64 the minimum, as its bits · 8 bytes · numbers, one after the other, their highest
//! bits first
//! ```
//! Numbers that need all of their bits are stored unchanged. Otherwise the largest number that fits represents the fill
//! value, if there is one.

use super::pipeline::BROKEN;
use super::{Codec, Collected, DecodedLen, StreamDecoder};
use crate::error::{Error, Result, Rule};
use crate::limits::Limits;

/// Bytes before the numbers.
const HEADER: usize = 21;

/// The codec, with the parameters of the filter in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleOffset {
    /// The number of elements in a chunk.
    count: u64,
    /// Bytes of a number.
    size: usize,
    /// The power of ten of a float's steps; `None` for integers.
    digits: Option<i32>,
    /// The bits of the fill value.
    fill: Option<u64>,
    is_big: bool,
}

impl ScaleOffset {
    /// Creates the codec from the filter's parameters, or returns `None` if they are not supported.
    pub fn new(values: &[u32]) -> Option<ScaleOffset> {
        let &[kind, factor, count, class, size, _, order, has_fill, ref fill @ ..] = values else {
            return None;
        };
        let digits = match (kind, class) {
            (0, 1) if matches!(size, 4 | 8) => Some(factor.cast_signed()),
            (2, 0) if matches!(size, 1 | 2 | 4 | 8) => None,
            _ => return None,
        };
        let part = |at: usize| u64::from(fill.get(at).copied().unwrap_or(0));
        let size = size as usize;
        let fill = (has_fill == 1).then(|| (part(0) | part(1) << 32) & low_bits(8 * size));
        Some(ScaleOffset { count: count.into(), size, digits, fill, is_big: order == 1 })
    }

    /// Returns the bytes of a chunk.
    fn len(&self) -> u64 {
        self.count.saturating_mul(self.size as u64)
    }

    /// Decodes the numbers of a chunk, which has at most `most` bytes.
    fn decode(&self, stored: &[u8], most: usize) -> Result<Vec<u8>> {
        let len = usize::try_from(self.len()).ok().filter(|len| *len <= most);
        let len = len.ok_or_else(|| broken("the filter states more numbers than a chunk has"))?;
        let cut = || broken("the stored bytes end before the numbers");
        let (header, packed) = stored.split_at_checked(HEADER).ok_or_else(cut)?;
        let (bits, rest) = header.split_first_chunk::<4>().ok_or_else(cut)?;
        let least = rest.get(1..).and_then(|rest| rest.first_chunk::<8>()).ok_or_else(cut)?;
        let (bits, least) = (u32::from_le_bytes(*bits) as usize, u64::from_le_bytes(*least));
        let whole = 8 * self.size;
        if bits > whole || rest.first() != Some(&8) {
            return Err(broken("unknown header of the filter `scaleoffset`"));
        }
        let wanted = self.count.saturating_mul(bits as u64).div_ceil(8);
        if (packed.len() as u64) < wanted {
            return Err(cut());
        }
        // Parsed from text, which is rounded correctly, unlike powers of floats.
        let step = self.digits.map(|digits| format!("1e{digits}").parse().unwrap_or(1.0));
        let mut out = Vec::with_capacity(len);
        let mut at = 0;
        for number in 0..len / self.size {
            let found = match bits == whole {
                true => little(&packed[number * self.size..][..self.size]),
                false => {
                    let packed = taken(packed, at, bits);
                    at += bits;
                    match self.fill {
                        Some(fill) if packed == low_bits(bits) => fill,
                        _ => self.number(packed, least, step),
                    }
                }
            };
            let bytes = found.to_le_bytes();
            let start = out.len();
            out.extend_from_slice(&bytes[..self.size]);
            if self.is_big {
                out[start..].reverse();
            }
        }
        Ok(out)
    }

    /// Returns the bits of the number at this distance from the minimum. `steps` is the number of steps per 1, for
    /// floats.
    fn number(&self, distance: u64, least: u64, steps: Option<f64>) -> u64 {
        let Some(step) = steps else { return distance.wrapping_add(least) };
        match self.size {
            4 => {
                let least = f32::from_bits(least as u32);
                (distance as u32 as f32 / step as f32 + least).to_bits().into()
            }
            _ => (distance as f64 / step + f64::from_bits(least)).to_bits(),
        }
    }
}

impl Codec for ScaleOffset {
    /// The length is checked against the limits: numbers may take no bits at all.
    fn decoded_len(&self, _: u64) -> DecodedLen {
        DecodedLen::AtMost(self.len())
    }

    fn stream(&self, _: u64, limits: &Limits) -> Box<dyn StreamDecoder> {
        let own = self.clone();
        Collected::stream(limits, move |stored, most| own.decode(stored, most))
    }

    fn decode_chunk(&self, stored: &[u8], _: usize, most: usize) -> Result<Vec<u8>> {
        self.decode(stored, most)
    }

    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    fn length_rule(&self) -> &'static Rule {
        &BROKEN
    }
}

/// Returns a number of `bits` bits, starting at bit `at`, counted from the highest bit of the first byte.
fn taken(packed: &[u8], at: usize, bits: usize) -> u64 {
    let mut out = 0u128;
    let (first, end) = (at / 8, (at + bits).div_ceil(8));
    for byte in &packed[first..end] {
        out = out << 8 | u128::from(*byte);
    }
    (out >> (8 * end - at - bits)) as u64 & low_bits(bits)
}

/// Returns a number whose lowest `bits` bits are set.
fn low_bits(bits: usize) -> u64 {
    1u64.checked_shl(bits as u32).unwrap_or(0).wrapping_sub(1)
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

#[cold]
fn broken(message: &'static str) -> Error {
    BROKEN.broken(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_parameters_are_refused() {
        let filter = ScaleOffset::new(&[2, 0, 4, 0, 2, 1, 1, 1, 9]).unwrap();
        // -1 and three bits each: 0, 5, the fill value, 2.
        let mut stored =
            [&[3, 0, 0, 0, 8][..], &[0xff; 8], &[0; 8], &[0b0001_0111, 0b1010_0000]].concat();
        assert_eq!(filter.decode(&stored, 8).unwrap(), [0xff, 0xff, 0, 4, 0, 9, 0, 1]);
        assert!(filter.decode(&stored, 7).is_err());
        assert!(filter.decode(&stored[..22], 8).is_err());
        assert!(filter.decode(&stored[..9], 8).is_err());
        stored[0] = 17;
        assert!(filter.decode(&stored, 8).is_err());
        for values in
            [&[2, 0, 4, 0, 2, 1, 1][..], &[1, 0, 4, 1, 4, 1, 0, 0], &[2, 0, 4, 0, 3, 1, 0, 0]]
        {
            assert_eq!(ScaleOffset::new(values), None);
        }
    }
}
