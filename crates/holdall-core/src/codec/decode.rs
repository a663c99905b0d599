//! Decoding: incrementally, and at once.

use super::{Codec, CodecId, Encoding, check_decoded_len};
use crate::error::{Error, Result};
use crate::limits::Limits;
use holdall_collections::DebugUnwrap;

/// Decodes one component, or one frame, with limited memory if its codec allows.
///
/// Pass the stored bytes to [`StreamDecoder::decode`], in order and in pieces of any length. When all were passed and
/// it returns `(0, 0)`, call [`StreamDecoder::flush`] until it returns 0. Then [`StreamDecoder::end`] checks that the
/// stored bytes were complete.
pub trait StreamDecoder: Send {
    /// Decodes from `input` into `out`, and returns how many bytes of each were used. `(0, 0)` means that more input is
    /// needed.
    ///
    /// # Errors
    /// Returns an error if the stored bytes are malformed.
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)>;

    /// Decodes what could only be decoded after the last stored byte. Returns the number of bytes written, or 0 at the
    /// end.
    ///
    /// # Errors
    /// Returns an error if the stored bytes are malformed.
    fn flush(&mut self, _out: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    /// Checks that the stored bytes may end here.
    ///
    /// # Errors
    /// Returns [`Codec::broken_rule`] if they are incomplete.
    fn end(&self) -> Result<()>;
}

/// Decodes whole components and whole frames, and reuses its memory.
pub trait BlockDecoder: Send {
    /// Decodes all of `stored` into exactly `out`. Elements have `width` bytes each.
    ///
    /// # Errors
    /// Returns [`Codec::broken_rule`] if the stored bytes are malformed, and [`Codec::length_rule`] if they do not
    /// decode to the length of `out`.
    fn decode_into(&mut self, width: u64, stored: &[u8], out: &mut [u8]) -> Result<()>;

    /// Sets whether the codec's own checksums are compared, if it has any.
    fn set_checksums(&mut self, _checksums: Checksums) {}
}

/// The treatment of checksums that a codec stores with the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// Compares the checksums.
    Compare,
    /// Ignores the checksums.
    Ignore,
}

/// Decodes whole components and whole frames of any encoding, and reuses the decoder of each codec.
pub struct Decoder {
    limits: Limits,
    checksums: Checksums,
    /// The decoders of the codecs that were used and have a block decoder.
    blocks: Vec<(CodecId, Box<dyn BlockDecoder>)>,
}

impl Decoder {
    /// Creates a decoder that limits decoded lengths.
    pub fn new(limits: &Limits) -> Decoder {
        Decoder { limits: limits.clone(), checksums: Checksums::Compare, blocks: Vec::new() }
    }

    /// Sets whether the codecs' own checksums are compared. They can be ignored if a digest of the stored bytes is
    /// compared anyway, or if the caller wants no checks.
    pub fn set_checksums(&mut self, checksums: Checksums) {
        self.checksums = checksums;
        self.blocks.iter_mut().for_each(|(_, block)| block.set_checksums(checksums));
    }

    /// Decodes all of `stored` into exactly `out`. Elements have `width` bytes each; 1 if the bytes are no elements.
    /// Raw bytes are copied.
    ///
    /// # Errors
    /// Returns an error if the stored bytes are malformed, or do not decode to the length of `out`.
    pub fn decode_into(
        &mut self,
        encoding: Encoding,
        width: u64,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let (id, codec) = match (encoding, encoding.codec()) {
            (Encoding::Coded(id), Some(codec)) => (id, codec),
            _ if stored.len() == out.len() => {
                out.copy_from_slice(stored);
                return Ok(());
            }
            _ => {
                let (found, wanted) = (stored.len(), out.len());
                let message = format!("expected {wanted} raw bytes, found {found}");
                return Err(crate::window::OUTSIDE.broken(message));
            }
        };
        if let Some((_, block)) = self.blocks.iter_mut().find(|(known, _)| *known == id) {
            return block.decode_into(width, stored, out);
        }
        let Some(mut block) = codec.block(&self.limits) else {
            return decode_stream(codec, codec.stream(width, &self.limits), stored, out);
        };
        block.set_checksums(self.checksums);
        let decoded = block.decode_into(width, stored, out);
        self.blocks.push((id, block));
        decoded
    }
}

