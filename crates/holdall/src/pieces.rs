//! A component's decoded bytes in bounded memory: piece by piece, or one range of it.

use crate::buffer::Buffer;
use crate::error::DIGEST;
use crate::file::File;
use crate::open::Check;
use crate::workers;
use bytes::Bytes;
use holdall_core::codec::zstd::{self, Frame, SEEK_FOOTER_LEN, SeekTable};
use holdall_core::codec::{Stream, length_rule};
use holdall_core::model::Hasher;
use holdall_core::{
    Algorithm, ByteOrder, Component, Digest, Encoding, Error, Result, TensorInfo, window,
};
use std::ops::Range;

/// The most decoded bytes in one piece.
pub(crate) const PIECE_LEN: u64 = 4 << 20;
/// Stored bytes fetched at a time when decoding from the start.
const FETCH_LEN: u64 = 1 << 20;
/// Stored bytes read at a time of a frame of which only the start may be wanted.
const STEP_LEN: u64 = 128 << 10;
/// Up to this many frames are decoded one after the other, the last no further than it must.
const FEW_FRAMES: usize = 2;
/// Bytes at the end of a component in which its seek table is looked for first.
const TABLE_GUESS: u64 = 16 << 10;

/// The decoded bytes of one component, in order: pieces of up to 4 MiB, each a whole number of
/// elements except perhaps the last. Memory is a piece or two, and what the
/// encoding looks back at.
///
/// After an error there are no more pieces. A digest that does not match is an error in place of the
/// end, so bytes are to be trusted only when the iterator has ended without one.
pub struct Pieces {
    file: File,
    tensor: TensorInfo,
    component: Component,
    decoding: Option<Stream>,
    /// Stored bytes that were fetched and not decoded yet.
    input: Bytes,
    hasher: Option<Hasher>,
    /// Stored bytes fetched so far.
    fetched: u64,
    /// Decoded bytes handed out so far.
    decoded: u64,
    done: bool,
}

impl Pieces {
    pub(crate) fn new(file: &File, tensor: &TensorInfo, component: Component) -> Pieces {
        let hasher = checked_algorithm(&component, file.check()).map(Hasher::new);
        Pieces::hashed(file, tensor, component, hasher)
    }

    /// Pieces whose digest is computed by `hasher`, whatever the file's [`Check`].
    pub(crate) fn hashed(
        file: &File,
        tensor: &TensorInfo,
        component: Component,
        hasher: Option<Hasher>,
    ) -> Pieces {
        let decoding = Stream::new(component.encoding, file.limits());
        Pieces {
            file: file.clone(),
            tensor: tensor.clone(),
            component,
            decoding,
            input: Bytes::new(),
            hasher,
            fetched: 0,
            decoded: 0,
            done: false,
        }
    }

    /// The component they are of.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// Stored bytes read so far.
    pub(crate) fn fetched(&self) -> u64 {
        self.fetched
    }

    fn piece(&mut self) -> Result<Option<Bytes>> {
        let piece = match &self.decoding {
            None => self.fetch(PIECE_LEN)?,
            Some(_) => self.decode()?,
        };
        self.decoded += piece.len() as u64;
        if piece.is_empty() {
            self.end()?;
            return Ok(None);
        }
        Ok(Some(match self.component.byte_order {
            ByteOrder::Little => piece,
            ByteOrder::Big => {
                let mut piece = Vec::from(piece);
                swap_bytes(&mut piece, self.component.dtype.width());
                piece.into()
            }
        }))
    }

    /// The next stored bytes, at most `len`; none at the end.
    fn fetch(&mut self, len: u64) -> Result<Bytes> {
        let start = self.component.stored.start + self.fetched;
        let range = start..self.component.stored.end.min(start + len);
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        self.fetched += range.end - range.start;
        let bytes = self.file.source().read_range(range)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&bytes);
        }
        Ok(bytes)
    }

    fn decode(&mut self) -> Result<Bytes> {
        let stored_len = self.component.stored_len();
        let limits = self.file.limits();
        let allowed = zstd::most_decoded(stored_len, limits);
        let most = self.component.decoded_len.unwrap_or(allowed);
        zstd::check_decoded_len(most, stored_len, limits)?;
        // One byte more than there should be, to find out when there are more.
        let guess = match self.component.decoded_len {
            Some(_) => PIECE_LEN,
            // Where nothing tells the length, memory for a piece is too much for most.
            None => (stored_len.saturating_mul(64)).clamp(64 << 10, PIECE_LEN).next_multiple_of(64),
        };
        let room = (most - self.decoded).saturating_add(1).min(guess);
        let mut out = vec![0; room as usize];
        let mut filled = 0;
        while filled < out.len() {
            if self.input.is_empty() {
                self.input = self.fetch(FETCH_LEN)?;
            }
            let Some(stream) = &mut self.decoding else { break };
            let (read, written) = stream.decode(&self.input, &mut out[filled..])?;
            self.input = self.input.slice(read..);
            filled += written;
            let at_end = self.component.stored.start + self.fetched == self.component.stored.end;
            if (read, written) == (0, 0) && at_end {
                break;
            }
        }
        out.truncate(filled);
        let total = self.decoded + filled as u64;
        match self.component.decoded_len {
            Some(declared) if total > declared => {
                let rule = length_rule(self.component.encoding);
                Err(rule.broken(format!("decodes to more than the declared {declared} bytes")))
            }
            None if total > most => zstd::check_decoded_len(total, stored_len, self.file.limits())
                .map(|()| Bytes::new()),
            _ => Ok(out.into()),
        }
    }

    fn end(&mut self) -> Result<()> {
        if let Some(stream) = &self.decoding {
            stream.end()?;
        }
        if let Some(declared) = self.component.decoded_len.filter(|&n| n != self.decoded) {
            let found = self.decoded;
            let rule = length_rule(self.component.encoding);
            return Err(rule.broken(format!("decodes to {found} bytes, declared {declared}")));
        }
        match self.hasher.take() {
            Some(hasher) => check_digest(&self.component, hasher.finish()),
            None => Ok(()),
        }
    }

    fn place(&self, e: Error) -> Error {
        e.in_tensor(self.tensor.name())
            .in_component(&self.component.role)
            .at(self.component.stored.clone())
            .in_source(self.file.name())
    }
}

