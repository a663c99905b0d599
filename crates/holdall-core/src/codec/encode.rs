//! Decoded bytes to stored ones.

use crate::error::Result;

/// Makes an [`Encoder`] of a level, one of [`Codec::levels`](super::Codec::levels); `None` for the codec's own choice.
pub type NewEncoder = fn(level: Option<i32>) -> Result<Box<dyn Encoder>>;

/// Encodes frames and whole components; keeps its memory from one to the next.
pub trait Encoder: Send {
    /// Replaces the contents of `out` by the stored bytes of `bytes`, which decode alone. Elements have `width` bytes each.
    /// `bytes` are a frame where the codec has frames, else a whole component.
    ///
    /// # Errors
    /// What the codec cannot encode.
    fn encode(&mut self, width: u64, bytes: &[u8], out: &mut Vec<u8>) -> Result<()>;
}
