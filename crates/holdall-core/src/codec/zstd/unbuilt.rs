//! Replacement for the library in builds without the feature `zstd`, which is enabled by formats with compressed
//! components.

use crate::codec::{Checksums, NOT_BUILT};
use crate::error::{Error, Result};
use crate::limits::Limits;
use std::convert::Infallible;

/// A decoder that always fails, because this build does not include zstd.
pub struct Decoder(());

impl Decoder {
    /// Creates a decoder that always fails.
    pub fn new(_: &Limits) -> Decoder {
        Decoder(())
    }

    /// Does nothing.
    pub fn set_checksums(&mut self, _: Checksums) {}

    /// Always fails.
    ///
    /// # Errors
    /// Returns [`NOT_BUILT`].
    pub fn decode_into(&mut self, _: &[u8], _: &mut [u8]) -> Result<()> {
        Err(unbuilt())
    }
}

/// A stream that always fails, because this build does not include zstd.
pub struct Stream(());

impl Stream {
    /// Creates a stream that always fails.
    pub fn new(_: &Limits) -> Stream {
        Stream(())
    }

    /// Always fails.
    ///
    /// # Errors
    /// Returns [`NOT_BUILT`].
    pub fn decode(&mut self, _: &[u8], _: &mut [u8]) -> Result<(usize, usize)> {
        Err(unbuilt())
    }

    /// Returns `true`, because no frame was started.
    pub fn is_whole(&self) -> bool {
        true
    }
}

/// A compressor that cannot be created, because this build does not include zstd.
pub struct Encoder(Infallible);

impl Encoder {
    /// Always fails.
    ///
    /// # Errors
    /// Returns [`NOT_BUILT`].
    pub fn new(_: i32) -> Result<Encoder> {
        Err(unbuilt())
    }

    /// Cannot be called, because there is no instance.
    ///
    /// # Errors
    /// Returns no error.
    pub fn frame(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<()> {
        match self.0 {}
    }
}

#[cold]
fn unbuilt() -> Error {
    NOT_BUILT.broken("this build does not include zstd")
}
