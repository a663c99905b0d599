//! Deflate under a limit: one stream, without a header.
//!
//! A stream says where it ends, but not how long it is when decoded, so nothing is decoded without a
//! length that somebody declared, and the stream must end exactly there, with its last stored byte.

use crate::error::{Error, Result};
use crate::wire::npy;
#[cfg(feature = "deflate")]
use flate2::{Decompress, FlushDecompress, Status};

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The stored bytes are not Deflate, or more or less than one stream.
    pub BROKEN: Malformed "deflate/broken" "A Deflate component is one complete stream.";
    /// More or fewer bytes than declared.
    pub LENGTH: Malformed "deflate/length"
        "A Deflate component decodes to exactly the length that the file or the shape declares.";
}

/// Decodes all of `stored` by `stream`, which is fresh, into exactly `out`.
///
/// # Errors
/// [`BROKEN`]; [`LENGTH`] when the stream holds more or fewer bytes than `out`.
pub fn decode_into(mut stream: Stream, stored: &[u8], out: &mut [u8]) -> Result<()> {
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
    #[cfg(feature = "deflate")]
    inflate: Decompress,
    whole: bool,
    /// What was decoded of the header of an `.npy` file, which is left out, until all of it was.
    header: Option<Vec<u8>>,
}

impl Stream {
    /// Nothing decoded yet.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Stream {
        Stream {
            #[cfg(feature = "deflate")]
            inflate: Decompress::new(false),
            whole: false,
            header: None,
        }
    }

    /// Nothing decoded yet of an `.npy` file, whose header will be left out.
    pub fn of_npy() -> Stream {
        Stream { header: Some(Vec::new()), ..Stream::new() }
    }

    /// Decodes from `input` into `out`; returns how many bytes of each were used. Nothing written
    /// and nothing read means more input is needed.
    ///
    /// # Errors
    /// [`BROKEN`], also when there is input after the end of the stream; what is wrong with the length of an `.npy` header.
    pub fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
        let Some(mut header) = self.header.take() else { return self.inflate(input, out) };
        let mut read = 0;
        loop {
            // At most what `header_len` allows.
            let len = match header.len() {
                0..NPY_START => NPY_START as u64,
                _ => npy::header_len(&header)?,
            };
            let missing = usize::try_from(len).unwrap_or(0).saturating_sub(header.len());
            if missing == 0 {
                let (used, written) = self.inflate(input.get(read..).unwrap_or_default(), out)?;
                return Ok((read.saturating_add(used), written));
            }
            let at = header.len();
            header.resize(at.saturating_add(missing), 0);
            let room = header.get_mut(at..).unwrap_or_default();
            let (used, written) = self.inflate(input.get(read..).unwrap_or_default(), room)?;
            header.truncate(at.saturating_add(written));
            read = read.saturating_add(used);
            if (used, written) == (0, 0) {
                self.header = Some(header);
                return Ok((read, 0));
            }
        }
    }

    #[cfg(not(feature = "deflate"))]
    fn inflate(&mut self, _: &[u8], _: &mut [u8]) -> Result<(usize, usize)> {
        Err(super::NOT_BUILT.broken("this build does not have Deflate"))
    }

    #[cfg(feature = "deflate")]
    fn inflate(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
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

/// Bytes that tell how long the header of an `.npy` file is.
const NPY_START: usize = 12;

#[cold]
pub(super) fn cut_short() -> Error {
    BROKEN.broken("the stored bytes end before the stream does")
}

#[cold]
fn goes_on(left: usize) -> Error {
    BROKEN.broken(format!("{left} or more bytes follow the end of the stream"))
}
