//! A component of an open file to the writer of another, in bounded memory.

use crate::file::{File, Tensor};
use crate::items::Keep;
use crate::open::Check;
use crate::pieces::{Pieces, check_digest, checked_algorithm, seek_table};
use crate::sink::Sink;
use crate::source::Access;
use crate::work::Work;
use crate::workers;
use crate::writer::{AsIs, Writer};
use bytes::Bytes;
use holdall_core::codec::Decoder;
use holdall_core::codec::zstd::{self, Frame, SeekTable};
use holdall_core::model::Hasher;
use holdall_core::{ByteOrder, Component, Encoding, Result};

/// Bytes of a raw component read at a time: few enough to stay in the processor's cache until they
/// are digested and handed on.
const READ_LEN: u64 = 1 << 20;
/// Smaller reads of a map are cheaper by touching it than by a call to the system.
const TOUCH_LEN: u64 = 64 << 10;
/// Decoded bytes of frames that are decoded at the same time.
const WINDOW_LEN: u64 = 16 << 20;

/// Copies components, keeping its memory from one to the next. Every digest that can be computed is
/// checked: what is written gets a fresh one, which must not vouch for damage.
pub(crate) struct Copier<'a> {
    work: &'a Work,
    scratch: Vec<u8>,
    decoder: Option<Decoder>,
}

