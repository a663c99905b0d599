//! Pipelines: decoding chunks of arrays that several codecs encoded, one after the other.

use super::{Codec, StreamDecoder};
use crate::error::{Error, Result};
use holdall_collections::DebugUnwrap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The stored bytes of a chunk are malformed.
    pub BROKEN: Malformed "chunks/broken"
        "The stored bytes of a chunk decode, through its filters, to exactly one chunk.";
    /// A chunk differs from its checksum.
    pub CHECKSUM: Integrity "chunks/checksum"
        "The bytes of a chunk match the Fletcher-32 checksum that follows them."
        hint "the bytes changed since they were written: fetch or restore the file again";
}

/// One step in which chunks are encoded: a codec with its parameters.
#[derive(Clone)]
pub struct Step(Arc<dyn Codec>);

impl Step {
    /// Creates a step from a codec.
    pub fn new(codec: impl Codec + 'static) -> Step {
        Step(Arc::new(codec))
    }

    /// Creates a step from a codec that others use as well.
    pub fn shared(codec: Arc<impl Codec + 'static>) -> Step {
        Step(codec)
    }
}

impl Deref for Step {
    type Target = dyn Codec;

    fn deref(&self) -> &(dyn Codec + 'static) {
        &*self.0
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Decodes a chunk by undoing `steps` in reverse order, except those whose bit in `skipped_steps` is set. The result
/// must have `len` bytes.
///
/// # Errors
/// Returns an error of [`RULES`] if the stored bytes are malformed.
pub fn decode(steps: &[Step], skipped_steps: u32, stored: &[u8], len: usize) -> Result<Vec<u8>> {
    let mut bytes: Option<Vec<u8>> = None;
    for (number, step) in steps.iter().enumerate().rev() {
        if is_skipped(skipped_steps, number) {
            continue;
        }
        let input = bytes.as_deref().unwrap_or(stored);
        // Earlier steps may have added headers, checksums, and bytes between members.
        let len = len_before(steps, number, len);
        let most = len.saturating_add(len / 8).saturating_add(SLACK);
        bytes = Some(step.decode_chunk(input, len, most)?);
    }
    let bytes = bytes.unwrap_or_else(|| stored.to_vec());
    if bytes.len() != len {
        return Err(BROKEN.broken(format!(
            "decodes to {} bytes, expected {len}, the bytes of a chunk",
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// Decodes all of `stored` with a stream to about `likely` bytes, and at most `most`.
///
/// # Errors
/// Returns [`BROKEN`] if the result is too long or bytes follow the stream, and the errors of the stream.
pub(super) fn decode_streamed(
    mut stream: Box<dyn StreamDecoder>,
    stored: &[u8],
    likely: usize,
    most: usize,
) -> Result<Vec<u8>> {
    let mut rest = stored;
    let mut out = vec![0; likely.saturating_add(1).min(most)];
    let mut filled = 0;
    loop {
        if filled == out.len() {
            if filled > most {
                return Err(broken(format!("decodes to more than {most} bytes")));
            }
            out.resize(filled.saturating_add(SLACK), 0);
        }
        let room = out.get_mut(filled..).debug_unwrap();
        let (read, mut written) = stream.decode(rest, room)?;
        rest = rest.get(read..).debug_unwrap();
        if (read, written) == (0, 0) && rest.is_empty() {
            written = stream.flush(room)?;
        }
        filled = filled.saturating_add(written);
        if (read, written) == (0, 0) {
            break;
        }
    }
    stream.end()?;
    if !rest.is_empty() {
        return Err(broken(format!("{} bytes follow the end of the stream", rest.len())));
    }
    if filled > most {
        return Err(broken(format!("decodes to more than {most} bytes")));
    }
    out.truncate(filled);
    Ok(out)
}

/// Returns the length of a chunk of `len` bytes after the steps before step `number`, as far as known. It is within the
/// limits, because chunk and steps were checked together.
fn len_before(steps: &[Step], number: usize, len: usize) -> usize {
    let before = steps.iter().take(number);
    let before = before.fold(len as u64, |len, step| step.chunk_len_before(len));
    usize::try_from(before).unwrap_or(usize::MAX)
}

/// Returns `true` if a chunk skipped the step at index `number`.
pub fn is_skipped(skipped_steps: u32, number: usize) -> bool {
    number < 32 && (skipped_steps >> number) & 1 == 1
}

/// Bytes that steps may add to a chunk, in addition to a fraction of its length.
pub(super) const SLACK: usize = 256;

#[cold]
pub(super) fn broken(message: String) -> Error {
    BROKEN.broken(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::columns::ColumnMajor;
    use crate::codec::fletcher32::Fletcher32;
    use crate::codec::mask::Mask;
    #[cfg(feature = "deflate")]
    use crate::codec::zlib::Zlib;

    #[test]
    fn steps_are_undone() {
        let masked = [Step::new(Mask::new([0, 0x80]))];
        assert_eq!(decode(&masked, 0, &[1, 2, 3, 0x84, 5], 5).unwrap(), [1, 0x82, 3, 4, 5]);
        // [[1, 2, 3], [4, 5, 6]] in pairs of bytes.
        let columns = [Step::new(ColumnMajor::new(&[2, 3], 2))];
        let stored = [1, 1, 4, 4, 2, 2, 5, 5, 3, 3, 6, 6];
        assert_eq!(decode(&columns, 0, &stored, 12).unwrap(), [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]);
        assert_eq!(decode(&columns, 0, &stored[..11], 12).unwrap_err().code(), "chunks/broken");
        // 0x0102 + 0x0304, 0x0102 + (0x0102 + 0x0304).
        let summed = [1, 2, 3, 4, 0x06, 0x04, 0x08, 0x05];
        let sum = || [Step::new(Fletcher32)];
        assert_eq!(decode(&sum(), 0, &summed, 4).unwrap(), [1, 2, 3, 4]);
        assert_eq!(decode(&sum(), 1, &summed, 8).unwrap(), summed);
        let other = [1, 2, 3, 5, 0x06, 0x04, 0x08, 0x05];
        assert_eq!(decode(&sum(), 0, &other, 4).unwrap_err().code(), "chunks/checksum");
    }

    #[cfg(feature = "deflate")]
    #[test]
    fn one_zlib_stream_is_a_chunk() {
        let zlib = [0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x06, 0x00, 0x02, 0x4d, 0x01, 0x27];
        let steps = [Step::new(Zlib)];
        let code = |found: Result<Vec<u8>>| found.unwrap_err().code();
        assert_eq!(decode(&steps, 0, &zlib, 3).unwrap(), b"abc");
        assert_eq!(code(decode(&steps, 0, &zlib, 4)), "chunks/broken");
        assert_eq!(code(decode(&steps, 0, &zlib[..9], 3)), "chunks/broken");
        assert_eq!(code(decode(&steps, 0, &[&zlib[..], b"x"].concat(), 3)), "chunks/broken");
        // The same with the default implementation for codecs.
        let limits = crate::limits::Limits::default();
        let streamed = |len, most| decode_streamed(Zlib.stream(1, &limits), &zlib, len, most);
        assert_eq!(streamed(3, 3).unwrap(), b"abc");
        assert_eq!(streamed(1, 3).unwrap(), b"abc");
        assert_eq!(code(streamed(1, 2)), "chunks/broken");
    }
}
