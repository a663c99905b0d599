//! What stands in for the library in a build without the feature `zstd`, which formats that have compressed components bring.

use crate::codec::{Checksums, NOT_BUILT};
use crate::error::{Error, Result};
use crate::limits::Limits;
use std::convert::Infallible;

/// Decodes nothing: this build has no zstd.
pub struct Decoder(());

impl Decoder {
    /// A decoder that decodes nothing.
    pub fn new(_: &Limits) -> Decoder {
        Decoder(())
    }

    /// Sets nothing.
    pub fn set_checksums(&mut self, _: Checksums) {}

    /// Decodes nothing.
    ///
    /// # Errors
    /// [`NOT_BUILT`], always.
    pub fn decode_into(&mut self, _: &[u8], _: &mut [u8]) -> Result<()> {
        Err(unbuilt())
    }
}

/// Decodes nothing: this build has no zstd.
pub struct Stream(());

impl Stream {
    /// A stream that decodes nothing.
    pub fn new(_: &Limits) -> Stream {
        Stream(())
    }

    /// Decodes nothing.
    ///
    /// # Errors
    /// [`NOT_BUILT`], always.
    pub fn decode(&mut self, _: &[u8], _: &mut [u8]) -> Result<(usize, usize)> {
        Err(unbuilt())
    }

    /// Whether the input so far ends where a frame ends: there was none.
    pub fn is_whole(&self) -> bool {
        true
    }
}

/// Compresses nothing: this build has no zstd.
pub struct Encoder(Infallible);

impl Encoder {
    /// No compressor.
    ///
    /// # Errors
    /// [`NOT_BUILT`], always.
    pub fn new(_: i32) -> Result<Encoder> {
        Err(unbuilt())
    }

    /// There is no compressor to call this on.
    ///
    /// # Errors
    /// None.
    pub fn frame(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<()> {
        match self.0 {}
    }
}

#[cold]
fn unbuilt() -> Error {
    NOT_BUILT.broken("this build does not have zstd")
}
