//! Deflate with zlib's header and checksum, as HDF5's filter `deflate` writes it.

use super::pipeline::BROKEN;
#[cfg(feature = "deflate")]
use super::pipeline::{SLACK, broken};
use super::{Codec, DecodedLen, StreamDecoder, deflate};
use crate::error::{Result, Rule};
use crate::limits::Limits;
#[cfg(feature = "deflate")]
use flate2::{Decompress, FlushDecompress, Status};
#[cfg(feature = "deflate")]
use holdall_collections::DebugUnwrap;

/// The codec for one zlib stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zlib;

impl Codec for Zlib {
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        deflate::max_decoded_len(stored_len)
    }

    fn stream(&self, _: u64, _: &Limits) -> Box<dyn StreamDecoder> {
        Box::new(Stream(deflate::Stream::new_zlib()))
    }

    // Decodes into memory that was not cleared.
    fn decode_chunk(&self, stored: &[u8], likely: usize, most: usize) -> Result<Vec<u8>> {
        inflate(stored, likely, most)
    }

    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    fn length_rule(&self) -> &'static Rule {
        &BROKEN
    }
}

struct Stream(deflate::Stream);

impl StreamDecoder for Stream {
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
        self.0.decode(input, out).map_err(as_chunk)
    }

    fn end(&self) -> Result<()> {
        self.0.end().map_err(as_chunk)
    }
}

/// Converts an error of Deflate to one of chunks, unless Deflate is not built in.
fn as_chunk(e: crate::error::Error) -> crate::error::Error {
    if e.code() == deflate::BROKEN.code { e.with_rule(&BROKEN) } else { e }
}

#[cfg(not(feature = "deflate"))]
fn inflate(_: &[u8], _: usize, _: usize) -> Result<Vec<u8>> {
    Err(super::NOT_BUILT.broken("this build does not include Deflate"))
}

/// Decodes a zlib stream of about `len` bytes, at most `most`.
#[cfg(feature = "deflate")]
fn inflate(stored: &[u8], len: usize, most: usize) -> Result<Vec<u8>> {
    let mut stream = Decompress::new(true);
    let mut out = Vec::new();
    // At most what the stored bytes can decode to, in case a file claims a wrong `len`.
    let likely = len.saturating_add(1).min(stored.len().saturating_mul(1032));
    out.reserve_exact(likely);
    loop {
        let read = usize::try_from(stream.total_in()).unwrap_or(usize::MAX);
        let input = stored.get(read..).debug_unwrap();
        let before = (stream.total_in(), out.len());
        let status =
            stream.decompress_vec(input, &mut out, FlushDecompress::None).map_err(|e| {
                broken(format!("invalid zlib data: {}", e.message().unwrap_or("no code")))
            })?;
        if status == Status::StreamEnd {
            let left = (stored.len() as u64).saturating_sub(stream.total_in());
            return match left {
                0 => Ok(out),
                _ => Err(broken(format!("{left} bytes follow the end of the stream"))),
            };
        }
        if out.len() > most {
            return Err(broken(format!("decodes to more than {most} bytes")));
        }
        if out.len() == out.capacity() {
            out.reserve(SLACK);
        } else if (stream.total_in(), out.len()) == before {
            return Err(deflate::cut_short().with_rule(&BROKEN));
        }
    }
}
