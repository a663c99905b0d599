//! The locations of a package's bytes, and streams of them.

use crate::error::io;
use crate::executor::{ErrorContext, Pieces, Sources};
use crate::source::{ByteSource, fetched, read_now};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_core::codec::crc::Crc32;
use holdall_core::wire::zip::{CRC32, Directory, Entry, Method};
use holdall_core::{Component, Limits, Result, Window};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A shared source.
pub type Source = Arc<dyn ByteSource>;

/// The kind of location that a package was opened from.
pub enum Origin {
    /// A zip.
    Zip {
        /// The bytes of the zip.
        source: Source,
        /// The directory of the zip.
        directory: Arc<Directory>,
    },
    /// An unpacked folder.
    Folder(PathBuf),
    /// A folder with only the files of a model, which are below `model/` in the package.
    Model(PathBuf),
}

impl Origin {
    /// Returns the folder, if the package was opened from one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Origin::Zip { .. } => None,
            Origin::Folder(root) | Origin::Model(root) => Some(root),
        }
    }
}

/// An entry of a zip: a component, with a checksum of its decoded bytes.
#[derive(Clone)]
pub struct Stored {
    /// The bytes of the zip.
    pub source: Source,
    /// The byte range and the encoding of the entry.
    pub component: Component,
    /// The compression method, as the zip states it.
    pub method: Method,
    /// The length of the decoded bytes.
    pub len: u64,
    /// The CRC-32 of the decoded bytes.
    pub crc: u32,
}

impl Stored {
    /// Finds the bytes of an entry, after reading and checking its local header.
    pub fn find(source: &Source, directory: &Directory, entry: Entry<'_>) -> Result<Stored> {
        let mut window = Window::new(source.len());
        let header = directory.header(entry);
        window.add(header.start, read_now(&**source, &[header])?.pop().debug_unwrap());
        let range = fetched(&**source, &mut window, |window| directory.data(entry, window))?;
        let (method, len, crc) = (entry.method(), entry.decoded_len(), entry.crc32());
        let component = Component::for_bytes(range.into(), method.encoding(), len);
        Ok(Stored { source: source.clone(), component, method, len, crc })
    }

    /// Compares the descriptor after the bytes of an entry, if there should be one, with the directory.
    pub fn check_descriptor(
        source: &dyn ByteSource,
        directory: &Directory,
        entry: Entry<'_>,
    ) -> Result<()> {
        let mut window = Window::new(source.len());
        fetched(source, &mut window, |window| directory.check_descriptor(entry, window))
    }

    /// Returns the range of the stored bytes.
    pub fn range(&self) -> Range<u64> {
        self.component.stored.range()
    }

    /// Returns `true` if the entry is not compressed.
    pub fn is_plain(&self) -> bool {
        self.method == Method::Stored
    }

    /// Returns the decoded bytes in order, without checking the CRC-32.
    ///
    /// # Errors
    /// Returns a `Limit` error if it decodes to more bytes than allowed.
    pub fn pieces(&self, limits: &Limits) -> Result<Pieces> {
        pieces_of(self.source.clone(), self.component.clone(), limits)
    }

    /// Returns a stream of the decoded bytes, which fails at its end if the CRC-32 differs.
    ///
    /// # Errors
    /// Returns the same errors as [`Stored::pieces`].
    pub fn stream(&self, limits: &Limits) -> Result<Decode> {
        let (pieces, crc) = (self.pieces(limits)?, Crc32::zip());
        Ok(Decode { pieces, piece: Bytes::new(), crc, wanted_crc: self.crc })
    }
}

/// Returns the decoded bytes of a range of a source, in order, without checking a digest.
///
/// # Errors
/// Returns a `Limit` error if it decodes to more bytes than allowed.
pub fn pieces_of(source: Source, component: Component, limits: &Limits) -> Result<Pieces> {
    Pieces::with_table(
        Sources::from(source),
        limits.clone(),
        ErrorContext::default(),
        component,
        None,
        None,
    )
}

/// A stream of the decoded bytes of an entry.
pub struct Decode {
    pieces: Pieces,
    /// Decoded bytes that were not read yet.
    piece: Bytes,
    crc: Crc32,
    wanted_crc: u32,
}

impl Decode {
    fn decode(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.piece.is_empty() && !out.is_empty() {
            match self.pieces.next() {
                Some(piece) => self.piece = piece?,
                None => return self.check_end().map(|()| 0),
            }
            self.crc.update(&self.piece);
        }
        let count = self.piece.len().min(out.len());
        out[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }

    fn check_end(&self) -> Result<()> {
        let (found, wanted) = (self.crc.value(), self.wanted_crc);
        if found != wanted {
            let message =
                format!("the CRC-32 of the bytes is {found:#010x}, the zip says {wanted:#010x}");
            return Err(CRC32.broken(message));
        }
        Ok(())
    }
}

impl Read for Decode {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.decode(out).map_err(io::Error::other)
    }
}

/// Opens a file on the disk, and returns it with its length.
pub fn on_disk(path: &Path) -> Result<(u64, File)> {
    let failed = |e| io(e, "opening").in_source(path.display());
    let file = File::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        let e = crate::error::NOT_REGULAR.broken("this is not a file");
        return Err(e.in_source(path.display()));
    }
    Ok((meta.len(), file))
}
