//! Bytes with a CRC-32 that is kept elsewhere, such as the directory of a zip: checked, and otherwise left as they are.

use super::crc::Crc32;
use super::pipeline::BROKEN;
use super::{Codec, Collected, DecodedLen, StreamDecoder};
use crate::error::{Result, Rule};
use crate::limits::Limits;
use crate::model::Digest;
use crate::read::DIGEST;

/// Bytes that must have this CRC-32.
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
        match Crc32::of_zip(stored) {
            found if found == self.0 => Ok(stored.to_vec()),
            found => {
                let (found, said) = (Digest::Crc32(found), Digest::Crc32(self.0));
                Err(DIGEST.broken(format!("the decoded bytes have {found}, the file says {said}")))
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
