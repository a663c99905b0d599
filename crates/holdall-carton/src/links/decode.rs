//! Content encodings of HTTP responses.

use super::rules::{ENCODED, TOO_LONG};
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use holdall_core::error::Escape as _;
use holdall_core::{Limits, Result};
use holdall_io::Work;
use holdall_io::http::rules::{ENCODING, TOO_LONG as FETCHED};
use holdall_io::http::{Body, FailedTry};
use std::cell::{Cell, RefCell};
use std::io::{self, Read};

/// The content encodings that requests accept.
pub(super) const ACCEPTED: &str = "zstd, gzip, br, deflate";

/// One content encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentEncoding {
    Identity,
    Zstd,
    Gzip,
    Brotli,
    Deflate,
}

impl ContentEncoding {
    /// Returns the encoding with this name in the header.
    pub(super) fn by_name(name: Option<&str>) -> Result<ContentEncoding> {
        Ok(match name {
            None => ContentEncoding::Identity,
            Some("zstd") => ContentEncoding::Zstd,
            Some("gzip" | "x-gzip") => ContentEncoding::Gzip,
            Some("br") => ContentEncoding::Brotli,
            Some("deflate") => ContentEncoding::Deflate,
            Some(name) => {
                return Err(
                    ENCODING.broken(format!("the content encoding is `{}`", name.escaped()))
                );
            }
        })
    }
}

/// The state of a body while it is decoded: the number of bytes received, and the error that ended it.
#[derive(Default)]
pub(super) struct BodyState {
    received: Cell<u64>,
    failed: RefCell<Option<FailedTry>>,
}

/// A reader that counts the bytes of a body and reports progress.
pub(super) struct CountingBody<'a> {
    pub(super) body: &'a mut Body,
    /// Bytes of the file that were received before.
    pub(super) before: u64,
    /// Maximum total of bytes.
    pub(super) cap: u64,
    pub(super) progress: &'a mut ReportedProgress,
    pub(super) state: &'a BodyState,
}

/// The progress of a file: bytes that are received twice are reported once.
pub(super) struct ReportedProgress {
    pub(super) work: Work,
    pub(super) bytes: u64,
    pub(super) expected: Option<u64>,
}

impl ReportedProgress {
    /// Reports the file's total length, once even if called several times.
    pub(super) fn expect(&mut self, bytes: u64) {
        if self.expected.is_none() {
            self.work.begin(bytes);
            self.expected = Some(bytes);
        }
    }

    /// Reports progress up to a total of `bytes`.
    pub(super) fn report_up_to(&mut self, bytes: u64) -> Result<()> {
        let more = bytes.saturating_sub(self.bytes);
        self.bytes += more;
        if more > 0 { self.work.advance(more) } else { Ok(()) }
    }
}

impl Read for CountingBody<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let failed = match self.body.next(out) {
            Ok(n) => {
                let received = self.state.received.get() + n as u64;
                self.state.received.set(received);
                let all = self.before + received;
                let reported = match all <= self.cap {
                    true => self.progress.report_up_to(all),
                    false => {
                        let cap = self.cap;
                        Err(FETCHED.broken(format!("the server sent more than {cap} bytes")))
                    }
                };
                match reported {
                    Ok(()) => return Ok(n),
                    Err(e) => e.into(),
                }
            }
            Err(failed) => failed,
        };
        *self.state.failed.borrow_mut() = Some(failed);
        Err(io::Error::other("the body ended"))
    }
}

/// Decodes all bytes of a body in bounded memory, and passes them to `consume` piece by piece.
pub(super) fn decode(
    encoding: ContentEncoding,
    counting: CountingBody<'_>,
    limits: &Limits,
    consume: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<(), FailedTry> {
    let state = counting.state;
    let failed = |e: &io::Error| match state.failed.borrow_mut().take() {
        Some(failed) => failed,
        None => not_decodable(encoding, e),
    };
    let mut from = decoder(encoding, counting, limits).map_err(|e| failed(&e))?;
    let mut buffer = vec![0; 256 << 10];
    let mut decoded = 0u64;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                decoded += n as u64;
                let received = state.received.get();
                let most = limits.decoded_len.max(received.saturating_mul(limits.expansion));
                if encoding != ContentEncoding::Identity && decoded > most {
                    return Err(expands_too_much(received, most));
                }
                consume(&buffer[..n])?;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(&e)),
        }
    }
}

fn decoder<'a>(
    encoding: ContentEncoding,
    counting: CountingBody<'a>,
    limits: &Limits,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match encoding {
        ContentEncoding::Identity => Box::new(counting),
        ContentEncoding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(counting)?;
            decoder.window_log_max(limits.zstd_window_log.clamp(10, 31))?;
            Box::new(decoder)
        }
        ContentEncoding::Gzip => Box::new(MultiGzDecoder::new(counting)),
        ContentEncoding::Brotli => {
            Box::new(brotli_decompressor::Decompressor::new(counting, 64 << 10))
        }
        ContentEncoding::Deflate => {
            let mut counting = counting;
            let mut start = Vec::new();
            counting.by_ref().take(2).read_to_end(&mut start)?;
            // By its name it is zlib, but many servers send raw deflate. A zlib header is a multiple of 31
            // with 8 in its low bits; raw data that begins so would have to begin with nonzero padding.
            let is_zlib = matches!(start[..], [first, second]
                if first & 15 == 8 && (u16::from(first) << 8 | u16::from(second)).is_multiple_of(31));
            let whole = io::Cursor::new(start).chain(counting);
            if is_zlib {
                Box::new(ZlibDecoder::new(whole))
            } else {
                Box::new(DeflateDecoder::new(whole))
            }
        }
    })
}

#[cold]
fn expands_too_much(received: u64, most: u64) -> FailedTry {
    TOO_LONG.broken(format!("{received} bytes decode to more than {most}")).into()
}

#[cold]
fn not_decodable(encoding: ContentEncoding, e: &io::Error) -> FailedTry {
    let name = match encoding {
        ContentEncoding::Identity => "identity",
        ContentEncoding::Zstd => "zstd",
        ContentEncoding::Gzip => "gzip",
        ContentEncoding::Brotli => "br",
        ContentEncoding::Deflate => "deflate",
    };
    // The decoder's error is not kept as the cause, since it is not an error of the system.
    ENCODED.broken(format!("the content encoding `{name}` does not decode: {e}")).into()
}
