//! Masks: bytes of which some bits are inverted.

use super::pipeline::BROKEN;
use super::{Codec, DecodedLen, StreamDecoder};
use crate::error::{Result, Rule};
use crate::limits::Limits;
use std::sync::Arc;

/// The codec that inverts the bits that are set in a repeating pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask(Arc<[u8]>);

impl Mask {
    /// Creates a mask from `pattern`, which must not be empty.
    pub fn new(pattern: impl Into<Arc<[u8]>>) -> Mask {
        Mask(pattern.into())
    }
}

impl Codec for Mask {
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        DecodedLen::Exactly(stored_len)
    }

    fn stream(&self, _: u64, _: &Limits) -> Box<dyn StreamDecoder> {
        Box::new(Stream { pattern: Arc::clone(&self.0), at: 0 })
    }

    fn decode_chunk(&self, stored: &[u8], _: usize, _: usize) -> Result<Vec<u8>> {
        Ok(stored.iter().zip(self.0.iter().cycle()).map(|(byte, bits)| byte ^ bits).collect())
    }

    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    fn length_rule(&self) -> &'static Rule {
        &BROKEN
    }
}

struct Stream {
    pattern: Arc<[u8]>,
    /// The position in the pattern of the next byte.
    at: usize,
}

impl StreamDecoder for Stream {
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
        let count = input.len().min(out.len());
        let bits = self.pattern.iter().cycle().skip(self.at);
        for ((to, from), bits) in out.iter_mut().zip(input).zip(bits) {
            *to = from ^ bits;
        }
        self.at = (self.at + count) % self.pattern.len().max(1);
        Ok((count, count))
    }

    fn end(&self) -> Result<()> {
        Ok(())
    }
}
