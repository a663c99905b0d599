//! Stored bytes to decoded bytes and back, always under [`crate::Limits`].

pub mod crc;
pub mod deflate;
pub mod filter;
pub mod members;
#[cfg(feature = "scale-offset")]
pub mod scale_offset;
pub mod zstd;

use crate::error::{Error, Result, Rule};
use crate::limits::Limits;
use crate::model::Encoding;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A build that left out what decodes this.
    pub NOT_BUILT: Unsupported "codec/not-built"
        "Compressed data is read and written only by a build with the features `zstd` and `deflate`, which the formats that compress bring."
        hint "build it with the feature of a format that compresses, or use the command or the Python package, which have all";
}

/// The rule that a component of this encoding decodes to the length that is declared.
pub fn length_rule(encoding: Encoding) -> &'static Rule {
    match encoding {
        Encoding::Deflate | Encoding::DeflateNpy => &deflate::LENGTH,
        _ => &zstd::LENGTH,
    }
}

/// Decodes at once what is compressed; keeps zstd's tables between calls.
pub struct Decoder {
    zstd: zstd::Decoder,
}

impl Decoder {
    /// A decoder that holds what it decodes to `limits`.
    pub fn new(limits: &Limits) -> Decoder {
        Decoder { zstd: zstd::Decoder::new(limits) }
    }

    /// See [`zstd::Decoder::set_checksums`]; the other encodings have none.
    pub fn set_checksums(&mut self, checksums: zstd::Checksums) {
        self.zstd.set_checksums(checksums);
    }

    /// Decodes whole frames, or a whole stream, into exactly `out`. Raw bytes are copied.
    ///
    /// # Errors
    /// What the encoding finds wrong, and other lengths.
    pub fn decode_into(&mut self, encoding: Encoding, stored: &[u8], out: &mut [u8]) -> Result<()> {
        match encoding {
            Encoding::Zstd => self.zstd.decode_into(stored, out),
            Encoding::Deflate => deflate::decode_into(deflate::Stream::new(), stored, out),
            Encoding::DeflateNpy => deflate::decode_into(deflate::Stream::of_npy(), stored, out),
            Encoding::Raw if stored.len() == out.len() => {
                out.copy_from_slice(stored);
                Ok(())
            }
            Encoding::Raw => Err(crate::window::OUTSIDE.broken(format!(
                "{} raw bytes for {}",
                stored.len(),
                out.len()
            ))),
        }
    }
}

/// What is compressed, being decoded piece by piece in bounded memory.
pub enum Stream {
    /// Frames of zstd.
    Zstd(zstd::Stream),
    /// One stream of Deflate.
    Deflate(deflate::Stream),
}

impl Stream {
    /// Nothing decoded yet; `None` for raw bytes.
    pub fn new(encoding: Encoding, limits: &Limits) -> Option<Stream> {
        match encoding {
            Encoding::Raw => None,
            Encoding::Zstd => Some(Stream::Zstd(zstd::Stream::new(limits))),
            Encoding::Deflate => Some(Stream::Deflate(deflate::Stream::new())),
            Encoding::DeflateNpy => Some(Stream::Deflate(deflate::Stream::of_npy())),
        }
    }

    /// Decodes from `input` into `out`; returns how many bytes of each were used. Nothing written and
    /// nothing read means more input is needed.
    ///
    /// # Errors
    /// What the encoding finds wrong.
    pub fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
        match self {
            Stream::Zstd(stream) => stream.decode(input, out),
            Stream::Deflate(stream) => stream.decode(input, out),
        }
    }

    /// The error for an end of the input here, unless what is compressed may end here.
    ///
    /// # Errors
    /// [`zstd::BROKEN`], [`deflate::BROKEN`].
    pub fn end(&self) -> Result<(), Error> {
        match self {
            Stream::Zstd(stream) if !stream.is_whole() => {
                Err(zstd::BROKEN.broken("the stored bytes end inside a zstd frame"))
            }
            Stream::Deflate(stream) if !stream.is_whole() => Err(deflate::cut_short()),
            _ => Ok(()),
        }
    }
}
