//! What chunks of arrays go through before they are stored, undone.

#[cfg(feature = "deflate")]
use super::deflate;
use super::members::Members;
#[cfg(feature = "scale-offset")]
use super::scale_offset::ScaleOffset;
use crate::error::{Error, Result};
#[cfg(feature = "deflate")]
use flate2::{Decompress, FlushDecompress, Status};
use std::sync::Arc;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The stored bytes of a chunk are not what they should be.
    pub BROKEN: Malformed "chunks/broken"
        "The stored bytes of a chunk decode, through its filters, to exactly one chunk.";
    /// A chunk changed.
    pub CHECKSUM: Integrity "chunks/checksum"
        "The bytes of a chunk match the Fletcher-32 checksum that follows them."
        hint "the bytes changed since they were written: fetch or restore the file again";
}

/// One step that chunks went through when they were stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Filter {
    /// A zlib stream.
    Deflate,
    /// The first bytes of all elements, then the second ones, and so on; of elements of so many bytes.
    Shuffle(u32),
    /// A checksum of 4 bytes behind.
    Fletcher32,
    /// LZF, as h5py writes it.
    Lzf,
    /// HDF5's `scaleoffset`.
    #[cfg(feature = "scale-offset")]
    ScaleOffset(ScaleOffset),
    /// Records whose members lie otherwise.
    Members(Arc<Members>),
    /// Elements of so many bytes of an array of that shape whose first dimension varies fastest.
    Columns {
        /// Dimensions of the whole array, none of them 0.
        shape: Arc<[u64]>,
        /// Bytes of an element.
        width: u64,
    },
    /// Bits that are turned over: those of a pattern, which begins again where it ends.
    Turned(Arc<[u8]>),
    /// An `.npy` file with a header in front, as one stream of Deflate: the header is left out.
    DeflateNpy,
}

impl Filter {
    /// The most bytes that so many stored ones can be.
    pub fn most_decoded(&self, stored_len: u64) -> u64 {
        match self {
            Filter::Deflate | Filter::DeflateNpy => stored_len.saturating_mul(1032),
            Filter::Members(members) => members.decoded_len(stored_len),
            // How many that are is held to the limits; what they say may take no bits.
            #[cfg(feature = "scale-offset")]
            Filter::ScaleOffset(of) => of.decoded_len(),
            // Three bytes for 264.
            Filter::Lzf => stored_len.saturating_mul(88),
            Filter::Shuffle(_)
            | Filter::Fletcher32
            | Filter::Columns { .. }
            | Filter::Turned(_) => stored_len,
        }
    }
}

/// Undoes `filters`, which were applied in their order, all but those whose bit of `left_out` is set. `len` bytes must come out.
///
/// # Errors
/// [`RULES`].
pub fn decode(filters: &[Filter], left_out: u32, stored: &[u8], len: usize) -> Result<Vec<u8>> {
    let mut bytes: Option<Vec<u8>> = None;
    for (number, filter) in filters.iter().enumerate().rev() {
        if is_left_out(left_out, number) {
            continue;
        }
        let input = bytes.as_deref().unwrap_or(stored);
        // Filters before this one may have made it longer by their headers and checksums, and by what is between members.
        let len = stored_len_of(filters, number, len);
        let most = len.saturating_add(len / 8).saturating_add(SLACK);
        bytes = Some(match filter {
            Filter::Deflate => inflate(input, len, most)?,
            Filter::Lzf => unlzf(input, most)?,
            Filter::Shuffle(width) => unshuffle(input, *width as usize),
            Filter::Members(members) => members.decode(input)?,
            #[cfg(feature = "scale-offset")]
            Filter::ScaleOffset(of) => of.decode(input, most)?,
            Filter::Columns { shape, width } => by_rows(input, shape, *width as usize),
            Filter::Turned(bits) => {
                input.iter().zip(bits.iter().cycle()).map(|(byte, bits)| byte ^ bits).collect()
            }
            Filter::DeflateNpy => {
                let mut out = vec![0; len];
                super::deflate::decode_into(super::deflate::Stream::of_npy(), input, &mut out)?;
                out
            }
            Filter::Fletcher32 => checked(input)?.to_vec(),
        });
    }
    let bytes = bytes.unwrap_or_else(|| stored.to_vec());
    if bytes.len() != len {
        return Err(BROKEN.broken(format!("decodes to {} bytes, a chunk has {len}", bytes.len())));
    }
    Ok(bytes)
}

