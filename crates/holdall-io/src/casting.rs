//! Rounding components of open files to another float type while they are written.

use crate::checked::Check;
use crate::file::Tensor;
use crate::sink::Sink;
use crate::work::Work;
use crate::writer::Writer;
use bytes::Bytes;
use holdall_core::layout::cast::{Caster, FloatType};
use holdall_core::{Component, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A component of an open file that is rounded to another float type.
pub struct Casting {
    pub(crate) tensor: Tensor,
    pub(crate) component: Component,
    pub(crate) to: FloatType,
    pub(crate) caster: Caster,
    pub(crate) overflowed: Arc<AtomicU64>,
    /// Creates the error if values must not overflow but do.
    pub(crate) refused: Option<fn(u64, FloatType) -> Error>,
}

impl Casting {
    /// Returns the rounded bytes piece by piece. The digest of the original bytes is checked. After the last piece,
    /// `overflowed` has the number of values that overflowed.
    pub(crate) fn pieces(
        &self,
        overflowed: Arc<AtomicU64>,
    ) -> Result<impl Iterator<Item = Result<Bytes>> + use<>> {
        let pieces = CastPieces {
            pieces: self
                .tensor
                .checked_with(Check::All)
                .component_pieces(self.component.clone())?,
            caster: Some(self.caster.clone()),
            overflowed,
        };
        let (tensor, component) = (self.tensor.clone(), self.component.clone());
        Ok(pieces.map(move |piece| piece.map_err(|e| tensor.in_context(e, &component))))
    }

    /// Writes the rounded bytes, and counts values that overflow.
    pub(crate) fn write<S: Sink>(&self, writer: &mut Writer<S>, work: &Work) -> Result<()> {
        for piece in self.pieces(self.overflowed.clone())? {
            let piece = piece?;
            writer.write(&piece)?;
            work.advance(piece.len() as u64)?;
        }
        let overflowed = self.overflowed.load(Ordering::Relaxed);
        match self.refused {
            Some(refused) if overflowed > 0 => {
                let e = refused(overflowed, self.to);
                Err(self.tensor.in_context(e, &self.component))
            }
            _ => Ok(()),
        }
    }
}

/// Pieces of bytes whose elements are rounded to another float type.
pub(crate) struct CastPieces<P> {
    pub(crate) pieces: P,
    /// `None` after the last piece.
    pub(crate) caster: Option<Caster>,
    pub(crate) overflowed: Arc<AtomicU64>,
}

impl<P: Iterator<Item = Result<Bytes>>> Iterator for CastPieces<P> {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        loop {
            let mut caster = self.caster.take()?;
            let mut out = Vec::new();
            let done = match self.pieces.next() {
                Some(Ok(piece)) => {
                    caster.push(&piece, &mut out).map(|()| self.caster = Some(caster))
                }
                Some(Err(e)) => return Some(Err(e)),
                None => {
                    let overflowed = caster.finish(&mut out);
                    overflowed.map(|count| self.overflowed.store(count, Ordering::Relaxed))
                }
            };
            match done {
                Err(e) => return Some(Err(e)),
                Ok(()) if out.is_empty() => {}
                Ok(()) => return Some(Ok(out.into())),
            }
        }
    }
}
