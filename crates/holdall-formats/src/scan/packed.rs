//! Scans data that is compressed by gzip, zlib or zstd, or in an entry of a zip. Other compressions are recognized, but
//! not opened.

use super::sequence::Elements;
use super::{Found, HEAD, Job, Region, Scan, ScanTarget, index, keras, tar, too_long, zip};
use crate::scan::trace::{End, Input, Trace};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_core::error::Error;
use holdall_core::limits::Limits;
use holdall_core::model::Encoding;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::npy;
use holdall_core::wire::pickle::{PACKED, TOO_LONG};
use std::ops::Range;

/// A supported compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    /// Members of gzip.
    Gzip,
    /// Streams of zlib, the first from this offset on.
    Zlib { at: u64 },
    /// Frames of zstd.
    Zstd,
    /// One stream of Deflate.
    Deflate,
}

/// The first bytes of archives and compressed files that are not opened, and the names of their formats.
const UNSUPPORTED: [(&[u8], &str); 8] = [
    (b"BZ", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"\x5d\x00", "LZMA"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "RAR"),
    (b"\x04\x22\x4d\x18", "LZ4"),
    (b"\x1f\x9d", "compress"),
    (b"MSCF\0\0\0\0", "a cabinet"),
];
/// The number of stored bytes that are decompressed first, to decide whether the rest is of interest.
const STORED_HEAD: u64 = 64 << 10;

/// Returns the compression of a file with these first bytes. The error is the name of an unsupported compression.
pub(super) fn detect_compression(head: &[u8]) -> Option<Result<Compression, &'static str>> {
    let known = match *head {
        [0x1f, 0x8b, ..] => Some(Compression::Gzip),
        [0x78, flags, ..] if zlib_starts([0x78, flags]) => Some(Compression::Zlib { at: 0 }),
        // The form of joblib before 0.10: the length in hexadecimal, in 19 or 20 bytes.
        [b'Z', b'F', b'0', b'x', ..] => match head.get(21) {
            Some(b' ') => Some(Compression::Zlib { at: 22 }),
            _ => Some(Compression::Zlib { at: 21 }),
        },
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Some(Compression::Zstd)
        }
        _ => None,
    };
    // The mark of bzip2 is followed by the block size. The first byte of LZMA data is 0, but old readers do not check
    // it.
    let is_closed = |(magic, what): &&(&[u8], &str)| match *what {
        "LZMA" => head.starts_with(magic) || head.get(13) == Some(&0) && is_lzma(head),
        "bzip2" => {
            head.starts_with(b"BZh") && head.get(3).is_some_and(|b| (b'1'..=b'9').contains(b))
        }
        _ => head.starts_with(magic),
    };
    let closed = || UNSUPPORTED.iter().find(is_closed).map(|(_, what)| Err(*what));
    known.map(Ok).or_else(closed)
}

/// Returns `true` for a header of LZMA that is accepted by readers of several compressions: properties, a dictionary
/// size that is a power of two or three times one, and a length that is plausible or unknown.
fn is_lzma(head: &[u8]) -> bool {
    let Some((&[properties, a, b, c, d], rest)) = head.split_first_chunk::<5>() else {
        return false;
    };
    let dictionary = u32::from_le_bytes([a, b, c, d]);
    let odd = dictionary >> dictionary.trailing_zeros().min(31);
    let Some(len) = rest.first_chunk::<8>().map(|len| u64::from_le_bytes(*len)) else {
        return false;
    };
    properties < 225
        && dictionary >= 4096
        && matches!(odd, 1 | 3 | u32::MAX)
        && (len == u64::MAX || (1..1 << 38).contains(&len))
}

/// Returns `true` if these bytes begin a stream of zlib that needs no dictionary.
fn zlib_starts([method, flags]: [u8; 2]) -> bool {
    method & 15 == 8 && u16::from_be_bytes([method, flags]) % 31 == 0 && flags & 0x20 == 0
}