/// The bytes of a chunk of `len` behind the filters before number `number`, as far as those tell; at most what limits allow, for a chunk
/// was held to them with its filters.
fn stored_len_of(filters: &[Filter], number: usize, len: usize) -> usize {
    let before = filters.iter().take(number).fold(len as u64, |len, filter| match filter {
        Filter::Members(members) => members.stored_len(len),
        _ => len,
    });
    usize::try_from(before).unwrap_or(usize::MAX)
}

/// Whether a chunk did not go through the filter of that number.
pub fn is_left_out(left_out: u32, number: usize) -> bool {
    number < 32 && (left_out >> number) & 1 == 1
}

/// Bytes that filters may add to a chunk, beside a share of it.
const SLACK: usize = 256;

#[cfg(not(feature = "deflate"))]
fn inflate(_: &[u8], _: usize, _: usize) -> Result<Vec<u8>> {
    Err(super::NOT_BUILT.broken("this build does not have Deflate"))
}

/// A zlib stream of about `len` bytes, at most `most`.
#[cfg(feature = "deflate")]
fn inflate(stored: &[u8], len: usize, most: usize) -> Result<Vec<u8>> {
    let mut stream = Decompress::new(true);
    let mut out = Vec::new();
    // As much as there can be, where a file lies about `len`.
    let likely = len.saturating_add(1).min(stored.len().saturating_mul(1032));
    out.reserve_exact(likely);
    loop {
        let read = usize::try_from(stream.total_in()).unwrap_or(usize::MAX);
        let input = stored.get(read..).unwrap_or_default();
        let before = (stream.total_in(), out.len());
        let status = stream
            .decompress_vec(input, &mut out, FlushDecompress::None)
            .map_err(|e| broken(format!("not zlib: {}", e.message().unwrap_or("no code"))))?;
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
            return Err(deflate::cut_short().under(&BROKEN));
        }
    }
}

/// LZF: runs of bytes, and copies of earlier ones.
fn unlzf(stored: &[u8], most: usize) -> Result<Vec<u8>> {
    let short = || broken("the stored bytes end inside an LZF run".to_owned());
    let mut out: Vec<u8> = Vec::with_capacity(most.min(stored.len().saturating_mul(88)));
    let mut rest = stored;
    while let Some((&control, after)) = rest.split_first() {
        rest = after;
        let control = usize::from(control);
        if control < 32 {
            let (run, after) = rest.split_at_checked(control + 1).ok_or_else(short)?;
            out.extend_from_slice(run);
            rest = after;
        } else {
            let mut len = control >> 5;
            if len == 7 {
                let (&more, after) = rest.split_first().ok_or_else(short)?;
                (len, rest) = (len + usize::from(more), after);
            }
            let (&low, after) = rest.split_first().ok_or_else(short)?;
            rest = after;
            let back = ((control & 31) << 8) + usize::from(low) + 1;
            let from = out.len().checked_sub(back);
            let from = from.ok_or_else(|| broken("LZF looks back before the start".to_owned()))?;
            for at in from..from + len + 2 {
                out.push(out[at]);
            }
        }
        if out.len() > most {
            return Err(broken(format!("decodes to more than {most} bytes")));
        }
    }
    Ok(out)
}

/// The bytes of each element together again. What is not a whole element stays at the end.
fn unshuffle(bytes: &[u8], width: usize) -> Vec<u8> {
    let count = bytes.len() / width.max(1);
    if width <= 1 || count <= 1 {
        return bytes.to_vec();
    }
    let mut out = bytes.to_vec();
    for (plane, of_plane) in bytes.chunks_exact(count).take(width).enumerate() {
        for (to, from) in out[plane..].iter_mut().step_by(width).zip(of_plane) {
            *to = *from;
        }
    }
    out
}

/// Elements that are stored column by column, row by row.
fn by_rows(bytes: &[u8], shape: &[u64], width: usize) -> Vec<u8> {
    let count = bytes.len() / width.max(1);
    let element = |row: usize| {
        let (mut row, mut step, mut at) = (row, count, 0);
        for dim in shape.iter().rev().map(|dim| (*dim as usize).max(1)) {
            step /= dim;
            at += row % dim * step;
            row /= dim;
        }
        bytes.get(at * width..).and_then(|rest| rest.get(..width)).unwrap_or_default()
    };
    (0..count).flat_map(element).copied().collect()
}

