//! Deflate without a header, under a limit.
//!
//! A stream marks its end, but does not state its decoded length. So nothing is decoded without a declared length, and
//! the stream must end exactly there, with its last stored byte.

use super::{Codec, DecodedLen, Encoding, StreamDecoder};
use crate::error::{Error, Result, Rule};
use crate::limits::Limits;
#[cfg(feature = "deflate")]
use flate2::{Decompress, FlushDecompress, Status};

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The stored bytes are not exactly one Deflate stream.
    pub BROKEN: Malformed "deflate/broken" "A Deflate component is one complete stream.";
    /// The decoded length differs from the declared one.
    pub LENGTH: Malformed "deflate/length"
        "A Deflate component decodes to exactly the length that the file or the shape declares.";
}

/// The codec for one Deflate stream without a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deflate;

impl Encoding {
    /// One Deflate stream without a header.
    pub const DEFLATE: Encoding = Encoding::from_known_name("deflate");
}

impl Codec for Deflate {
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        max_decoded_len(stored_len)
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

/// Returns the maximum decoded length: 258 bytes take at least two bits.
pub(super) fn max_decoded_len(stored_len: u64) -> DecodedLen {
    DecodedLen::AtMost(stored_len.saturating_mul(1032))
}

/// Decodes a stream incrementally. Memory is Deflate's window of 32 KiB.
pub struct Stream {
    #[cfg(feature = "deflate")]
    inflate: Decompress,
    whole: bool,
}

impl Stream {
    /// Creates a decoder for a stream without a header.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Stream {
        Stream {
            #[cfg(feature = "deflate")]
            inflate: Decompress::new(false),
            whole: false,
        }
    }

    /// Creates a decoder for a stream with zlib's header and checksum.
    pub(super) fn new_zlib() -> Stream {
        Stream {
            #[cfg(feature = "deflate")]
            inflate: Decompress::new(true),
            whole: false,
        }
    }

    /// Returns `true` if the end of the stream was reached.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Decodes from `input` into `out`, and returns how many bytes of each were used. `(0, 0)` means that more input is
    /// needed.
    ///
    /// # Errors
    /// Returns [`BROKEN`] if the input is malformed, or continues after the end of the stream.
    #[cfg(not(feature = "deflate"))]
    pub fn decode(&mut self, _: &[u8], _: &mut [u8]) -> Result<(usize, usize)> {
        Err(super::NOT_BUILT.broken("this build does not include Deflate"))
    }

    /// Decodes from `input` into `out`, and returns how many bytes of each were used. `(0, 0)` means that more input is
    /// needed.
    ///
    /// # Errors
    /// Returns [`BROKEN`] if the input is malformed, or continues after the end of the stream.
    #[cfg(feature = "deflate")]
    pub fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
        if self.whole {
            return if input.is_empty() { Ok((0, 0)) } else { Err(goes_on(input.len())) };
        }
        let before = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(input, out, FlushDecompress::None).map_err(|e| {
            BROKEN.broken(format!("invalid Deflate data: {}", e.message().unwrap_or("no code")))
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
    BROKEN.broken("the stored bytes end inside the stream")
}

#[cfg(feature = "deflate")]
#[cold]
fn goes_on(left: usize) -> Error {
    BROKEN.broken(format!("at least {left} bytes follow the end of the stream"))
}
