//! Copying a component of an open file to a writer, in bounded memory.

use crate::checked::Check;
use crate::executor::StoredPieces;
use crate::file::Tensor;
use crate::sink::{FILL_LEN, Sink};
use crate::work::Work;
use crate::writer::{AsIs, Writer};
use holdall_core::codec::SINGLE_FRAME_MAX;
use holdall_core::model::Hasher;
use holdall_core::read::{Access, PartDecoder, Want, check_digest};
use holdall_core::{Algorithm, Component, Encoding, Result};

/// Reads of a memory map shorter than this are cheaper through the map than by a system call.
const TOUCH_LEN: u64 = 64 << 10;

/// How much of a component is copied without re-encoding it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMode {
    /// Nothing: its decoded bytes are written.
    Nothing,
    /// The component's encoding, if it is compressed.
    Encoding,
    /// The component's encoding and digest.
    All,
}

/// Copies components, reusing its memory. Every digest that can be computed is checked, because the written components
/// get new digests, which must not certify damaged data.
pub(crate) struct Copier<'a> {
    work: &'a Work,
    scratch: Vec<u8>,
    decoder: Option<PartDecoder>,
}

impl<'a> Copier<'a> {
    pub(crate) fn new(work: &'a Work) -> Copier<'a> {
        Copier { work, scratch: Vec::new(), decoder: None }
    }

    /// Writes the bytes of `c` to the writer's current component.
    pub(crate) fn copy<S: Sink>(
        &mut self,
        writer: &mut Writer<S>,
        tensor: &Tensor,
        c: &Component,
        keep: CopyMode,
    ) -> Result<()> {
        tensor.file().compare_covering(c)?;
        let is_coded = c.encoding != Encoding::Raw;
        let as_is = |writer: &mut Writer<S>| {
            let digest = (keep == CopyMode::All).then(|| c.digest.clone());
            writer.as_is(AsIs { encoding: c.encoding, stored_len: c.stored_len(), digest })
        };
        // The target writes the bytes in its own syntax, or in another encoding.
        let is_other = writer.stores_in_header() || !writer.can_encode(c.encoding);
        let keep = if is_other { CopyMode::Nothing } else { keep };
        if is_coded && keep == CopyMode::Encoding && !writer.takes_frames() {
            let usual = writer.usual(c.encoding);
            writer.compressed(usual);
            return self.decoded(writer, tensor, c);
        }
        if c.swap_unit_len() > 1 || (is_coded && keep == CopyMode::Nothing) {
            return self.decoded(writer, tensor, c);
        }
        if is_coded {
            as_is(writer)?;
            // An empty component is checked all the same.
            let file = tensor.file();
            let (sources, limits) = (file.sources().clone(), file.limits().clone());
            let context = tensor.error_context();
            for run in StoredPieces::new(sources, limits, context, c.clone(), algorithm(c))? {
                let (stored, decoded) = run?;
                if !stored.is_empty() {
                    writer.write(&stored)?;
                }
                self.work.advance(decoded)?;
            }
            return Ok(());
        }
        if keep == CopyMode::All {
            as_is(writer)?;
        }
        match c.stored.is_empty() {
            true => Ok(()),
            false => self.raw(writer, tensor, c),
        }
    }

    /// Copies raw bytes.
    fn raw<S: Sink>(
        &mut self,
        writer: &mut Writer<S>,
        tensor: &Tensor,
        c: &Component,
    ) -> Result<()> {
        let sources = tensor.file().sources();
        let source = sources.at(c.stored.source);
        let hints = source.read_hints();
        if hints.is_remote() || (hints.access == Access::Borrowed && source.local().is_none()) {
            return self.pieces(writer, tensor, c);
        }
        let mut hasher = algorithm(c).map(Hasher::new);
        let mut at = c.stored.start;
        let len = c.stored_len();
        if len >= TOUCH_LEN && writer.fills() {
            // Read directly into the memory from which they are written.
            writer.fill(&mut |memory| {
                source.read_into(at, memory)?;
                at += memory.len() as u64;
                if let Some(hasher) = &mut hasher {
                    hasher.update(memory);
                }
                self.work.advance(memory.len() as u64)
            })?;
            return hasher.map_or(Ok(()), |hasher| check_digest(c, &hasher.finish()));
        }
        while at < c.stored.end {
            let range = at..c.stored.end.min(at + FILL_LEN as u64);
            let len = range.end - range.start;
            at = range.end;
            let borrowed;
            let bytes: &[u8] = if hints.access == Access::Borrowed {
                borrowed = source.read_range(range)?;
                &borrowed
            } else {
                self.scratch.resize(len as usize, 0);
                source.read_into(range.start, &mut self.scratch)?;
                &self.scratch
            };
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
            writer.write(bytes)?;
            self.work.advance(len)?;
        }
        hasher.map_or(Ok(()), |hasher| check_digest(c, &hasher.finish()))
    }

    fn decoded<S: Sink>(
        &mut self,
        writer: &mut Writer<S>,
        tensor: &Tensor,
        c: &Component,
    ) -> Result<()> {
        let is_remote = tensor.file().sources().read_hints().is_remote();
        // Digests of decoded bytes are computed by the decoder.
        let sums_decoded = c.encoding != Encoding::Raw
            && c.digest.as_ref().is_some_and(|digest| {
                digest.algorithm().is_some_and(Algorithm::covers_decoded_bytes)
            });
        match c.decoded_len {
            Some(len) if !is_remote && !sums_decoded && len <= SINGLE_FRAME_MAX => {
                self.small(writer, tensor, c, len)
            }
            _ => self.pieces(writer, tensor, c),
        }
    }

    fn pieces<S: Sink>(
        &mut self,
        writer: &mut Writer<S>,
        tensor: &Tensor,
        c: &Component,
    ) -> Result<()> {
        for piece in tensor.component_pieces(c.clone(), algorithm(c))? {
            let piece = piece?;
            writer.write(&piece)?;
            self.work.advance(piece.len() as u64)?;
        }
        Ok(())
    }

    /// Copies a component of one frame or a few, decoded at once.
    fn small<S: Sink>(
        &mut self,
        writer: &mut Writer<S>,
        tensor: &Tensor,
        c: &Component,
        len: u64,
    ) -> Result<()> {
        let file = tensor.file();
        let stored = file.sources().read(c.stored)?;
        if let Some(mut hasher) = algorithm(c).map(Hasher::new) {
            hasher.update(&stored);
            check_digest(c, &hasher.finish())?;
        }
        self.scratch.resize(len as usize, 0);
        let decoder = self.decoder.get_or_insert_with(|| PartDecoder::new(file.limits()));
        decoder.decode(&Want::new(0, c.clone()), &stored, &mut self.scratch)?;
        writer.write(&self.scratch)?;
        self.work.advance(len)
    }
}

fn algorithm(c: &Component) -> Option<Algorithm> {
    Check::All.algorithm(c)
}
