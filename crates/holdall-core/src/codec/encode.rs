//! Encoding.

use crate::error::Result;

/// Creates an [`Encoder`] with a level of [`Codec::levels`](super::Codec::levels), or the codec's default for `None`.
pub type NewEncoder = fn(level: Option<i32>) -> Result<Box<dyn Encoder>>;

/// Encodes frames and whole components, and reuses its memory.
pub trait Encoder: Send {
    /// Replaces the contents of `out` with the encoded `bytes`, which can be decoded independently. Elements have
    /// `width` bytes each. `bytes` are a frame if the codec has frames, and otherwise a whole component.
    ///
    /// # Errors
    /// Returns an error if the codec cannot encode the bytes.
    fn encode(&mut self, width: u64, bytes: &[u8], out: &mut Vec<u8>) -> Result<()>;
}