impl Scan {
    /// Scans the decompressed data of a region.
    pub(super) fn scan_compressed(
        &self,
        compression: Compression,
        is_entry: bool,
        job: &Job,
        window: &Window,
        found: &mut Found,
    ) -> Result<(), Stop> {
        let stored = window.head(STORED_HEAD.min(self.most()))?;
        let is_all = stored.len() as u64 == window.len();
        let head = decode(compression, &stored, is_all, 0..HEAD, &self.limits);
        found.decoded = head.bytes.len() as u64;
        let is_nothing = head.bytes.is_empty() && !head.has_more;
        if let Some(e) = head.refused {
            found.unread(job, e);
        }
        let what = find_interest(&head.bytes, head.has_more);
        if what == Interest::None {
            found.report.files = found.report.files.saturating_add(u64::from(is_entry));
            return Ok(());
        }
        let most_decoded = self.limits.decoded_len.saturating_sub(self.decoded);
        let stored = window.head(self.most())?;
        let is_all = stored.len() as u64 == window.len();
        let most = self.most().min(most_decoded);
        let skip = match what {
            Interest::After(at) if at > most => at.min(most_decoded),
            _ => 0,
        };
        let all =
            decode(compression, &stored, is_all, skip..skip.saturating_add(most), &self.limits);
        found.decoded = all.skipped.saturating_add(all.bytes.len() as u64);
        if is_nothing && !is_entry {
            return Ok(());
        }
        let (what, region) = match skip {
            0 => (ScanTarget::File, Region::Memory(all.bytes)),
            _ => {
                found.report.files = found.report.files.saturating_add(1);
                (ScanTarget::Sequence { at: 0 }, Region::Memory(all.bytes))
            }
        };
        let inside = job.for_inner_file(what, region, job.name.clone());
        let depth = if is_entry { job.depth } else { inside.depth };
        found.next.push(Job { depth, ..inside });
        match all.refused {
            Some(e) if head.has_more => found.unread(job, e),
            _ if all.has_more && most == most_decoded => {
                let message = format!(
                    "it decompresses to more than {most_decoded} bytes, which is the rest of `Limits::decoded_len`"
                );
                found.unread(job, TOO_LONG.broken(message));
            }
            _ if all.has_more => found.unread(job, too_long(self.most())),
            _ => {}
        }
        Ok(())
    }
}

/// The reason to decompress further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interest {
    None,
    /// A pickle or an archive may begin with the bytes.
    All,
    /// The bytes begin an array of numbers: a pickle may begin at its end.
    After(u64),
}

/// Returns whether a loader may find a pickle, or another archive, in data with these first bytes.
fn find_interest(head: &[u8], has_more: bool) -> Interest {
    if head.starts_with(npy::MAGIC_BYTES) {
        let len = npy::header_len(head).ok();
        let header = len.and_then(|len| head.get(..usize::try_from(len).ok()?));
        return match header.map(Elements::read).zip(len) {
            Some((Elements::Numbers(elements), len)) => {
                Interest::After(len.saturating_add(elements))
            }
            _ => Interest::All,
        };
    }
    let total = if has_more { u64::MAX } else { head.len() as u64 };
    let trace = Trace::new(Input { bytes: head, total, max_values: HEAD, is_first: true });
    let is_archive = zip::starts(head) || tar::starts(head) || detect_compression(head).is_some();
    let is_nothing = !is_archive
        && !index::starts(head)
        && !keras::starts(head)
        && matches!(trace.end, End::Raised(_))
        && !trace.is_pickle();
    // Short data is always analyzed, which costs nothing.
    if is_nothing && has_more { Interest::None } else { Interest::All }
}

/// The result of decompressing stored bytes.
#[derive(Default)]
struct Decoded {
    bytes: Bytes,
    /// The number of bytes before those, which were not kept.
    skipped: u64,
    /// Whether there is more data than requested or available.
    has_more: bool,
    /// The reason why data was not decompressed, if a loader might do it.
    refused: Option<Error>,
}

/// Decompresses the bytes `wanted` of the data in `stored`, up to an error, because a loader also gets the data before
/// an error.
fn decode(
    compression: Compression,
    stored: &[u8],
    is_all: bool,
    wanted: Range<u64>,
    limits: &Limits,
) -> Decoded {
    let mut out = Output { wanted, ..Output::default() };
    let mut refused = None;
    let mut at = 0usize;
    // One stream after the other.
    let has_more = loop {
        let rest = stored.get(at..).unwrap_or_default();
        let Some(start) = header_len(compression, rest, at == 0) else { break !is_all };
        let body = rest.get(start..).unwrap_or_default();
        let before = out.mark();
        let mut end = inflate(compression, body, usize::MAX, &mut out, limits);
        if let StreamEnd::Broken { read, .. } = end
            && compression != Compression::Zstd
        {
            // The output of the last bytes before an error is lost, unless they are decompressed one by one.
            out.reset(before);
            end = inflate(compression, body, read, &mut out, limits);
        }
        match end {
            StreamEnd::Whole { read } => at = at.saturating_add(start).saturating_add(read),
            StreamEnd::Short => break !is_all,
            StreamEnd::Enough => break true,
            // Every reader reports the same errors in Deflate data. Readers of zstd differ in windows and dictionaries.
            StreamEnd::Broken { error, .. } => {
                if compression == Compression::Zstd {
                    let message =
                        format!("it is compressed by zstd, and could not be decompressed: {error}");
                    refused = Some(PACKED.broken(message));
                }
                break false;
            }
        }
        if compression == Compression::Deflate {
            break false;
        }
        at = at.saturating_add(if compression == Compression::Gzip { 8 } else { 4 });
        if compression == Compression::Gzip {
            let zeros = stored.get(at..).unwrap_or_default();
            at = at.saturating_add(zeros.iter().take_while(|byte| **byte == 0).count());
        }
        if at >= stored.len() {
            break !is_all;
        }
    };
    Decoded { bytes: out.bytes.into(), skipped: out.skipped, has_more, refused }
}

