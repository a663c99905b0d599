//! How stored bytes become decoded bytes and back, always under [`Limits`].
//!
//! A [`Codec`] describes one way: how many bytes can come of how many, a decoder of pieces, and where there are some a quicker
//! decoder of whole components, a table of frames, an encoder and rules. The codecs that a file names without parameters are
//! in [`CODECS`], and an [`Encoding`] is a place in that list. Chunks of arrays go through several, each with its parameters: a
//! list of [`Step`](pipeline::Step)s. A codec with parameters is a value that formats make, and in no list.
//!
//! ```text
//! mod.rs        the list · Codec
//! encoding.rs   Encoding: raw, or a codec of the list
//! decode.rs     StreamDecoder (pieces) · BlockDecoder (at once) · Decoder (at once, of any encoding) · Collected (a stream of what decodes at once)
//! encode.rs     Encoder
//! seek.rs       frames, tables of them, and how long frames are
//! limits.rs     how much may be decoded
//! pipeline.rs   steps of chunks
//! the rest      a codec each
//! ```

pub mod columns;
pub mod crc;
mod decode;
pub mod deflate;
pub mod deflate_npy;
mod encode;
mod encoding;
pub mod fletcher32;
mod limits;
pub mod lzf;
pub mod mask;
pub mod members;
pub mod pipeline;
#[cfg(feature = "chunk-codecs")]
pub mod scale_offset;
mod seek;
pub mod shuffle;
pub mod summed;
pub mod zlib;
pub mod zstd;

pub use decode::{BlockDecoder, Checksums, Collected, Decoder, StreamDecoder, decode_stream};
pub use encode::{Encoder, NewEncoder};
pub use encoding::{CodecId, Encoding};
pub use limits::{DECODED_LEN, check_decoded_len, most_decoded};
pub use seek::{FRAME_LEN, Frame, SINGLE_FRAME_MAX, SeekFormat, SeekTable, frame_lens};

use crate::error::{Result, Rule};
use crate::limits::Limits;
use std::fmt;
use std::ops::RangeInclusive;

/// The codecs that files name without parameters, each with the name that files, commands and reports use. A position is part
/// of an [`Encoding`] in memory only: lines may be in any order.
pub static CODECS: &[(&str, &dyn Codec)] = &[
    ("zstd", &zstd::Zstd),
    ("deflate", &deflate::Deflate),
    ("deflate_npy", &deflate_npy::DeflateNpy),
    ("zlib", &zlib::Zlib),
    #[cfg(feature = "chunk-codecs")]
    ("lzf", &lzf::Lzf),
    #[cfg(feature = "chunk-codecs")]
    ("shuffle", &shuffle::Shuffle::OF_ELEMENTS),
    #[cfg(feature = "chunk-codecs")]
    ("fletcher32", &fletcher32::Fletcher32),
];

/// One way to store bytes.
pub trait Codec: fmt::Debug + Send + Sync {
    /// Returns how many bytes `stored_len` stored bytes decode to, or the most that they can: the expansion in the worst case.
    fn decoded_len(&self, stored_len: u64) -> DecodedLen;

    /// Returns a decoder of one component, or of one frame, that is given stored bytes piece by piece. Elements have `width`
    /// bytes each; 1 if the bytes are no elements.
    fn stream(&self, width: u64, limits: &Limits) -> Box<dyn StreamDecoder>;

    /// Returns a decoder of whole components and frames that is used again and again, for a codec that has a quicker one than
    /// a new stream for each.
    fn block(&self, _limits: &Limits) -> Option<Box<dyn BlockDecoder>> {
        None
    }

    /// Decodes all of `stored`, one step of a chunk, to about `likely` bytes and at most `most`.
    ///
    /// # Errors
    /// [`pipeline::RULES`].
    fn decode_chunk(&self, stored: &[u8], likely: usize, most: usize) -> Result<Vec<u8>> {
        pipeline::decode_streamed(self.stream(1, &Limits::default()), stored, likely, most)
    }

    /// Returns how many bytes this step of a chunk made of what became `decoded_len` bytes again, as far as that follows from
    /// its parameters.
    fn chunk_len_before(&self, decoded_len: u64) -> u64 {
        decoded_len
    }

    /// Returns `true` if it describes how elements lie, so that it applies to chunks that are otherwise stored as they are.
    fn describes_elements(&self) -> bool {
        false
    }

    /// The name of the checksum that it compares in decoding, as reports have it; `None` if it compares none.
    fn checksum(&self) -> Option<&'static str> {
        None
    }

    /// The form of its tables of frames, for a codec whose components can be decoded from the start of any frame. Several
    /// frames, one after the other, are a component.
    fn seek_format(&self) -> Option<&dyn SeekFormat> {
        None
    }

    /// Returns a new encoder, for a codec in which components are written.
    fn encoder(&self) -> Option<NewEncoder> {
        None
    }

    /// The levels of its encoder that are offered to people; `None` if it has none.
    fn levels(&self) -> Option<Levels> {
        None
    }

    /// The rule that stored bytes are what the codec makes, and complete.
    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    /// The rule that a component decodes to the length that is declared.
    fn length_rule(&self) -> &'static Rule {
        &LENGTH
    }

    /// The rules that are its own.
    fn rules(&self) -> &'static [&'static Rule] {
        &[]
    }
}

/// Levels of an encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    /// From the fastest to the one that makes the fewest bytes.
    pub range: RangeInclusive<i32>,
    /// The level where none is asked for.
    pub default: i32,
}

/// How many bytes stored bytes decode to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodedLen {
    /// So many.
    Exactly(u64),
    /// So many or fewer.
    AtMost(u64),
}

impl DecodedLen {
    /// The largest length.
    pub const fn most(self) -> u64 {
        match self {
            DecodedLen::Exactly(len) | DecodedLen::AtMost(len) => len,
        }
    }
}

crate::error::rules! {
    /// The rules of this module.
    pub static OWN_RULES;

    /// A build that left out what decodes this.
    pub NOT_BUILT: Unsupported "codec/not-built"
        "Compressed data is read and written only by a build with the features `zstd` and `deflate`, which the formats that compress bring."
        hint "build it with the feature of a format that compresses, or use the command or the Python package, which have all";
    /// The stored bytes of a codec without rules of its own are not what it makes.
    pub BROKEN: Malformed "codec/broken"
        "The stored bytes of a component are complete, and in the form of its encoding.";
    /// The same of their decoded length.
    pub LENGTH: Malformed "codec/length"
        "A component decodes to exactly the length that the file or the shape declares.";
}

/// Every rule of codecs and of what they share.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let own = CODECS.iter().map(|(_, codec)| codec.rules());
    [OWN_RULES, limits::RULES, pipeline::RULES].into_iter().chain(own).flatten().copied()
}
