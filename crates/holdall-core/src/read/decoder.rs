//! Decoding a component in order, with limited memory.

use crate::codec::crc::Crc32;
use crate::codec::{Frame, StreamDecoder, check_decoded_len, max_decoded_len};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::model::{Algorithm, Component, Digest, Hasher};
use crate::read::digests::check_decoded;
use crate::read::{Digests, MISSING, check_digest};
use bytes::Bytes;

/// The maximum number of decoded bytes per piece.
pub const PIECE_LEN: usize = 4 << 20;
/// The maximum length of a seek table that is compared, in bytes.
const TABLE_MAX: usize = 16 << 20;
/// The minimum allocation for a piece, in bytes.
const LEAST: u64 = 64 << 10;

/// Decodes a component incrementally. It accepts the stored bytes in order, in runs of any length, and returns decoded
/// bytes in pieces of up to 4 MiB, each a whole number of elements except perhaps the last. Digests of the stored bytes
/// are computed at the same time. Memory is one run, one piece, and the encoding's window.
///
/// ```
/// # use holdall_core::read::{ComponentDecoder, Decoded, Digests};
/// # use holdall_core::{ByteOrder, Bytes, Component, DType, Encoding, Limits, Role};
/// # let component = Component {
/// #     role: Role::Data, dtype: DType::U8, logical_type: None, encoding: Encoding::Raw,
/// #     byte_order: ByteOrder::Little, stored: (0..4).into(), decoded_len: Some(4), digest: None,
/// # };
/// let mut runs = [Bytes::from("ab"), Bytes::from("cd")].into_iter();
/// let mut decoder = ComponentDecoder::new(&component, Digests::NONE, &Limits::default())?;
/// let mut out = Vec::new();
/// loop {
///     match decoder.next()? {
///         Decoded::Need => decoder.push(runs.next().unwrap()),
///         Decoded::Piece(bytes) => out.extend_from_slice(&bytes),
///         Decoded::End => break,
///     }
/// }
/// assert_eq!(out, b"abcd");
/// # Ok::<(), holdall_core::Error>(())
/// ```
pub struct ComponentDecoder {
    component: Component,
    limits: Limits,
    /// The decoder of the encoding; `None` for raw bytes.
    stream: Option<Box<dyn StreamDecoder>>,
    hashers: Vec<Hasher>,
    /// The CRC-32 of the decoded bytes, if the file has one.
    decoded_crc: Option<Crc32>,
    /// Hashers of the decoded bytes.
    of_decoded: Vec<Hasher>,
    /// Stored bytes that were pushed and not decoded yet.
    input: Bytes,
    /// The ends of frames so far, to compare with a seek table.
    frames: Frames,
    /// The piece that is being filled, and its filled length.
    piece: (Vec<u8>, usize),
    /// The number of stored bytes pushed.
    pushed: u64,
    /// The number of decoded bytes, including those of the current piece.
    decoded: u64,
    /// The maximum number of decoded bytes.
    most: u64,
    is_done: bool,
}

/// The result of [`ComponentDecoder::next`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// The next stored bytes must be pushed first.
    Need,
    /// The next decoded bytes.
    Piece(Bytes),
    /// All bytes were decoded, and lengths and digests are correct.
    End,
}

impl ComponentDecoder {
    /// Creates a decoder for a component.
    ///
    /// # Errors
    /// Returns an error of kind `Limit` if the component decodes to more bytes than `limits` allow.
    pub fn new(c: &Component, digests: Digests, limits: &Limits) -> Result<ComponentDecoder> {
        let stream = c.encoding.stream(c.dtype.width(), limits);
        let allowed = max_decoded_len(c.stored_len(), limits);
        let most = match stream {
            None => c.stored_len(),
            Some(_) => c.decoded_len.unwrap_or(allowed),
        };
        if stream.is_some() {
            check_decoded_len(most, c.stored_len(), limits)?;
        }
        let mut hashers = Vec::new();
        hashers.extend(digests.crc32c.then(|| Hasher::new(Algorithm::Crc32c)));
        hashers.extend(digests.crc32.then(|| Hasher::new(Algorithm::Crc32)));
        hashers.extend(digests.sha256.then(|| Hasher::new(Algorithm::Sha256)));
        let xxh3 = digests.xxh3.then(|| Hasher::new(Algorithm::Xxh3));
        let sha256 = digests.sha256_decoded.then(|| Hasher::new(Algorithm::Sha256Decoded));
        let of_decoded = xxh3.into_iter().chain(sha256);
        // For raw bytes, decoded digests are computed over the stored bytes, even if nothing is decoded.
        let of_decoded = match stream {
            None => {
                hashers.extend(of_decoded);
                Vec::new()
            }
            Some(_) => of_decoded.collect(),
        };
        Ok(ComponentDecoder {
            component: c.clone(),
            limits: limits.clone(),
            stream,
            hashers,
            decoded_crc: c.decoded_crc().map(|_| Crc32::zip()),
            of_decoded,
            input: Bytes::new(),
            frames: Frames::new(c),
            piece: (Vec::new(), 0),
            pushed: 0,
            decoded: 0,
            most,
            is_done: false,
        })
    }