/// Decodes all of `stored` with `stream`, a new stream of `codec`, into exactly `out`.
///
/// # Errors
/// Returns the errors of the stream, [`Codec::broken_rule`] if bytes follow its end, and [`Codec::length_rule`] if it
/// does not decode to the length of `out`.
pub fn decode_stream(
    codec: &dyn Codec,
    mut stream: Box<dyn StreamDecoder>,
    stored: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let (mut read, mut written) = (0, 0);
    let wanted = out.len();
    let mut beyond = [0u8];
    loop {
        let input = stored.get(read..).debug_unwrap();
        // If the buffer is full, the end of the stream may still have to be read.
        let room = match out.get_mut(written..) {
            Some(room) if !room.is_empty() => room,
            _ => &mut beyond,
        };
        let mut done = stream.decode(input, room)?;
        if done == (0, 0) && input.is_empty() {
            done.1 = stream.flush(room)?;
        }
        (read, written) = (read.saturating_add(done.0), written.saturating_add(done.1));
        if written > wanted {
            let message = format!("decodes to more than the declared {wanted} bytes");
            return Err(codec.length_rule().broken(message));
        }
        if done == (0, 0) {
            break;
        }
    }
    stream.end()?;
    if read < stored.len() {
        let left = stored.len().saturating_sub(read);
        return Err(codec
            .broken_rule()
            .broken(format!("{left} bytes follow the end of the compressed data")));
    }
    if written != wanted {
        let message = format!("decodes to {written} bytes, declared {wanted}");
        return Err(codec.length_rule().broken(message));
    }
    Ok(())
}

/// Decodes all stored bytes to at most the given number of bytes.
type DecodeAll = Box<dyn FnMut(&[u8], usize) -> Result<Vec<u8>> + Send>;

/// A [`StreamDecoder`] for codecs that need all stored bytes at once. It collects them, so its memory is the stored and
/// the decoded bytes.
pub struct Collected {
    stored: Vec<u8>,
    decode_all: DecodeAll,
    limits: Limits,
    /// The decoded bytes, and how many of them were returned; `None` before the end.
    decoded: Option<(Vec<u8>, usize)>,
}

impl Collected {
    /// Returns a stream that decodes with `decode_all`, which receives all stored bytes and the maximum decoded length.
    pub fn stream(
        limits: &Limits,
        decode_all: impl FnMut(&[u8], usize) -> Result<Vec<u8>> + Send + 'static,
    ) -> Box<dyn StreamDecoder> {
        let (limits, decode_all) = (limits.clone(), Box::new(decode_all));
        Box::new(Collected { stored: Vec::new(), decode_all, limits, decoded: None })
    }

    fn decode_all(&mut self) -> Result<(Vec<u8>, usize), Error> {
        let stored_len = self.stored.len() as u64;
        let most = super::max_decoded_len(stored_len, &self.limits);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let decoded = (self.decode_all)(&self.stored, most)?;
        check_decoded_len(decoded.len() as u64, stored_len, &self.limits)?;
        self.stored = Vec::new();
        Ok((decoded, 0))
    }
}

impl StreamDecoder for Collected {
    fn decode(&mut self, input: &[u8], _: &mut [u8]) -> Result<(usize, usize)> {
        self.stored.extend_from_slice(input);
        Ok((input.len(), 0))
    }

    fn flush(&mut self, out: &mut [u8]) -> Result<usize> {
        let (decoded, given) = match self.decoded.take() {
            Some(decoded) => decoded,
            None => self.decode_all()?,
        };
        let rest = decoded.get(given..).debug_unwrap();
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.decoded = Some((decoded, given.saturating_add(count)));
        Ok(count)
    }

    fn end(&self) -> Result<()> {
        Ok(())
    }
}
