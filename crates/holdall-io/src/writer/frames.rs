//! Compressing components frame by frame.

use super::{Arriving, Slot, To, Writer};
use crate::compress::{Buffers, Compression, Compressor};
use crate::sink::Sink;
use holdall_core::codec::SINGLE_FRAME_MAX;
use holdall_core::model::Hasher;
use holdall_core::{Encoding, Result, Stored, TensorSpec};

impl<S: Sink> Writer<S> {
    /// Returns how components are compressed in `encoding`: with the level of the options if they have this encoding.
    pub(crate) fn usual(&self, encoding: Encoding) -> Compression {
        let level = self.options.level.filter(|_| self.options.encoding == encoding);
        Compression { encoding, level, frame_len: None }
    }

    /// Prepares to compress the bytes of a component.
    pub(super) fn frames(&mut self, compression: Compression, width: u64, decoded_len: u64) -> To {
        let frame_len = compression.frame_len(decoded_len);
        let hasher = self.digest.filter(|_| self.encoder.digests_decoded()).map(Hasher::new);
        let buffers = self.buffers(frame_len, width);
        To::Frames { compression, buffers, frame_len, first: true, hasher }
    }

    pub(super) fn buffers(&mut self, len: u64, width: u64) -> Buffers {
        let mut buffers = self.spare.pop().unwrap_or_default();
        buffers.width = width;
        buffers.decoded.clear();
        buffers.decoded.reserve(len as usize);
        buffers
    }

    /// Compresses the current component in this way, regardless of the options.
    pub(crate) fn compressed(&mut self, compression: Compression) {
        let Some(mut current) = self.current.take() else { return };
        let spec = current.tensor.components.get(current.component);
        let width = spec.map_or(1, |spec| spec.dtype.width());
        match current.to {
            To::Sink { .. } | To::Sampled(_) => {
                current.to = self.frames(compression, width, current.left)
            }
            To::Frames { buffers, first: true, .. } if buffers.decoded.is_empty() => {
                self.spare.push(buffers);
                current.to = self.frames(compression, width, current.left);
            }
            to => current.to = to,
        }
        self.current = Some(current);
    }

    /// Writes the current component without compression, regardless of the options.
    pub(crate) fn uncompressed(&mut self) -> Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        if matches!(current.to, To::Frames { .. } | To::Sampled(_)) {
            current.to = self.straight_instead(current.to, &current.tensor, current.component)?;
        }
        self.current = Some(current);
        Ok(())
    }

    /// Prepares to append the bytes of a component that has not received any, instead of compressing them.
    pub(super) fn straight_instead(
        &mut self,
        to: To,
        tensor: &TensorSpec,
        component: usize,
    ) -> Result<To> {
        if let To::Frames { buffers, .. } = to {
            self.spare.push(buffers);
        }
        self.straight(tensor, component)
    }

    pub(super) fn compress(&mut self, buffers: Buffers, slot: Slot) -> Result<()> {
        if self.compressor.as_ref().is_none_or(|c| !c.serves(slot.compression)) {
            let compressor = Compressor::new(slot.compression, &self.options.work)?;
            self.drain(0)?;
            self.compressor = Some(compressor);
        }
        // A component that is one frame takes memory of its whole length, so only one is in progress at a time.
        let has_frames = slot.compression.encoding.seek_format().is_some();
        if !has_frames && buffers.decoded.len() as u64 > SINGLE_FRAME_MAX {
            self.drain(0)?;
        }
        loop {
            match &mut self.compressor {
                Some(c) if c.has_room() => {
                    c.give(buffers);
                    break;
                }
                _ => self.take_frame()?,
            }
        }
        self.slots.push_back(slot);
        Ok(())
    }

    /// Waits until at most `left` frames are being compressed.
    pub(super) fn drain(&mut self, left: u64) -> Result<()> {
        while self.compressor.as_ref().is_some_and(|c| c.in_flight() > left) {
            self.take_frame()?;
        }
        Ok(())
    }

    /// Waits for the next compressed frame and appends it.
    pub(super) fn take_frame(&mut self) -> Result<()> {
        let next = self.compressor.as_mut().and_then(Compressor::take);
        let (Some(result), Some(slot)) = (next, self.slots.pop_front()) else { return Ok(()) };
        let buffers = result.map_err(|e| e.in_tensor(slot.tensor.name.as_str()))?;
        if slot.first {
            let start = self.next_offset(&slot.tensor, slot.component)?;
            let of_stored = self.digest.filter(|_| !self.encoder.digests_decoded());
            let hasher = of_stored.map(Hasher::new);
            self.arriving = Some(Arriving { start, frames: Vec::new(), hasher });
        }
        let Some(mut arriving) = self.arriving.take() else { return Ok(()) };
        arriving.frames.push((buffers.frame.len() as u64, buffers.decoded.len() as u64));
        arriving.append(&mut self.sink, &buffers.frame)?;
        self.spare.push(buffers);
        let Some(of_decoded) = slot.last else {
            self.arriving = Some(arriving);
            return Ok(());
        };
        if (arriving.frames.len() > 1 || self.encoder.needs_seek_table())
            && let Some(seek) = slot.compression.encoding.seek_format()
        {
            let table = seek.write_table(&arriving.frames)?;
            arriving.append(&mut self.sink, &table)?;
        }
        let stored = Stored {
            range: arriving.start..self.sink.len(),
            encoding: slot.compression.encoding,
            digest: of_decoded.or_else(|| arriving.hasher.map(Hasher::finish)),
        };
        self.component_written(&slot.tensor, slot.component, stored)
    }
}