    /// Adds the next stored bytes. All earlier ones must have been decoded: the last result was [`Decoded::Need`].
    /// Bytes beyond the end of the component are ignored.
    pub fn push(&mut self, mut stored: Bytes) {
        let room = self.component.stored_len().saturating_sub(self.pushed);
        stored.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        for hasher in &mut self.hashers {
            hasher.update(&stored);
        }
        self.pushed = self.pushed.saturating_add(stored.len() as u64);
        if self.input.is_empty() {
            self.input = stored;
        } else {
            self.input = [&self.input[..], &stored[..]].concat().into();
        }
    }

    /// Adds the next stored bytes to the digests only, for components that cannot be decoded.
    pub fn skip(&mut self, stored: &[u8]) {
        for hasher in &mut self.hashers {
            hasher.update(stored);
        }
        self.pushed = self.pushed.saturating_add(stored.len() as u64);
    }

    /// Returns the number of stored bytes pushed so far.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Returns the digests, once all stored bytes were pushed and decoded.
    pub fn digests(&self) -> impl Iterator<Item = Digest> {
        // A component that was not fully decoded has no digest of its decoded bytes.
        let of_decoded = if self.is_done { self.of_decoded.as_slice() } else { &[] };
        self.hashers.iter().chain(of_decoded).map(|hasher| hasher.clone().finish())
    }

    /// Returns the next decoded bytes, or [`Decoded::End`] if all bytes were decoded and lengths and digests are
    /// correct.
    ///
    /// # Errors
    /// Returns an error of kind `Malformed` if the encoding is invalid or a length differs from the declared one, of
    /// kind `Integrity` if a digest differs, and of kind `Limit` if a limit is exceeded.
    #[allow(clippy::should_implement_trait)] // It may need more bytes in between.
    pub fn next(&mut self) -> Result<Decoded> {
        if self.is_done {
            return Ok(Decoded::End);
        }
        let piece = match self.stream {
            None => self.plain(),
            Some(_) => self.decode()?,
        };
        match piece {
            Some(bytes) if !bytes.is_empty() => {
                self.decoded = self.decoded.saturating_add(bytes.len() as u64);
                self.of_decoded.iter_mut().for_each(|hasher| hasher.update(&bytes));
                Ok(Decoded::Piece(self.turned(bytes)))
            }
            Some(_) => {
                self.end()?;
                self.is_done = true;
                Ok(Decoded::End)
            }
            None => Ok(Decoded::Need),
        }
    }

    /// Returns `true` if the last stored byte was pushed.
    fn is_whole(&self) -> bool {
        self.pushed >= self.component.stored_len()
    }

    /// Returns the next raw bytes, or `None` if more are needed.
    fn plain(&mut self) -> Option<Bytes> {
        let width = self.component.swap_unit_len() as usize;
        let len = self.input.len().min(PIECE_LEN);
        // Whole elements, unless the component ends inside one.
        let whole = if self.is_whole() { len } else { len / width * width };
        if whole == 0 && !self.is_whole() {
            return None;
        }
        Some(self.input.split_to(whole))
    }