impl Iterator for Pieces {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        if self.done {
            return None;
        }
        match self.piece() {
            Ok(Some(piece)) => Some(Ok(piece)),
            Ok(None) => {
                self.done = true;
                None
            }
            Err(e) => {
                self.done = true;
                Some(Err(self.place(e)))
            }
        }
    }
}

/// The decoded bytes `range` of a component, fetching and decoding no more than it must.
pub(crate) fn range(
    file: &File,
    tensor: &TensorInfo,
    c: &Component,
    range: Range<u64>,
) -> Result<Bytes> {
    if range.start > range.end || c.decoded_len.is_some_and(|len| range.end > len) {
        let len = c.decoded_len.unwrap_or(0);
        return Err(window::OUTSIDE
            .broken(format!("decoded bytes {}..{} of {len}", range.start, range.end)));
    }
    let width = c.dtype.width();
    let whole = match c.byte_order {
        ByteOrder::Little => range.clone(),
        // Swapping needs whole elements.
        ByteOrder::Big => range.start / width * width..range.end.next_multiple_of(width),
    };
    let mut bytes = match c.encoding {
        Encoding::Zstd | Encoding::Deflate => decoded_range(file, tensor, c, whole.clone())?,
        _ => {
            let end = c.stored.end.min(c.stored.start + whole.end);
            let stored = c.stored.start + whole.start..end;
            file.source().read_part(stored)?
        }
    };
    if c.byte_order == ByteOrder::Big {
        let mut swapped = Vec::from(bytes);
        swap_bytes(&mut swapped, width);
        bytes = swapped.into();
    }
    let from = (range.start - whole.start) as usize;
    Ok(bytes.slice(from..from + (range.end - range.start) as usize))
}

/// Decoded bytes of a compressed component: the frames that hold them when it has a seek table, else
/// everything up to them.
fn decoded_range(
    file: &File,
    tensor: &TensorInfo,
    c: &Component,
    range: Range<u64>,
) -> Result<Bytes> {
    zstd::check_decoded_len(range.end - range.start, c.stored_len(), file.limits())?;
    if let Some(table) = seek_table(file, c)? {
        return frames_range(file, c, &table, range);
    }
    let mut out = Vec::new();
    let mut at = 0;
    for piece in Pieces::hashed(file, tensor, little(c), None) {
        let piece = piece?;
        let end = at + piece.len() as u64;
        let from = range.start.clamp(at, end) - at;
        let to = range.end.clamp(at, end) - at;
        out.extend_from_slice(&piece[from as usize..to as usize]);
        at = end;
        if at >= range.end {
            break;
        }
    }
    if at < range.end {
        let message = format!("decodes to {at} bytes, {} were asked for", range.end);
        return Err(length_rule(c.encoding).broken(message));
    }
    Ok(out.into())
}

/// Decoded bytes of a component with a seek table: of a few frames up to the last byte wanted, of many
/// whole on all cores.
pub(crate) fn frames_range(
    file: &File,
    c: &Component,
    table: &SeekTable,
    range: Range<u64>,
) -> Result<Bytes> {
    let frames = table.covering(range.clone());
    let (Some(first), Some(last)) = (frames.first(), frames.last()) else {
        return Ok(Bytes::new());
    };
    let out = if frames.len() <= FEW_FRAMES {
        let mut out = Buffer::new((range.end - first.decoded.start) as usize)?;
        few_frames(file, c, frames, out.as_mut())?;
        out
    } else {
        let mut out = Buffer::new((last.decoded.end - first.decoded.start) as usize)?;
        many_frames(file, c, frames, out.as_mut())?;
        out
    };
    let from = (range.start - first.decoded.start) as usize;
    Ok(out.freeze().slice(from..from + (range.end - range.start) as usize))
}

