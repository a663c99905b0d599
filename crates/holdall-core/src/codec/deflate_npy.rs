//! `.npy` files in one Deflate stream. The decoded bytes are the elements, without the file's header.

use super::deflate::{self, BROKEN, LENGTH};
use super::{Codec, DecodedLen, Encoding, StreamDecoder};
use crate::error::{Result, Rule};
use crate::limits::Limits;
use crate::wire::npy;
use holdall_collections::DebugUnwrap;

/// The codec for an `.npy` file in one Deflate stream, whose header is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeflateNpy;

impl Encoding {
    /// An `.npy` file in one Deflate stream; the file's header is skipped.
    pub const DEFLATE_NPY: Encoding = Encoding::from_known_name("deflate_npy");
}

impl Codec for DeflateNpy {
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        deflate::max_decoded_len(stored_len)
    }

    fn stream(&self, _: u64, _: &Limits) -> Box<dyn StreamDecoder> {
        Box::new(Stream { inner: deflate::Stream::new(), header: Some(Vec::new()) })
    }

    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    fn length_rule(&self) -> &'static Rule {
        &LENGTH
    }
}

struct Stream {
    inner: deflate::Stream,
    /// The decoded bytes of the header, until it is complete.
    header: Option<Vec<u8>>,
}

impl StreamDecoder for Stream {
    /// In addition to the errors of Deflate, returns an error if the header's length is invalid.
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
        let Some(mut header) = self.header.take() else { return self.inner.decode(input, out) };
        let mut read = 0;
        loop {
            // Limited by `header_len`.
            let len = match header.len() {
                0..NPY_START => NPY_START as u64,
                _ => npy::header_len(&header)?,
            };
            let missing = usize::try_from(len).debug_unwrap().saturating_sub(header.len());
            if missing == 0 {
                let (used, written) = self.inner.decode(input.get(read..).debug_unwrap(), out)?;
                return Ok((read.saturating_add(used), written));
            }
            let at = header.len();
            header.resize(at.saturating_add(missing), 0);
            let room = header.get_mut(at..).debug_unwrap();
            let (used, written) = self.inner.decode(input.get(read..).debug_unwrap(), room)?;
            header.truncate(at.saturating_add(written));
            read = read.saturating_add(used);
            if (used, written) == (0, 0) {
                self.header = Some(header);
                return Ok((read, 0));
            }
        }
    }

    fn end(&self) -> Result<()> {
        self.inner.end()
    }
}

/// The first bytes of an `.npy` file, which contain the length of its header.
const NPY_START: usize = 12;