    /// Returns the next decoded bytes: empty at the end, or `None` if more stored bytes are needed.
    fn decode(&mut self) -> Result<Option<Bytes>> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let (out, filled) = &mut self.piece;
        if out.is_empty() {
            // One byte more than the declared length, to detect longer data. If the length is unknown, memory for a
            // whole piece would be too much for most components.
            let guess = match self.component.decoded_len {
                Some(_) => PIECE_LEN as u64,
                None => self.component.stored_len().saturating_mul(64).max(LEAST),
            };
            let guess = guess.min(PIECE_LEN as u64).next_multiple_of(64);
            let room = self.most.saturating_sub(self.decoded).saturating_add(1).min(guess);
            *out = vec![0; room as usize];
            *filled = 0;
        }
        while *filled < out.len() {
            let (read, written) = stream.decode(&self.input, &mut out[*filled..])?;
            self.frames.note(&self.input[..read.min(self.input.len())], written, &**stream);
            self.input = self.input.split_off(read.min(self.input.len()));
            *filled += written;
            if (read, written) == (0, 0) {
                if self.pushed < self.component.stored_len() {
                    return Ok(None);
                }
                let written = stream.flush(&mut out[*filled..])?;
                if written == 0 {
                    break;
                }
                self.frames.note(&[], written, &**stream);
                *filled += written;
            }
        }
        let (mut out, filled) = std::mem::take(&mut self.piece);
        out.truncate(filled);
        let total = self.decoded.saturating_add(filled as u64);
        if total > self.most {
            return Err(match self.component.decoded_len {
                Some(_) => self.too_long(),
                None => match check_decoded_len(total, self.component.stored_len(), &self.limits) {
                    Err(e) => e,
                    Ok(()) => self.too_long(),
                },
            });
        }
        if let Some(crc) = &mut self.decoded_crc {
            crc.update(&out);
        }
        Ok(Some(out.into()))
    }

    fn turned(&self, bytes: Bytes) -> Bytes {
        if self.component.swap_unit_len() == 1 {
            return bytes;
        }
        let mut bytes = Vec::from(bytes);
        self.component.make_little_endian(&mut bytes);
        bytes.into()
    }

    fn end(&mut self) -> Result<()> {
        if !self.is_whole() {
            let (found, len) = (self.pushed, self.component.stored_len());
            return Err(MISSING.broken(format!("only {found} of {len} stored bytes were given")));
        }
        if let Some(stream) = &self.stream {
            stream.end()?;
        }
        self.frames.check(&self.component)?;
        if let Some(declared) = self.component.decoded_len.filter(|&n| n != self.decoded) {
            let found = self.decoded;
            let rule = self.component.encoding.length_rule();
            return Err(rule.broken(format!("decodes to {found} bytes, declared {declared}")));
        }
        if let Some(crc) = &self.decoded_crc {
            check_decoded(&self.component, crc.value())?;
        }
        for hasher in self.hashers.iter().chain(&self.of_decoded) {
            let found = hasher.clone().finish();
            let is_declared =
                self.component.digest.as_ref().is_some_and(|d| d.algorithm() == found.algorithm());
            if is_declared {
                check_digest(&self.component, &found)?;
            }
        }
        Ok(())
    }

    #[cold]
    fn too_long(&self) -> Error {
        let most = self.most;
        let rule = self.component.encoding.length_rule();
        rule.broken(format!("decodes to more than the declared {most} bytes"))
    }
}

/// The ends of frames, and the last skippable frame, which may be a seek table. Decoding from the start does not need
/// the table, but it is checked because random access relies on it.
#[derive(Default)]
struct Frames {
    /// Whether the component is long enough to have a seek table.
    are_noted: bool,
    /// The end of each frame with content, in stored and decoded bytes.
    ends: Vec<(u64, u64)>,
    /// The number of stored and decoded bytes so far.
    at: (u64, u64),
    /// The stored bytes of the current frame, as long as it has no content.
    empty: Vec<u8>,
    /// The last frame without content, if nothing follows it.
    last: Vec<u8>,
}

impl Frames {
    fn new(c: &Component) -> Frames {
        Frames { are_noted: c.table_extent().is_some(), ..Frames::default() }
    }

    fn note(&mut self, read: &[u8], written: usize, stream: &dyn StreamDecoder) {
        if !self.are_noted || (read.is_empty() && written == 0) {
            return;
        }
        self.last.clear();
        self.at.0 = self.at.0.saturating_add(read.len() as u64);
        self.at.1 = self.at.1.saturating_add(written as u64);
        let is_empty = self.ends.last().map_or(0, |end| end.1) == self.at.1;
        if is_empty && self.empty.len() < TABLE_MAX {
            self.empty.extend_from_slice(read);
        } else {
            self.empty.clear();
        }
        if stream.end().is_ok() {
            if is_empty {
                std::mem::swap(&mut self.last, &mut self.empty);
            } else {
                self.ends.push(self.at);
            }
            self.empty.clear();
        }
    }

    /// Compares the frames with the seek table after them.
    fn check(&self, c: &Component) -> Result<()> {
        let Ok(Some(table)) = c.seek_table(&self.last) else { return Ok(()) };
        let has_content = |f: &&Frame| !f.decoded.is_empty();
        let listed = table.frames().iter().filter(has_content);
        let listed: Vec<_> = listed.map(|f| (f.stored.end, f.decoded.end)).collect();
        match listed.iter().zip(&self.ends).position(|(listed, found)| listed != found) {
            None if listed.len() == self.ends.len() => Ok(()),
            at => {
                let number = at.unwrap_or(self.ends.len().min(listed.len()));
                let message = format!("the seek table differs from the data in frame {number}");
                Err(c.encoding.length_rule().broken(message))
            }
        }
    }
}
