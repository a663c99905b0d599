//! Where the bytes of a package's files are, and streams of them.

use crate::error::io;
use crate::source::ByteSource;
use holdall_core::codec::{deflate, zstd};
use holdall_core::wire::zip::{CRC32, Crc32, Directory, Entry, Method};
use holdall_core::{Error, Limits, Result, Stop, Window};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The way to bytes, shared.
pub(super) type Source = Arc<dyn ByteSource>;

/// What a package was opened from.
pub(super) enum Origin {
    /// A zip.
    Zip { source: Source, directory: Directory },
    /// An unpacked folder.
    Folder(PathBuf),
}

/// Bytes of a zip's entry.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    /// In the zip.
    pub(super) range: Range<u64>,
    pub(super) method: Method,
    /// After decoding.
    pub(super) len: u64,
    pub(super) crc: u32,
}

impl Stored {
    /// Finds the bytes of an entry; its local header is read and checked.
    pub(super) fn find(
        source: &dyn ByteSource,
        directory: &Directory,
        entry: Entry<'_>,
    ) -> Result<Stored> {
        let mut window = Window::new(source.len());
        let first = directory.header(entry);
        window.add(first.start, source.read_now(first)?);
        let range = loop {
            match directory.data(entry, &window) {
                Ok(range) => break range,
                Err(Stop::Fail(e)) => return Err(e),
                Err(Stop::Need(ranges)) => {
                    for range in ranges {
                        window.add(range.start, source.read_now(range)?);
                    }
                }
            }
        };
        let (method, len, crc) = (entry.method(), entry.decoded_len(), entry.crc32());
        Ok(Stored { range, method, len, crc })
    }

    /// Holds what follows the bytes of an entry against the directory, where anything is said to.
    pub(super) fn check_descriptor(
        source: &dyn ByteSource,
        directory: &Directory,
        entry: Entry<'_>,
    ) -> Result<()> {
        let mut window = Window::new(source.len());
        loop {
            match directory.check_descriptor(entry, &window) {
                Ok(()) => return Ok(()),
                Err(Stop::Fail(e)) => return Err(e),
                Err(Stop::Need(ranges)) => {
                    for range in ranges {
                        window.add(range.start, source.read_now(range)?);
                    }
                }
            }
        }
    }

    /// A stream of its decoded bytes, exactly as many as the directory says.
    pub(super) fn stream(&self, source: Arc<dyn ByteSource>, limits: &Limits) -> Decode {
        let decoder = match self.method {
            Method::Stored => Decoder::None,
            Method::Deflate => Decoder::Deflate(Box::new(deflate::Stream::new())),
            Method::Zstd => Decoder::Zstd(Box::new(zstd::Stream::new(limits))),
        };
        Decode {
            source,
            left: self.range.clone(),
            piece: bytes::Bytes::new(),
            decoder,
            written: 0,
            len: self.len,
            crc: Crc32::new(),
            wanted_crc: self.crc,
        }
    }
}

/// Bytes taken from a source at a time.
const STEP: u64 = 1 << 20;

/// The decoded bytes of an entry as a stream. It fails at its end where they are more or fewer than the
/// directory says, or have another checksum.
pub(super) struct Decode {
    source: Arc<dyn ByteSource>,
    /// What has not been taken yet.
    left: Range<u64>,
    /// What was taken and not decoded.
    piece: bytes::Bytes,
    decoder: Decoder,
    written: u64,
    len: u64,
    crc: Crc32,
    wanted_crc: u32,
}

enum Decoder {
    None,
    Deflate(Box<deflate::Stream>),
    Zstd(Box<zstd::Stream>),
}

impl Decode {
    fn refill(&mut self) -> Result<()> {
        if self.piece.is_empty() && !self.left.is_empty() {
            let next = self.left.start..self.left.end.min(self.left.start + STEP);
            self.source.expect(next.clone());
            self.piece = self.source.read_part(next.clone())?;
            self.left.start = next.end;
            if !self.left.is_empty() {
                let ahead = self.left.start..self.left.end.min(self.left.start + 2 * STEP);
                self.source.fetch_ahead(ahead);
            }
        }
        Ok(())
    }

    fn decode(&mut self, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            self.refill()?;
            let done = match &mut self.decoder {
                Decoder::None => {
                    let count = self.piece.len().min(out.len());
                    out[..count].copy_from_slice(&self.piece[..count]);
                    (count, count)
                }
                Decoder::Deflate(stream) => stream.decode(&self.piece, out)?,
                Decoder::Zstd(stream) => stream.decode(&self.piece, out)?,
            };
            let _ = self.piece.split_to(done.0);
            self.written += done.1 as u64;
            if self.written > self.len {
                return Err(self.wrong_len("more than "));
            }
            if done.1 > 0 {
                self.crc.update(&out[..done.1]);
                return Ok(done.1);
            }
            if done.0 == 0 && self.left.is_empty() {
                self.check_end()?;
                return Ok(0);
            }
        }
    }

    fn check_end(&self) -> Result<()> {
        let cut_short = "the stored bytes end before the compressed data does";
        match &self.decoder {
            Decoder::Deflate(stream) if !stream.is_whole() => {
                return Err(deflate::BROKEN.broken(cut_short));
            }
            Decoder::Zstd(stream) if !stream.is_whole() => {
                return Err(zstd::BROKEN.broken(cut_short));
            }
            _ => {}
        }
        if self.written != self.len {
            return Err(self.wrong_len(""));
        }
        let found = self.crc.value();
        if found != self.wanted_crc {
            let wanted = self.wanted_crc;
            let message =
                format!("the CRC-32 of the bytes is {found:#010x}, the zip says {wanted:#010x}");
            return Err(CRC32.broken(message));
        }
        Ok(())
    }

    #[cold]
    fn wrong_len(&self, more: &str) -> Error {
        let (written, len) = (self.written.min(self.len), self.len);
        let rule = match &self.decoder {
            Decoder::Zstd(_) => &zstd::LENGTH,
            _ => &deflate::LENGTH,
        };
        rule.broken(format!("decodes to {more}{written} bytes, declared {len}"))
    }
}

impl Read for Decode {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.decode(out).map_err(io::Error::other)
    }
}

/// A file on the disk, and how many bytes it has.
pub(super) fn on_disk(path: &Path) -> Result<(u64, File)> {
    let failed = |e| io(e, "opening").in_source(path.display());
    let file = File::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        let e = crate::error::NOT_REGULAR.broken("this is no file");
        return Err(e.in_source(path.display()));
    }
    Ok((meta.len(), file))
}