/// How the decompression of a stream ended.
enum StreamEnd {
    /// With the stream, after this many bytes.
    Whole { read: usize },
    /// With the available bytes.
    Short,
    /// With as many bytes as requested.
    Enough,
    /// With an error after this many bytes.
    Broken { read: usize, error: Error },
}

/// The number of bytes that are decompressed in one call.
const STEP: usize = 4 << 10;

/// Decompresses a stream, one byte at a time from offset `exact_from` on.
fn inflate(
    compression: Compression,
    stored: &[u8],
    exact_from: usize,
    out: &mut Output,
    limits: &Limits,
) -> StreamEnd {
    let encoding =
        if compression == Compression::Zstd { Encoding::ZSTD } else { Encoding::DEFLATE };
    let Some(mut stream) = encoding.stream(1, limits) else { return StreamEnd::Short };
    let mut piece = vec![0; 64 << 10];
    let mut read = 0usize;
    loop {
        if out.is_full() {
            return StreamEnd::Enough;
        }
        let rest = stored.get(read..).debug_unwrap();
        let step = if read < exact_from { STEP.min(exact_from.saturating_sub(read)) } else { 1 };
        let input = rest.get(..step).unwrap_or(rest);
        match stream.decode(input, &mut piece) {
            Ok((used, made)) => {
                read = read.saturating_add(used);
                out.take(piece.get(..made).debug_unwrap());
                // A zstd decoder continues with the next frame by itself.
                if compression != Compression::Zstd && stream.end().is_ok() {
                    return StreamEnd::Whole { read };
                }
                if (used, made) == (0, 0) {
                    return StreamEnd::Short;
                }
            }
            Err(error) => return StreamEnd::Broken { read, error },
        }
    }
}

/// Decompressed data, of which a part is requested.
#[derive(Default)]
struct Output {
    wanted: Range<u64>,
    bytes: Vec<u8>,
    /// The number of bytes before the requested ones.
    skipped: u64,
}

impl Output {
    fn is_full(&self) -> bool {
        self.skipped.saturating_add(self.bytes.len() as u64) >= self.wanted.end
    }

    fn take(&mut self, made: &[u8]) {
        let passing = self.wanted.start.saturating_sub(self.skipped).min(made.len() as u64);
        self.skipped = self.skipped.saturating_add(passing);
        let left = usize::try_from(passing).ok().and_then(|at| made.get(at..)).unwrap_or_default();
        let room =
            self.wanted.end.saturating_sub(self.skipped).saturating_sub(self.bytes.len() as u64);
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(left.len());
        self.bytes.extend_from_slice(left.get(..room).debug_unwrap());
    }

    fn mark(&self) -> (u64, usize) {
        (self.skipped, self.bytes.len())
    }

    fn reset(&mut self, (skipped, len): (u64, usize)) {
        self.skipped = skipped;
        self.bytes.truncate(len);
    }
}

/// Returns the number of bytes before a Deflate stream; `None` if there is no stream.
fn header_len(compression: Compression, bytes: &[u8], is_first: bool) -> Option<usize> {
    match compression {
        Compression::Zstd | Compression::Deflate => Some(0),
        Compression::Zlib { at } => {
            let at = if is_first { usize::try_from(at).ok()? } else { 0 };
            let header = bytes.get(at..at.checked_add(2)?)?;
            zlib_starts(header.try_into().ok()?).then_some(at.checked_add(2)?)
        }
        Compression::Gzip => {
            let [0x1f, 0x8b, 8, flags, ..] = *bytes else { return None };
            let mut at = 10usize;
            if flags & 4 != 0 {
                let len = bytes.get(at..at.checked_add(2)?)?;
                let len = u16::from_le_bytes(len.try_into().ok()?);
                at = at.checked_add(2)?.checked_add(len.into())?;
            }
            // A name and a comment, each ending with NUL.
            for flag in [8, 16] {
                if flags & flag != 0 {
                    let len = memchr::memchr(0, bytes.get(at..)?)?;
                    at = at.checked_add(len)?.checked_add(1)?;
                }
            }
            if flags & 2 != 0 {
                at = at.checked_add(2)?;
            }
            Some(at)
        }
    }
}
