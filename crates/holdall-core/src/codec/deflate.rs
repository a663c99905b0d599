//! Deflate under a limit: one stream, without a header.
//!
//! A stream says where it ends, but not how long it is when decoded, so nothing is decoded without a
//! length that somebody declared, and the stream must end exactly there, with its last stored byte.

use crate::error::{Error, Result};
use flate2::{Decompress, FlushDecompress, Status};

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The stored bytes are not Deflate, or more or less than one stream.
    pub BROKEN: Malformed "deflate/broken" "A Deflate component is one whole stream.";
    /// More or fewer bytes than declared.
    pub LENGTH: Malformed "deflate/length"
        "A Deflate component decodes to exactly the length that the file or the shape declares.";
}

/// Decodes the stream `stored` into exactly `out`.
///
/// # Errors
/// [`BROKEN`]; [`LENGTH`] when the stream holds more or fewer bytes than `out`.
pub fn decode_into(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let mut stream = Stream::new();
    let (mut read, mut written) = (0, 0);
    let wanted = out.len();
    let mut beyond = [0u8];
    while !stream.is_whole() {
        let input = stored.get(read..).unwrap_or_default();
        // When the buffer is full, the end of the stream may still have to be read.
        let room = match out.get_mut(written..) {
            Some(room) if !room.is_empty() => room,
            _ => &mut beyond,
        };
        let done = stream.decode(input, room)?;
        if done == (0, 0) && !stream.is_whole() {
            return Err(cut_short());
        }
        (read, written) = (read.saturating_add(done.0), written.saturating_add(done.1));
        if written > wanted {
            return Err(LENGTH.broken(format!("decodes to more than the declared {wanted} bytes")));
        }
    }
    if read < stored.len() {
        return Err(goes_on(stored.len().saturating_sub(read)));
    }
    if written != wanted {
        return Err(LENGTH.broken(format!("decodes to {written} bytes, declared {wanted}")));
    }
    Ok(())
}

/// A stream being decoded piece by piece; memory is the 32 KiB that Deflate looks back.
pub struct Stream {
    inflate: Decompress,
    whole: bool,
}

impl Stream {
    /// Nothing decoded yet.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Stream {
        Stream { inflate: Decompress::new(false), whole: false }
    }

    /// Decodes from `input` into `out`; returns how many bytes of each were used. Nothing written
    /// and nothing read means more input is needed.
    ///
    /// # Errors
    /// [`BROKEN`], also when there is input after the end of the stream.
    pub fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
        if self.whole {
            return if input.is_empty() { Ok((0, 0)) } else { Err(goes_on(input.len())) };
        }
        let before = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(input, out, FlushDecompress::None).map_err(|e| {
            BROKEN.broken(format!("not Deflate: {}", e.message().unwrap_or("no code")))
        })?;
        self.whole = status == Status::StreamEnd;
        // Both are at most the lengths of the slices.
        let used = |after: u64, before: u64| after.saturating_sub(before) as usize;
        Ok((used(self.inflate.total_in(), before.0), used(self.inflate.total_out(), before.1)))
    }

    /// Whether the stream is at its end.
    pub fn is_whole(&self) -> bool {
        self.whole
    }
}

#[cold]
pub(super) fn cut_short() -> Error {
    BROKEN.broken("the stored bytes end before the stream does")
}

#[cold]
fn goes_on(left: usize) -> Error {
    BROKEN.broken(format!("{left} or more bytes follow the end of the stream"))
}
