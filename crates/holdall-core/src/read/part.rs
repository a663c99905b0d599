//! Parts that are decoded alone.

use crate::codec::crc::Crc32;
use crate::codec::{Checksums, Decoder};
use crate::error::Result;
use crate::limits::Limits;
use crate::read::Want;
use crate::read::sums::check_decoded;

/// Decodes parts that need nothing but their own bytes; keeps its tables from one to the next.
pub struct PartDecoder {
    decoder: Decoder,
    checksums: Checksums,
}

impl PartDecoder {
    /// A decoder that holds what it decodes to `limits`.
    pub fn new(limits: &Limits) -> PartDecoder {
        PartDecoder { decoder: Decoder::new(limits), checksums: Checksums::Compare }
    }

    /// Whether frames are compared with their codec's own checksums: not where a digest of the stored bytes vouches
    /// for them.
    pub fn set_checksums(&mut self, checksums: Checksums) {
        if self.checksums != checksums {
            self.checksums = checksums;
            self.decoder.set_checksums(checksums);
        }
    }

    /// Decodes all bytes of a [`Part`](crate::read::Part) of `want` into `out`, which is exactly as long as it
    /// says: elements in row-major order, little-endian.
    ///
    /// # Errors
    /// What the encoding finds wrong; another CRC-32 than the file gives for what is decoded.
    pub fn decode(&mut self, want: &Want, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let c = &want.component;
        self.decoder.decode_into(c.encoding, c.dtype.width(), stored, out)?;
        // Of a frame the file has none.
        if c.decoded_crc().is_some() && c.decoded_len == Some(out.len() as u64) {
            check_decoded(c, Crc32::of_zip(out))?;
        }
        c.turn(out);
        Ok(())
    }
}