impl<'a> Copier<'a> {
    pub(crate) fn new(work: &'a Work) -> Copier<'a> {
        Copier { work, scratch: Vec::new(), decoder: None }
    }

    /// Gives the writer's current component the bytes of `c`.
    pub(crate) fn copy<S: Sink>(
        &mut self,
        writer: &mut Writer<S>,
        tensor: &Tensor,
        c: &Component,
        keep: Keep,
    ) -> Result<()> {
        let zstd = c.encoding == Encoding::Zstd;
        // No format that is written has components by Deflate.
        let deflate = c.encoding == Encoding::Deflate;
        if c.byte_order == ByteOrder::Big || deflate || (zstd && keep == Keep::Nothing) {
            return self.decoded(writer, tensor, c);
        }
        if zstd {
            // Passed on undecoded it would carry damage along that no digest tells of.
            for piece in Pieces::hashed(tensor.file(), tensor.info(), c.clone(), None) {
                self.work.advance(piece?.len() as u64)?;
            }
        }
        if zstd || keep == Keep::All {
            let digest = (keep == Keep::All).then(|| c.digest.clone());
            writer.as_is(AsIs { encoding: c.encoding, stored_len: c.stored_len(), digest })?;
        }
        if c.stored.is_empty() {
            return Ok(());
        }
        self.stored(writer, tensor.file(), c)
    }

    /// The stored bytes as they are.
    fn stored<S: Sink>(
        &mut self,
        writer: &mut Writer<S>,
        file: &File,
        c: &Component,
    ) -> Result<()> {
        let mut hasher = hasher(c);
        let mut at = c.stored.start;
        while at < c.stored.end {
            let range = at..c.stored.end.min(at + READ_LEN);
            let len = range.end - range.start;
            at = range.end;
            let borrowed: Bytes;
            let touch = len < TOUCH_LEN || writer.compresses();
            let bytes: &[u8] = if touch && file.source().access() == Access::Borrowed {
                borrowed = file.source().read_range(range)?;
                &borrowed
            } else {
                self.scratch.resize(len as usize, 0);
                file.source().read_into(range.start, &mut self.scratch)?;
                &self.scratch
            };
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
            writer.write(bytes)?;
            // What is told are decoded bytes, of compressed ones when they were decoded.
            self.work.advance(if c.encoding == Encoding::Raw { len } else { 0 })?;
        }
        check(c, hasher)
    }

    fn decoded<S: Sink>(
        &mut self,
        writer: &mut Writer<S>,
        tensor: &Tensor,
        c: &Component,
    ) -> Result<()> {
        let file = tensor.file();
        let little = c.byte_order == ByteOrder::Little;
        match c.decoded_len {
            Some(len) if little && len <= zstd::SINGLE_FRAME_MAX => {
                return self.small(writer, file, c, len);
            }
            Some(_) if little => {
                if let Some(table) = seek_table(file, c)? {
                    return self.frames(writer, file, c, &table);
                }
            }
            _ => {}
        }
        for piece in Pieces::hashed(file, tensor.info(), c.clone(), hasher(c)) {
            let piece = piece?;
            writer.write(&piece)?;
            self.work.advance(piece.len() as u64)?;
        }
        Ok(())
    }

    /// A component of one frame or a few, decoded at once.
    fn small<S: Sink>(
        &mut self,
        writer: &mut Writer<S>,
        file: &File,
        c: &Component,
        len: u64,
    ) -> Result<()> {
        let stored = file.source().read_range(c.stored.clone())?;
        let mut hasher = hasher(c);
        if let Some(hasher) = &mut hasher {
            hasher.update(&stored);
        }
        check(c, hasher)?;
        self.scratch.resize(len as usize, 0);
        let decoder = self.decoder.get_or_insert_with(|| Decoder::new(file.limits()));
        decoder.decode_into(c.encoding, &stored, &mut self.scratch)?;
        writer.write(&self.scratch)?;
        self.work.advance(len)
    }

    /// A component of many frames, a window of them at a time, on all cores.
    fn frames<S: Sink>(
        &mut self,
        writer: &mut Writer<S>,
        file: &File,
        c: &Component,
        table: &SeekTable,
    ) -> Result<()> {
        let decoded_len = table.frames().last().map_or(0, |f| f.decoded.end);
        zstd::check_decoded_len(decoded_len, c.stored_len(), file.limits())?;
        let mut hasher = hasher(c);
        let mut rest = table.frames();
        let mut stored_end = 0;
        while let (Some(first), false) = (rest.first(), rest.is_empty()) {
            let limit = first.decoded.start.saturating_add(WINDOW_LEN);
            let count = rest.partition_point(|f| f.decoded.end <= limit).max(1);
            let (window, tail) = rest.split_at(count);
            rest = tail;
            let last = window.last().unwrap_or(first);
            stored_end = last.stored.end;
            let range = c.stored.start + first.stored.start..c.stored.start + stored_end;
            let stored = file.source().read_range(range)?;
            if let Some(hasher) = &mut hasher {
                hasher.update(&stored);
            }
            let len = last.decoded.end - first.decoded.start;
            self.scratch.resize(len as usize, 0);
            decode_window(file, window, &stored, &mut self.scratch)?;
            writer.write(&self.scratch)?;
            self.work.advance(len)?;
        }
        if let Some(hasher) = &mut hasher {
            let table = c.stored.start + stored_end..c.stored.end;
            hasher.update(&file.source().read_range(table)?);
        }
        check(c, hasher)
    }
}

fn decode_window(file: &File, window: &[Frame], stored: &[u8], out: &mut [u8]) -> Result<()> {
    let start = window.first().map_or(0, |f| f.stored.start);
    let mut jobs = Vec::new();
    let mut rest = out;
    for frame in window {
        let (own, tail) = rest.split_at_mut((frame.decoded.end - frame.decoded.start) as usize);
        rest = tail;
        let bytes =
            &stored[(frame.stored.start - start) as usize..(frame.stored.end - start) as usize];
        jobs.push((bytes, own));
    }
    let decoder = || zstd::Decoder::new(file.limits());
    workers::for_each(workers::threads(None), jobs, decoder, |decoder, (bytes, out)| {
        decoder.decode_into(bytes, out)
    })
}

fn hasher(c: &Component) -> Option<Hasher> {
    checked_algorithm(c, Check::All).map(Hasher::new)
}

fn check(c: &Component, hasher: Option<Hasher>) -> Result<()> {
    match hasher {
        Some(hasher) => check_digest(c, hasher.finish()),
        None => Ok(()),
    }
}
