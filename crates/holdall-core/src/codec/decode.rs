//! Stored bytes to decoded ones: piece by piece, and at once.

use super::{Codec, CodecId, Encoding, check_decoded_len};
use crate::error::{Error, Result};
use crate::limits::Limits;

/// Decodes one component, or one frame, in bounded memory if its codec can.
///
/// A caller passes the stored bytes to [`StreamDecoder::decode`], in order and in pieces of any length; when all were given and
/// it returns `(0, 0)`, to [`StreamDecoder::flush`] until that returns 0, and then [`StreamDecoder::end`] says whether they were
/// all there.
pub trait StreamDecoder: Send {
    /// Decodes from `input` into `out`; returns how many bytes of each were used. Nothing written and
    /// nothing read means more input is needed.
    ///
    /// # Errors
    /// What the codec finds wrong.
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)>;

    /// Decodes what had to wait for the last stored byte; returns how many bytes were written, 0 at the end.
    ///
    /// # Errors
    /// What the codec finds wrong.
    fn flush(&mut self, _out: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    /// Returns an error unless the stored bytes may end here.
    ///
    /// # Errors
    /// [`Codec::broken_rule`].
    fn end(&self) -> Result<()>;
}

/// Decodes whole components and whole frames; keeps its memory from one to the next.
pub trait BlockDecoder: Send {
    /// Decodes all of `stored` into exactly `out`. Elements have `width` bytes each.
    ///
    /// # Errors
    /// [`Codec::broken_rule`]; [`Codec::length_rule`] if it decodes to more or fewer bytes.
    fn decode_into(&mut self, width: u64, stored: &[u8], out: &mut [u8]) -> Result<()>;

    /// Says what is done with the checksums in what is decoded, if the codec has some.
    fn set_checksums(&mut self, _checksums: Checksums) {}
}

/// What is done with the checksums that a codec puts into what it stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// They are compared.
    Compare,
    /// They are passed over.
    Ignore,
}

/// Decodes whole components and whole frames of any encoding; keeps the decoder of each from one to the next.
pub struct Decoder {
    limits: Limits,
    checksums: Checksums,
    /// Of the codecs that were used and have one.
    blocks: Vec<(CodecId, Box<dyn BlockDecoder>)>,
}

impl Decoder {
    /// A decoder that holds what it decodes to `limits`.
    pub fn new(limits: &Limits) -> Decoder {
        Decoder { limits: limits.clone(), checksums: Checksums::Compare, blocks: Vec::new() }
    }

    /// Says what is done with the checksums in what is decoded. Ignoring them is right where a digest of the stored bytes is
    /// checked anyway, or where the caller wants no checks.
    pub fn set_checksums(&mut self, checksums: Checksums) {
        self.checksums = checksums;
        self.blocks.iter_mut().for_each(|(_, block)| block.set_checksums(checksums));
    }

    /// Decodes all of `stored` into exactly `out`. Elements have `width` bytes each; 1 if the bytes are no elements. Raw bytes are
    /// copied.
    ///
    /// # Errors
    /// What the codec finds wrong, and other lengths.
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
                let message = format!("{found} raw bytes for {wanted}");
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

/// Decodes all of `stored` by `stream`, which is a new one of `codec`, into exactly `out`.
///
/// # Errors
/// What the codec finds wrong; [`Codec::broken_rule`] if bytes follow; [`Codec::length_rule`] if it decodes to more or fewer bytes.
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
        let input = stored.get(read..).unwrap_or_default();
        // When the buffer is full, the end of the stream may still have to be read.
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
        return Err(codec.broken_rule().broken(format!("{left} bytes are left over")));
    }
    if written != wanted {
        let message = format!("decodes to {written} bytes, declared {wanted}");
        return Err(codec.length_rule().broken(message));
    }
    Ok(())
}

/// Decodes all stored bytes to at most so many.
type DecodeAll = Box<dyn FnMut(&[u8], usize) -> Result<Vec<u8>> + Send>;

/// A [`StreamDecoder`] of a codec that needs all stored bytes at once: it collects them, so its memory is what is stored and
/// what that decodes to.
pub struct Collected {
    stored: Vec<u8>,
    decode_all: DecodeAll,
    limits: Limits,
    /// What was decoded, and how much of it was handed out; `None` before the end.
    decoded: Option<(Vec<u8>, usize)>,
}

impl Collected {
    /// Returns a stream that decodes by `decode_all`, which is given all stored bytes and the most that they may decode to.
    pub fn stream(
        limits: &Limits,
        decode_all: impl FnMut(&[u8], usize) -> Result<Vec<u8>> + Send + 'static,
    ) -> Box<dyn StreamDecoder> {
        let (limits, decode_all) = (limits.clone(), Box::new(decode_all));
        Box::new(Collected { stored: Vec::new(), decode_all, limits, decoded: None })
    }

    fn decode_all(&mut self) -> Result<(Vec<u8>, usize), Error> {
        let stored_len = self.stored.len() as u64;
        let most = super::most_decoded(stored_len, &self.limits);
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
        let rest = decoded.get(given..).unwrap_or_default();
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.decoded = Some((decoded, given.saturating_add(count)));
        Ok(count)
    }

    fn end(&self) -> Result<()> {
        Ok(())
    }
}
