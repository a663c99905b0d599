//! Bytes whose CRC-32 is stored elsewhere, such as in the directory of a zip: it is compared, and the bytes are
//! unchanged.

use super::crc::Crc32;
use super::pipeline::BROKEN;
use super::{Codec, Collected, DecodedLen, StreamDecoder};
use crate::error::{Result, Rule};
use crate::limits::Limits;
use crate::model::Digest;
use crate::read::DIGEST;

/// The codec for bytes that must have this CRC-32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc32Checked(pub u32);

impl Codec for Crc32Checked {
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        DecodedLen::Exactly(stored_len)
    }

    fn stream(&self, _: u64, limits: &Limits) -> Box<dyn StreamDecoder> {
        let own = *self;
        Collected::stream(limits, move |bytes, _| own.decode_chunk(bytes, 0, 0))
    }

    fn decode_chunk(&self, stored: &[u8], _: usize, _: usize) -> Result<Vec<u8>> {
        match Crc32::zip_crc32(stored) {
            found if found == self.0 => Ok(stored.to_vec()),
            found => {
                let (found, expected) = (Digest::Crc32(found), Digest::Crc32(self.0));
                Err(DIGEST.broken(format!(
                    "the digest of the decoded bytes is {found}, expected {expected}"
                )))
            }
        }
    }

    fn checksum(&self) -> Option<&'static str> {
        Some("crc32")
    }

    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    fn length_rule(&self) -> &'static Rule {
        &BROKEN
    }
}
