//! zstd under a limit, and its seekable format: independent frames, followed by a seek table in a skippable frame,
//! which other decoders skip.
//!
//! Seek table (all integers little-endian), the last bytes of a component:
//!
//! ```text
//! 0x184D2A5E u32 | length of the rest u32
//! per frame:       stored length u32 | decoded length u32 [| checksum u32]
//! frames u32     | descriptor u8 (bit 7: checksums are present) | 0x8F92EAB1 u32
//! ```
//!
//! [`read_table`] accepts a table only if its frames cover exactly the stored bytes and the decoded length, and
//! [`Decoder::decode_into`] accepts a frame only if it decodes to exactly its range. Decoding all frames this way gives
//! the same bytes as decoding from the start; for a range of frames this holds if the table is right about the frames
//! before it.

#[cfg(feature = "zstd")]
mod frames;
mod table;
#[cfg(not(feature = "zstd"))]
mod unbuilt;

#[cfg(feature = "zstd")]
pub use frames::{Decoder, Encoder, Stream};
pub use table::{FOOTER_LEN, read_table, seek_table, table_len};
#[cfg(not(feature = "zstd"))]
pub use unbuilt::{Decoder, Encoder, Stream};

use super::{
    BlockDecoder, Checksums, Codec, DecodedLen, Encoding, Levels, NewEncoder, SeekFormat,
    StreamDecoder,
};
use crate::error::{Result, Rule};
use crate::limits::Limits;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The stored bytes are not zstd, or end inside a frame.
    pub BROKEN: Malformed "zstd/broken" "A zstd component consists of one or more complete frames.";
    /// The decoded length differs from the declared one.
    pub LENGTH: Malformed "zstd/length"
        "A zstd component decodes to exactly the length that the file or the shape declares.";
    /// A frame requires a larger window than the limit allows.
    pub WINDOW: Limit "zstd/window"
        "A zstd frame needs a window of at most `Limits::zstd_window_log` bits."
        remedies [RaiseLimit { limit: "zstd_window_log", at_least: None }];
    /// The library refused to compress.
    pub ENCODE: Misuse "zstd/encode" "The compression level is one that zstd has.";
}

/// zstd's own default level.
const DEFAULT_LEVEL: i32 = 3;

/// The codec for frames of zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zstd;

impl Encoding {
    /// One or more frames of zstd.
    pub const ZSTD: Encoding = Encoding::from_known_name("zstd");
}

impl Codec for Zstd {
    /// A run-length block encodes 128 KiB in 4 bytes.
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        DecodedLen::AtMost(stored_len.saturating_mul(32 * 1024))
    }

    fn stream(&self, _: u64, limits: &Limits) -> Box<dyn StreamDecoder> {
        Box::new(Stream::new(limits))
    }

    fn block(&self, limits: &Limits) -> Option<Box<dyn BlockDecoder>> {
        Some(Box::new(Decoder::new(limits)))
    }

    fn seek_format(&self) -> Option<&dyn SeekFormat> {
        Some(&table::SkippableTable)
    }

    fn encoder(&self) -> Option<NewEncoder> {
        // A build that only decodes is a third smaller without the compressor.
        #[cfg(feature = "compress")]
        return Some(|level| Ok(Box::new(Encoder::new(level.unwrap_or(DEFAULT_LEVEL))?)));
        #[cfg(not(feature = "compress"))]
        Some(|_| Err(super::NOT_BUILT.broken("this build does not compress")))
    }

    fn levels(&self) -> Option<Levels> {
        Some(Levels { range: 1..=22, default: DEFAULT_LEVEL })
    }

    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    fn length_rule(&self) -> &'static Rule {
        &LENGTH
    }

    fn rules(&self) -> &'static [&'static Rule] {
        RULES
    }
}

impl StreamDecoder for Stream {
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
        Stream::decode(self, input, out)
    }

    fn end(&self) -> Result<()> {
        match self.is_whole() {
            true => Ok(()),
            false => Err(BROKEN.broken("the stored bytes end inside a zstd frame")),
        }
    }
}

impl BlockDecoder for Decoder {
    fn decode_into(&mut self, _: u64, stored: &[u8], out: &mut [u8]) -> Result<()> {
        Decoder::decode_into(self, stored, out)
    }

    fn set_checksums(&mut self, checksums: Checksums) {
        Decoder::set_checksums(self, checksums);
    }
}

impl super::Encoder for Encoder {
    fn encode(&mut self, _: u64, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.frame(bytes, out)
    }
}
