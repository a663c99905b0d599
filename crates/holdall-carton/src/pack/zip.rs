//! Writes the entries of a zip to a file.

use super::super::ledger;
use super::Packing;
use super::parts::FileToPack;
use holdall_core::codec::crc::Crc32;
use holdall_core::error::Escape as _;
use holdall_core::wire::zip::write::{Entry, directory, local_header};
use holdall_core::wire::zip::{Directory, EntryKind, Method};
use holdall_core::{Error, Result, Window};
use holdall_io::Work;
use holdall_io::error::CHANGED;
use holdall_io::ledger::unlimited;
use holdall_io::package::origin::Stored;
use holdall_io::package::read::{fill, reading};
use holdall_io::sink::{FileSink, Sink};
use holdall_io::source::{fetched, read_part};
use holdall_package::{FileHasher, sha256};
use std::io::{self, Read, Write};

/// The number of bytes that are read at a time.
const PIECE: usize = 1 << 20;
/// Files of up to this many bytes are held in memory: their headers are written once, and they are compressed
/// only if that makes them shorter.
const SMALL: u64 = 4 << 20;
/// The compression level, which is the default of zstd.
const ZSTD_LEVEL: i32 = 3;

/// A zip being written.
pub(super) struct ZipOutput<'a> {
    sink: FileSink,
    entries: Vec<Entry>,
    work: &'a Work,
    piece: Vec<u8>,
}

impl<'a> ZipOutput<'a> {
    /// Creates the output of a zip whose files have `total` bytes.
    pub(super) fn new(mut sink: FileSink, total: u64, work: &'a Work) -> ZipOutput<'a> {
        sink.expect(total);
        ZipOutput { sink, entries: Vec::new(), work, piece: vec![0; PIECE] }
    }

    /// Adds a symbolic link.
    pub(super) fn add_link(&mut self, path: &str, text: &str) -> Result<()> {
        let kind = (EntryKind::Symlink, false);
        self.write_entry(path, kind, Method::Stored, text.as_bytes(), text.as_bytes())
    }

    /// Adds a file and returns its SHA-256.
    pub(super) fn add(
        &mut self,
        path: &str,
        part: &FileToPack,
        packing: Packing,
    ) -> Result<[u8; 32]> {
        let compressed = match packing {
            Packing::Kept => part.compressed()?,
            _ => None,
        };
        if let Some(stored) = compressed {
            return self.copy_compressed(path, part, &stored);
        }
        let (len, mut from) = part.open()?;
        let is_executable = part.is_executable();
        if len > SMALL {
            return self.stream(path, (len, is_executable), &mut *from, packing);
        }
        let mut bytes = Vec::new();
        from.take(SMALL + 1).read_to_end(&mut bytes).map_err(|e| reading(e, path))?;
        if bytes.len() as u64 != len {
            return Err(changed(path, len));
        }
        self.work.advance(len)?;
        self.add_small(path, is_executable, &bytes, packing)
    }

    /// Adds a file as another zip stores it, and compares it with that zip's checksums while copying.
    fn copy_compressed(
        &mut self,
        path: &str,
        part: &FileToPack,
        stored: &Stored,
    ) -> Result<[u8; 32]> {
        let hash = part.hash(path)?;
        let range = stored.range();
        let entry = Entry {
            name: path.to_owned(),
            kind: EntryKind::File,
            is_executable: part.is_executable(),
            method: stored.method,
            crc: stored.crc,
            stored_len: range.end - range.start,
            len: stored.len,
            offset: self.sink.len(),
            flags: None,
        };
        self.sink.append(&local_header(&entry))?;
        let mut at = range.start;
        while at < range.end {
            let next = range.end.min(at + PIECE as u64);
            self.sink.append(&read_part(&*stored.source, at..next)?)?;
            at = next;
        }
        self.work.advance(stored.len)?;
        self.entries.push(entry);
        Ok(hash)
    }

    /// Adds a file that is in memory and not executable.
    pub(super) fn add_bytes(
        &mut self,
        path: &str,
        bytes: &[u8],
        packing: Packing,
    ) -> Result<[u8; 32]> {
        self.add_small(path, false, bytes, packing)
    }

    fn add_small(
        &mut self,
        path: &str,
        is_executable: bool,
        bytes: &[u8],
        packing: Packing,
    ) -> Result<[u8; 32]> {
        let kind = (EntryKind::File, is_executable);
        let mut compressor = Compressor::new(packing, bytes.len() as u64)?;
        let compressed_bytes = match compressor.method() {
            Method::Stored => None,
            method => {
                let all = compressor.push(bytes).and_then(|()| compressor.end());
                all.map_err(|e| reading(e, path))?;
                Some((method, compressor.take()))
                    .filter(|(_, compressed_bytes)| compressed_bytes.len() < bytes.len())
            }
        };
        match compressed_bytes {
            Some((method, compressed_bytes)) => {
                self.write_entry(path, kind, method, &compressed_bytes, bytes)?
            }
            None => self.write_entry(path, kind, Method::Stored, bytes, bytes)?,
        }
        Ok(sha256(bytes))
    }

    fn write_entry(
        &mut self,
        path: &str,
        (kind, is_executable): (EntryKind, bool),
        method: Method,
        bytes: &[u8],
        decoded: &[u8],
    ) -> Result<()> {
        let mut crc = Crc32::zip();
        crc.update(decoded);
        let entry = Entry {
            name: path.to_owned(),
            kind,
            is_executable,
            method,
            crc: crc.value(),
            stored_len: bytes.len() as u64,
            len: decoded.len() as u64,
            offset: self.sink.len(),
            flags: None,
        };
        self.sink.append(&local_header(&entry))?;
        self.sink.append(bytes)?;
        self.entries.push(entry);
        Ok(())
    }

    /// Adds a file piece by piece. Its header is written again at the end, when its checksum is known.
    fn stream(
        &mut self,
        path: &str,
        (len, is_executable): (u64, bool),
        from: &mut dyn Read,
        packing: Packing,
    ) -> Result<[u8; 32]> {
        let mut compressor = Compressor::new(packing, len)?;
        let mut entry = Entry {
            name: path.to_owned(),
            kind: EntryKind::File,
            is_executable,
            method: compressor.method(),
            crc: 0,
            stored_len: 0,
            len,
            offset: self.sink.len(),
            flags: None,
        };
        self.sink.append(&local_header(&entry))?;
        let start = self.sink.len();
        let mut sum = FileHasher::default();
        let mut done = 0;
        loop {
            let count = fill(from, &mut self.piece).map_err(|e| reading(e, path))?;
            let bytes = &self.piece[..count];
            sum.update(bytes);
            done += count as u64;
            if done > len {
                return Err(changed(path, len));
            }
            match &mut compressor {
                Compressor::Plain => self.sink.append(bytes)?,
                compressor => {
                    compressor.push(bytes).map_err(|e| reading(e, path))?;
                    self.sink.append(&compressor.take())?;
                }
            }
            self.work.advance(count as u64)?;
            if count < self.piece.len() {
                break;
            }
        }
        if done != len {
            return Err(changed(path, len));
        }
        compressor.end().map_err(|e| reading(e, path))?;
        self.sink.append(&compressor.take())?;
        let (hash, crc) = sum.finish();
        (entry.crc, entry.stored_len) = (crc, self.sink.len() - start);
        self.sink.patch(entry.offset, local_header(&entry));
        self.entries.push(entry);
        Ok(hash)
    }

    /// Writes the directory, checks that a reader finds each of `paths` and every entry that was added, and
    /// publishes the file. Returns its length.
    pub(super) fn finish<'p>(mut self, paths: impl Iterator<Item = &'p str>) -> Result<u64> {
        #[cfg(not(test))]
        let end = directory(&self.entries, self.sink.len());
        #[cfg(test)]
        let end = directory(&super::tests::listed(&self.entries), self.sink.len());
        self.sink.append(&end)?;
        let len = self.sink.len();
        if let Some(source) = self.sink.read_back()? {
            let mut window = Window::new(source.len());
            let directory =
                fetched(&*source, &mut window, |window| Directory::read(window, &unlimited()))?;
            let file = |path, len| ledger::Entry { path, len, sha256: None };
            let added = self.entries.iter().map(|entry| file(entry.name.as_str(), Some(entry.len)));
            let found = || {
                let all = directory.entries();
                all.map(|entry| file(entry.name(), Some(entry.decoded_len())))
            };
            ledger::check(added, found())?;
            let names = directory.entries().map(|entry| file(entry.name(), None));
            ledger::check(paths.map(|path| file(path, None)), names)?;
        }
        self.sink.finish()?;
        Ok(len)
    }
}

