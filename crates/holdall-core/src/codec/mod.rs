//! Codecs: decoding stored bytes and encoding them, always under [`Limits`].
//!
//! A [`Codec`] describes one encoding: the maximum decoded length, a stream decoder and, optionally, a faster decoder
//! of whole components, a seek table, an encoder and rules. [`CODECS`] lists the codecs that files name without
//! parameters, and an [`Encoding`] is an index in that list. Chunks of arrays can use several codecs, each with its
//! parameters: a list of [`Step`](pipeline::Step)s. A codec with parameters is a value that formats create, and is not
//! in the list.
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

pub mod checksums;
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
pub mod zlib;
pub mod zstd;

pub use decode::{BlockDecoder, Checksums, Collected, Decoder, StreamDecoder, decode_stream};
pub use encode::{Encoder, NewEncoder};
pub use encoding::{CodecId, Encoding};
pub use limits::{DECODED_LEN, check_decoded_len, max_decoded_len};
pub use seek::{
    FRAME_LEN, Frame, PLANE_FRAME_LEN, SINGLE_FRAME_MAX, SeekFormat, SeekTable, frame_lens,
};

use crate::error::{Result, Rule};
use crate::limits::Limits;
use std::fmt;
use std::ops::RangeInclusive;

/// The codecs that files name without parameters, each with its name in files, commands and reports. A position in the
/// list is only used in memory, in an [`Encoding`], so the order can be changed.
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

/// A way to encode bytes.
pub trait Codec: fmt::Debug + Send + Sync {
    /// Returns the decoded length of `stored_len` stored bytes, or its maximum.
    fn decoded_len(&self, stored_len: u64) -> DecodedLen;

    /// Returns a stream decoder for one component or one frame. Elements have `width` bytes each; 1 if the bytes are no
    /// elements.
    fn stream(&self, width: u64, limits: &Limits) -> Box<dyn StreamDecoder>;

    /// Returns a reusable decoder of whole components and frames, if the codec has one that is faster than a new stream
    /// for each.
    fn block(&self, _limits: &Limits) -> Option<Box<dyn BlockDecoder>> {
        None
    }

    /// Decodes all of `stored`, as one step of a chunk, to about `likely` bytes and at most `most`.
    ///
    /// # Errors
    /// Returns an error of [`pipeline::RULES`] if the stored bytes are malformed.
    fn decode_chunk(&self, stored: &[u8], likely: usize, most: usize) -> Result<Vec<u8>> {
        pipeline::decode_streamed(self.stream(1, &Limits::default()), stored, likely, most)
    }

    /// Returns the length of this step's input before decoding, if its result has `decoded_len` bytes, as far as that
    /// follows from the parameters.
    fn chunk_len_before(&self, decoded_len: u64) -> u64 {
        decoded_len
    }

    /// Returns `true` if the codec describes how elements are stored, so that it also applies to chunks that are
    /// otherwise stored without filters.
    fn describes_elements(&self) -> bool {
        false
    }

    /// Returns the name, in reports, of the checksum that decoding compares, if any.
    fn checksum(&self) -> Option<&'static str> {
        None
    }

    /// Returns the format of the seek table, for a codec whose components consist of one or more frames that can be
    /// decoded independently.
    fn seek_format(&self) -> Option<&dyn SeekFormat> {
        None
    }

    /// Returns the function that creates encoders, for a codec that can be written.
    fn encoder(&self) -> Option<NewEncoder> {
        None
    }

    /// Returns the levels of the encoder that users can choose from, or `None` if it has no levels.
    fn levels(&self) -> Option<Levels> {
        None
    }

    /// Returns the rule that stored bytes are complete and well-formed.
    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    /// Returns the rule that a component decodes to its declared length.
    fn length_rule(&self) -> &'static Rule {
        &LENGTH
    }

    /// Returns the codec's own rules.
    fn rules(&self) -> &'static [&'static Rule] {
        &[]
    }
}

/// The levels of an encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    /// From the fastest level to the one with the smallest result.
    pub range: RangeInclusive<i32>,
    /// The default level.
    pub default: i32,
}

/// The decoded length of stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodedLen {
    /// Exactly this many bytes.
    Exactly(u64),
    /// At most this many bytes.
    AtMost(u64),
}

impl DecodedLen {
    /// Returns the maximum length.
    pub const fn max_len(self) -> u64 {
        match self {
            DecodedLen::Exactly(len) | DecodedLen::AtMost(len) => len,
        }
    }
}

crate::error::rules! {
    /// The rules of this module.
    pub static OWN_RULES;

    /// The build does not include the codec.
    pub NOT_BUILT: Unsupported "codec/not-built"
        "Compressed data requires a build with the features `zstd` and `deflate`, which are enabled by the features of formats that compress."
        hint "build with the feature of a format that compresses, or use the command or the Python package, which include all codecs";
    /// The stored bytes are malformed, for a codec without rules of its own.
    pub BROKEN: Malformed "codec/broken"
        "The stored bytes of a component are complete, and in the form of its encoding.";
    /// The decoded length differs from the declared one, for a codec without rules of its own.
    pub LENGTH: Malformed "codec/length"
        "A component decodes to exactly the length that the file or the shape declares.";
}

/// Returns all rules of codecs.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let own = CODECS.iter().map(|(_, codec)| codec.rules());
    [OWN_RULES, limits::RULES, pipeline::RULES].into_iter().chain(own).flatten().copied()
}
