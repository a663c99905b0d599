//! Deflate under a limit: one stream, without a header.
//!
//! A stream says where it ends, but not how long it is when decoded, so nothing is decoded without a
//! length that somebody declared, and the stream must end exactly there, with its last stored byte.

use super::{Codec, DecodedLen, Encoding, StreamDecoder};
use crate::error::{Error, Result, Rule};
use crate::limits::Limits;
#[cfg(feature = "deflate")]
use flate2::{Decompress, FlushDecompress, Status};

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The stored bytes are not Deflate, or more or less than one stream.
    pub BROKEN: Malformed "deflate/broken" "A Deflate component is one complete stream.";
    /// More or fewer bytes than declared.
    pub LENGTH: Malformed "deflate/length"
        "A Deflate component decodes to exactly the length that the file or the shape declares.";
}

/// One stream of Deflate, without a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deflate;

impl Encoding {
    /// One stream of Deflate, without a header.
    pub const DEFLATE: Encoding = Encoding::listed("deflate");
}

impl Codec for Deflate {
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        most_decoded(stored_len)
    }

    fn stream(&self, _: u64, _: &Limits) -> Box<dyn StreamDecoder> {
        Box::new(Stream::new())
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

/// The most that Deflate can express: 258 bytes take at least two bits.
pub(super) fn most_decoded(stored_len: u64) -> DecodedLen {
    DecodedLen::AtMost(stored_len.saturating_mul(1032))
}

/// A stream being decoded piece by piece; memory is the 32 KiB that Deflate looks back.
pub struct Stream {
    #[cfg(feature = "deflate")]
    inflate: Decompress,
    whole: bool,
}

impl Stream {
    /// A decoder of a stream without a header.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Stream {
        Stream {
            #[cfg(feature = "deflate")]
            inflate: Decompress::new(false),
            whole: false,
        }
    }

    /// A decoder of a stream in zlib's header and checksum.
    pub(super) fn of_zlib() -> Stream {
        Stream {
            #[cfg(feature = "deflate")]
            inflate: Decompress::new(true),
            whole: false,
        }
    }

    /// Returns `true` if the stream is at its end.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Decodes from `input` into `out`; returns how many bytes of each were used. Nothing written
    /// and nothing read means more input is needed.
    ///
    /// # Errors
    /// [`BROKEN`], also when there is input after the end of the stream.
    #[cfg(not(feature = "deflate"))]
    pub fn decode(&mut self, _: &[u8], _: &mut [u8]) -> Result<(usize, usize)> {
        Err(super::NOT_BUILT.broken("this build does not have Deflate"))
    }

    /// Decodes from `input` into `out`; returns how many bytes of each were used. Nothing written
    /// and nothing read means more input is needed.
    ///
    /// # Errors
    /// [`BROKEN`], also when there is input after the end of the stream.
    #[cfg(feature = "deflate")]
    pub fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
        if self.whole {
            return if input.is_empty() { Ok((0, 0)) } else { Err(goes_on(input.len())) };
        }
        let before = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(input, out, FlushDecompress::None).map_err(|e| {
            BROKEN.broken(format!("not Deflate: {}", e.message().unwrap_or("no code")))
        })?;
        self.whole = status == Status::StreamEnd;
        // Both are at most the lengths of the slices.
        let used = |after: u64, before: u64| after.saturating_sub(before) as usize;
        Ok((used(self.inflate.total_in(), before.0), used(self.inflate.total_out(), before.1)))
    }
}

impl StreamDecoder for Stream {
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
        Stream::decode(self, input, out)
    }

    fn end(&self) -> Result<()> {
        if self.whole { Ok(()) } else { Err(cut_short()) }
    }
}

#[cold]
pub(super) fn cut_short() -> Error {
    BROKEN.broken("the stored bytes end before the stream does")
}

#[cfg(feature = "deflate")]
#[cold]
fn goes_on(left: usize) -> Error {
    BROKEN.broken(format!("{left} or more bytes follow the end of the stream"))
}
