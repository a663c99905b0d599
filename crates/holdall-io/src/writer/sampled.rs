//! Components whose encoding is chosen by their first bytes.

use super::{Current, To, Writer};
use crate::planes::smallest::{self, SAMPLED};
use crate::sink::Sink;
use holdall_core::Result;

impl Current {
    /// Returns the number of bytes that the component has not received.
    pub(super) fn missing(&self) -> u64 {
        match &self.to {
            To::Sampled(first) => self.left.saturating_sub(first.len() as u64),
            _ => self.left,
        }
    }
}

impl<S: Sink> Writer<S> {
    /// Collects the first bytes of the current component, and chooses its encoding once there are enough. Returns the bytes that are
    /// left.
    pub(super) fn sample<'b>(
        &mut self,
        mut current: Current,
        first: Vec<u8>,
        bytes: &'b [u8],
    ) -> Result<&'b [u8]> {
        let mut first = first;
        let wanted = current.left.min(SAMPLED) as usize;
        let now = wanted.saturating_sub(first.len()).min(bytes.len());
        let (now, later) = bytes.split_at(now);
        first.extend_from_slice(now);
        let is_enough = first.len() == wanted;
        let samples = is_enough.then(|| std::mem::take(&mut first));
        current.to = To::Sampled(first);
        self.current = Some(current);
        if let Some(samples) = samples {
            self.choose_encoding(&[&samples])?;
            self.write_all(&samples)?;
        }
        Ok(later)
    }

    /// Sets the encoding of the current component, which has not received any bytes, to the one that is smallest for samples of it.
    pub(crate) fn choose_encoding(&mut self, samples: &[impl AsRef<[u8]>]) -> Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        let spec = current.tensor.components.get(current.component);
        let width = spec.map_or(1, |spec| spec.dtype.width());
        self.encode_in(smallest::of_samples(width, samples)?)
    }

    /// Sets the encoding of the current component.
    pub(crate) fn encode_in(&mut self, choice: smallest::Smallest) -> Result<()> {
        match choice.compression {
            Some(compression) => self.compressed(compression),
            None => self.uncompressed()?,
        }
        Ok(())
    }

    /// Returns `true` if the encoding of the current component is to be chosen.
    pub(crate) fn chooses_encoding(&self) -> bool {
        matches!(&self.current, Some(Current { to: To::Sampled(_), .. }))
    }
}