/// Decodes frames from the first one's start until `out` is full, reading no more than that takes.
fn few_frames(file: &File, c: &Component, frames: &[Frame], out: &mut [u8]) -> Result<()> {
    let (source, first) = (file.source(), c.stored.start);
    let (Some(start), Some(end)) = (frames.first(), frames.last()) else { return Ok(()) };
    let stored = first + start.stored.start..first + end.stored.end;
    if source.is_cold(stored.clone()) {
        // The system reads on while what has come is decoded.
        source.fetch_ahead(stored);
    }
    let mut filled = 0;
    for frame in frames {
        let wanted = (frame.decoded.end - frame.decoded.start).min((out.len() - filled) as u64);
        let out = &mut out[filled..filled + wanted as usize];
        filled += out.len();
        let stored = first + frame.stored.start..first + frame.stored.end;
        let is_whole = wanted == frame.decoded.end - frame.decoded.start;
        frame_start(file, stored, out, is_whole)?;
    }
    Ok(())
}

/// Decodes the first bytes of the frame in `stored`, which are all of it if `is_whole`.
fn frame_start(file: &File, stored: Range<u64>, out: &mut [u8], is_whole: bool) -> Result<()> {
    let mut stream = zstd::Stream::new(file.limits());
    let mut input = Bytes::new();
    let (mut at, mut filled) = (stored.start, 0);
    while is_whole || filled < out.len() {
        if input.is_empty() && at < stored.end {
            let end = stored.end.min(at + STEP_LEN);
            input = file.source().read_part(at..end)?;
            at = end;
        }
        let (read, written) = stream.decode(&input, &mut out[filled..])?;
        input = input.slice(read..);
        filled += written;
        if (read, written) != (0, 0) || (input.is_empty() && at < stored.end) {
            continue;
        }
        let wanted = out.len();
        return if filled < wanted {
            let found = format!("decodes to {filled} bytes, its seek table says {wanted} at least");
            Err(zstd::LENGTH.broken(format!("a frame {found}")))
        } else if !input.is_empty() {
            let found = format!("decodes to more than the {wanted} bytes its seek table says");
            Err(zstd::LENGTH.broken(format!("a frame {found}")))
        } else if !stream.is_whole() {
            Err(zstd::BROKEN.broken("the stored bytes end inside a zstd frame"))
        } else {
            Ok(())
        };
    }
    Ok(())
}

/// Decodes whole frames on all cores.
fn many_frames(file: &File, c: &Component, frames: &[Frame], out: &mut [u8]) -> Result<()> {
    let mut jobs = Vec::new();
    let mut rest = out;
    for frame in frames {
        let (own, tail) = rest.split_at_mut((frame.decoded.end - frame.decoded.start) as usize);
        rest = tail;
        jobs.push((c.stored.start + frame.stored.start..c.stored.start + frame.stored.end, own));
    }
    let decoder = || zstd::Decoder::new(file.limits());
    workers::for_each(workers::threads(None), jobs, decoder, |decoder, (stored, out)| {
        decoder.decode_into(&file.source().read_part(stored)?, out)
    })
}

/// The seek table of a component, if it is zstd and has one that fits it.
pub(crate) fn seek_table(file: &File, c: &Component) -> Result<Option<SeekTable>> {
    let Some(decoded_len) = c.decoded_len.filter(|_| c.encoding == Encoding::Zstd) else {
        return Ok(None);
    };
    let stored_len = c.stored_len();
    if decoded_len <= zstd::SINGLE_FRAME_MAX || stored_len < SEEK_FOOTER_LEN {
        return Ok(None);
    }
    let tail = |len: u64| file.source().read_part(c.stored.end - len..c.stored.end);
    // Most tables are whole in what is read to find out how long they are.
    let end = tail(stored_len.min(TABLE_GUESS))?;
    let footer = &end[end.len() - SEEK_FOOTER_LEN as usize..];
    let Some(len) = SeekTable::len_from_footer(footer, stored_len) else {
        return Ok(None);
    };
    let table = match (end.len() as u64).checked_sub(len) {
        Some(before) => end.slice(before as usize..),
        None => tail(len)?,
    };
    Ok(SeekTable::read(&table, stored_len, decoded_len))
}

/// The component as it is before its bytes are swapped.
fn little(c: &Component) -> Component {
    Component { byte_order: ByteOrder::Little, ..c.clone() }
}

/// The algorithm to check a component's digest with on reading it, if any.
pub(crate) fn checked_algorithm(c: &Component, check: Check) -> Option<Algorithm> {
    c.digest.as_ref()?.algorithm().filter(|a| match check {
        Check::Off => false,
        Check::Fast => *a == Algorithm::Crc32c,
        Check::All => true,
    })
}

/// Compares the digest of a component's stored bytes with the one the file gives.
pub(crate) fn check_digest(c: &Component, found: Digest) -> Result<()> {
    match &c.digest {
        Some(declared) if *declared != found => {
            Err(DIGEST.broken(format!("the stored bytes have {found}, the file says {declared}")))
        }
        _ => Ok(()),
    }
}

/// Reverses the bytes of each element of `width` bytes.
pub(crate) fn swap_bytes(bytes: &mut [u8], width: u64) {
    if width > 1 {
        bytes.chunks_exact_mut(width as usize).for_each(<[u8]>::reverse);
    }
}