/// The bytes before the checksum at their end.
fn checked(bytes: &[u8]) -> Result<&[u8]> {
    let Some((content, said)) = bytes.split_last_chunk::<4>() else {
        return Err(broken("there is no room for a checksum".to_owned()));
    };
    let (found, said) = (fletcher32(content), u32::from_le_bytes(*said));
    // Writers of before 1.6.3 on big-endian machines swapped the bytes of each half.
    let swapped = ((found & 0x00ff_00ff) << 8) | ((found >> 8) & 0x00ff_00ff);
    match found == said || swapped == said {
        true => Ok(content),
        false => {
            Err(CHECKSUM.broken(format!("the checksum is {found:#010x}, stored is {said:#010x}")))
        }
    }
}

/// Fletcher's checksum of 16-bit numbers, the high byte first.
fn fletcher32(bytes: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut a, mut b) = (0u32, 0u32);
    let (pairs, odd) = bytes.as_chunks::<2>();
    for block in pairs.chunks(360) {
        for pair in block {
            a += u32::from(u16::from_be_bytes(*pair));
            b += a;
        }
        (a, b) = (fold(a), fold(b));
    }
    if let [last] = odd {
        a += u32::from(*last) << 8;
        b += a;
        (a, b) = (fold(a), fold(b));
    }
    (fold(b) << 16) | fold(a)
}

#[cold]
fn broken(message: String) -> Error {
    BROKEN.broken(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_filters_made_is_undone() {
        assert_eq!(unshuffle(&[1, 3, 5, 2, 4, 6, 7], 2), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(unshuffle(&[1, 2, 3], 1), [1, 2, 3]);
        let turned = [Filter::Turned([0, 0x80].into())];
        assert_eq!(decode(&turned, 0, &[1, 2, 3, 0x84, 5], 5).unwrap(), [1, 0x82, 3, 4, 5]);
        // [[1, 2, 3], [4, 5, 6]] in pairs of bytes.
        let columns = [Filter::Columns { shape: [2, 3].into(), width: 2 }];
        let stored = [1, 1, 4, 4, 2, 2, 5, 5, 3, 3, 6, 6];
        assert_eq!(decode(&columns, 0, &stored, 12).unwrap(), [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]);
        assert_eq!(decode(&columns, 0, &stored[..11], 12).unwrap_err().code(), "chunks/broken");
        // "aaaaaaaaaa" and "b": a run of one, a copy of nine from one back, a run of one.
        assert_eq!(unlzf(&[0, b'a', 0xe0, 0, 0, 0, b'b'], 20).unwrap(), b"aaaaaaaaaab");
        assert_eq!(unlzf(&[0x20, 0], 20).unwrap_err().code(), "chunks/broken");
        // 0x0102 + 0x0304, 0x0102 + (0x0102 + 0x0304).
        let summed = [1, 2, 3, 4, 0x06, 0x04, 0x08, 0x05];
        assert_eq!(decode(&[Filter::Fletcher32], 0, &summed, 4).unwrap(), [1, 2, 3, 4]);
        assert_eq!(decode(&[Filter::Fletcher32], 1, &summed, 8).unwrap(), summed);
        let other = [1, 2, 3, 5, 0x06, 0x04, 0x08, 0x05];
        let code = |found: Result<Vec<u8>>| found.unwrap_err().code();
        assert_eq!(code(decode(&[Filter::Fletcher32], 0, &other, 4)), "chunks/checksum");
        let zlib = [0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x06, 0x00, 0x02, 0x4d, 0x01, 0x27];
        assert_eq!(decode(&[Filter::Deflate], 0, &zlib, 3).unwrap(), b"abc");
        assert_eq!(code(decode(&[Filter::Deflate], 0, &zlib, 4)), "chunks/broken");
        assert_eq!(code(decode(&[Filter::Deflate], 0, &zlib[..9], 3)), "chunks/broken");
        assert_eq!(
            code(decode(&[Filter::Deflate], 0, &[&zlib[..], b"x"].concat(), 3)),
            "chunks/broken"
        );
    }
}
