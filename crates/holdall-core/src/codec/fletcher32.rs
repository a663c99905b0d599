//! Fletcher-32: bytes followed by a 4-byte checksum.

use super::pipeline::{BROKEN, CHECKSUM, broken};
use super::{Codec, Collected, DecodedLen, StreamDecoder};
use crate::error::{Result, Rule};
use crate::limits::Limits;

/// The codec for bytes followed by a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fletcher32;

impl Codec for Fletcher32 {
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        DecodedLen::Exactly(stored_len.saturating_sub(4))
    }

    fn stream(&self, _: u64, limits: &Limits) -> Box<dyn StreamDecoder> {
        Collected::stream(limits, |stored, _| checked(stored).map(<[u8]>::to_vec))
    }

    fn decode_chunk(&self, stored: &[u8], _: usize, _: usize) -> Result<Vec<u8>> {
        checked(stored).map(<[u8]>::to_vec)
    }

    fn checksum(&self) -> Option<&'static str> {
        Some("fletcher32")
    }

    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    fn length_rule(&self) -> &'static Rule {
        &BROKEN
    }
}

/// Returns the bytes without their checksum, after comparing it.
fn checked(bytes: &[u8]) -> Result<&[u8]> {
    let Some((content, stored)) = bytes.split_last_chunk::<4>() else {
        return Err(broken("the chunk is too short for a checksum".to_owned()));
    };
    let (found, stored) = (fletcher32(content), u32::from_le_bytes(*stored));
    // HDF5 before 1.6.3 swapped the bytes of each half on big-endian machines.
    let swapped = ((found & 0x00ff_00ff) << 8) | ((found >> 8) & 0x00ff_00ff);
    match found == stored || swapped == stored {
        true => Ok(content),
        false => {
            Err(CHECKSUM.broken(format!("the checksum is {found:#010x}, expected {stored:#010x}")))
        }
    }
}

/// Returns Fletcher's checksum of 16-bit numbers, high byte first.
fn fletcher32(bytes: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut a, mut b) = (0u32, 0u32);
    let (pairs, odd) = bytes.as_chunks::<2>();
    for block in pairs.chunks(360) {
        for pair in block {
            a += u32::from(u16::from_be_bytes(*pair));
            b += a;
        }
        (a, b) = (fold(a), fold(b));
    }
    if let [last] = odd {
        a += u32::from(*last) << 8;
        b += a;
        (a, b) = (fold(a), fold(b));
    }
    (fold(b) << 16) | fold(a)
}
