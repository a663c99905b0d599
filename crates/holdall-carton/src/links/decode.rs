//! Content encodings: how a server encoded a file to send it.

use super::rules::{ENCODED, TOO_LONG};
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use holdall_core::error::Shown as _;
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
pub(super) enum Coding {
    Identity,
    Zstd,
    Gzip,
    Brotli,
    Deflate,
}

impl Coding {
    /// Returns the encoding with this name in the header.
    pub(super) fn by_name(name: Option<&str>) -> Result<Coding> {
        Ok(match name {
            None => Coding::Identity,
            Some("zstd") => Coding::Zstd,
            Some("gzip" | "x-gzip") => Coding::Gzip,
            Some("br") => Coding::Brotli,
            Some("deflate") => Coding::Deflate,
            Some(name) => {
                return Err(ENCODING.broken(format!("the content encoding is `{}`", name.shown())));
            }
        })
    }
}

/// Counters of a body while it is decoded.
#[derive(Default)]
pub(super) struct Seen {
    received: Cell<u64>,
    failed: RefCell<Option<FailedTry>>,
}

/// Reads the bytes of a body, counts them and reports progress.
pub(super) struct Wire<'a> {
    pub(super) body: &'a mut Body,
    /// Bytes of the file that were received before.
    pub(super) before: u64,
    /// Maximum total of bytes.
    pub(super) cap: u64,
    pub(super) progress: &'a mut ReportedProgress,
    pub(super) seen: &'a Seen,
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

    pub(super) fn reach(&mut self, bytes: u64) -> Result<()> {
        let more = bytes.saturating_sub(self.bytes);
        self.bytes += more;
        if more > 0 { self.work.advance(more) } else { Ok(()) }
    }
}

impl Read for Wire<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let failed = match self.body.next(out) {
            Ok(n) => {
                let received = self.seen.received.get() + n as u64;
                self.seen.received.set(received);
                let all = self.before + received;
                let reported = match all <= self.cap {
                    true => self.progress.reach(all),
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
        *self.seen.failed.borrow_mut() = Some(failed);
        Err(io::Error::other("the body ended"))
    }
}

/// Decodes all bytes of `wire` in bounded memory, and passes them on piece by piece.
pub(super) fn decode(
    coding: Coding,
    wire: Wire<'_>,
    limits: &Limits,
    piece: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<(), FailedTry> {
    let seen = wire.seen;
    let failed = |e: &io::Error| match seen.failed.borrow_mut().take() {
        Some(failed) => failed,
        None => garbled(coding, e),
    };
    let mut from = undo(coding, wire, limits).map_err(|e| failed(&e))?;
    let mut buffer = vec![0; 256 << 10];
    let mut decoded = 0u64;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                decoded += n as u64;
                let received = seen.received.get();
                let most = limits.decoded_len.max(received.saturating_mul(limits.expansion));
                if coding != Coding::Identity && decoded > most {
                    return Err(bomb(received, most));
                }
                piece(&buffer[..n])?;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(&e)),
        }
    }
}

fn undo<'a>(coding: Coding, wire: Wire<'a>, limits: &Limits) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match coding {
        Coding::Identity => Box::new(wire),
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(wire)?;
            decoder.window_log_max(limits.zstd_window_log.clamp(10, 31))?;
            Box::new(decoder)
        }
        Coding::Gzip => Box::new(MultiGzDecoder::new(wire)),
        Coding::Brotli => Box::new(brotli_decompressor::Decompressor::new(wire, 64 << 10)),
        Coding::Deflate => {
            let mut wire = wire;
            let mut start = Vec::new();
            wire.by_ref().take(2).read_to_end(&mut start)?;
            // By its name it is zlib, but many servers send raw deflate. A zlib header is a multiple of 31
            // with 8 in its low bits; raw data that begins so would have to begin with nonzero padding.
            let is_zlib = matches!(start[..], [first, second]
                if first & 15 == 8 && (u16::from(first) << 8 | u16::from(second)).is_multiple_of(31));
            let whole = io::Cursor::new(start).chain(wire);
            if is_zlib {
                Box::new(ZlibDecoder::new(whole))
            } else {
                Box::new(DeflateDecoder::new(whole))
            }
        }
    })
}

#[cold]
fn bomb(received: u64, most: u64) -> FailedTry {
    TOO_LONG.broken(format!("{received} bytes decode to more than {most}")).into()
}

#[cold]
fn garbled(coding: Coding, e: &io::Error) -> FailedTry {
    let name = match coding {
        Coding::Identity => "identity",
        Coding::Zstd => "zstd",
        Coding::Gzip => "gzip",
        Coding::Brotli => "br",
        Coding::Deflate => "deflate",
    };
    // The decoder's error is not kept as the cause, since it is not an error of the system.
    ENCODED.broken(format!("the content encoding `{name}` does not decode: {e}")).into()
}