#[cold]
fn changed(path: &str, len: u64) -> Error {
    let path = path.escaped();
    CHANGED.broken(format!("`{path}` no longer has the {len} bytes that it had when packing began"))
}

/// The compressor of one entry, if any.
enum Compressor {
    Plain,
    Zstd(Box<zstd::stream::write::Encoder<'static, Vec<u8>>>),
    Deflate(Box<flate2::write::DeflateEncoder<Vec<u8>>>),
}

impl Compressor {
    fn new(packing: Packing, len: u64) -> Result<Compressor> {
        let refused = |e| holdall_io::error::io(e, "starting zstd");
        Ok(match packing {
            Packing::Stored | Packing::Kept => Compressor::Plain,
            Packing::Zstd => {
                let mut encoder =
                    zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL).map_err(refused)?;
                encoder.include_checksum(true).map_err(refused)?;
                encoder.set_pledged_src_size(Some(len)).map_err(refused)?;
                Compressor::Zstd(Box::new(encoder))
            }
            Packing::Deflate => {
                let level = flate2::Compression::default();
                Compressor::Deflate(Box::new(flate2::write::DeflateEncoder::new(Vec::new(), level)))
            }
        })
    }

    fn method(&self) -> Method {
        match self {
            Compressor::Plain => Method::Stored,
            Compressor::Zstd(_) => Method::Zstd,
            Compressor::Deflate(_) => Method::Deflate,
        }
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Compressor::Plain => Ok(()),
            Compressor::Zstd(encoder) => encoder.write_all(bytes),
            Compressor::Deflate(encoder) => encoder.write_all(bytes),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        match self {
            Compressor::Plain => Ok(()),
            Compressor::Zstd(encoder) => encoder.do_finish(),
            Compressor::Deflate(encoder) => encoder.try_finish(),
        }
    }

    /// Returns the compressed bytes since the last call.
    fn take(&mut self) -> Vec<u8> {
        match self {
            Compressor::Plain => Vec::new(),
            Compressor::Zstd(encoder) => std::mem::take(encoder.get_mut()),
            Compressor::Deflate(encoder) => std::mem::take(encoder.get_mut()),
        }
    }
}
