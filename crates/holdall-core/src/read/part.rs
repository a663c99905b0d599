//! Decoding parts independently.

use crate::codec::crc::Crc32;
use crate::codec::{Checksums, Decoder};
use crate::error::Result;
use crate::limits::Limits;
use crate::read::Want;
use crate::read::digests::check_decoded;

/// Decodes parts that need only their own bytes. It reuses its tables between parts.
pub struct PartDecoder {
    decoder: Decoder,
    checksums: Checksums,
}

impl PartDecoder {
    /// Creates a decoder that limits decoded lengths.
    pub fn new(limits: &Limits) -> PartDecoder {
        PartDecoder { decoder: Decoder::new(limits), checksums: Checksums::Compare }
    }

    /// Sets whether frames are compared with their codec's own checksums; not needed if a digest of the stored bytes
    /// covers them.
    pub fn set_checksums(&mut self, checksums: Checksums) {
        if self.checksums != checksums {
            self.checksums = checksums;
            self.decoder.set_checksums(checksums);
        }
    }

    /// Decodes all bytes of a [`FetchPart`](crate::read::FetchPart) of `want` into `out`, whose length must be the
    /// part's decoded length: elements in row-major order, little-endian.
    ///
    /// # Errors
    /// Returns an error if the encoding is invalid, or if the decoded bytes differ from the CRC-32 in the file.
    pub fn decode(&mut self, want: &Want, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let c = &want.component;
        self.decoder.decode_into(c.encoding, c.dtype.width(), stored, out)?;
        // The CRC-32 is over the whole component, not over single frames.
        if c.decoded_crc().is_some() && c.decoded_len == Some(out.len() as u64) {
            check_decoded(c, Crc32::zip_crc32(out))?;
        }
        c.make_little_endian(out);
        Ok(())
    }
}
