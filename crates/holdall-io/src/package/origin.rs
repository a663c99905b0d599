//! Where the bytes of a package's files are, and streams of them.

use crate::error::io;
use crate::executor::{ErrorContext, Pieces, Sources};
use crate::source::{ByteSource, fetched, read_now};
use bytes::Bytes;
use holdall_core::codec::crc::Crc32;
use holdall_core::wire::zip::{CRC32, Directory, Entry, Method};
use holdall_core::{Component, Limits, Result, Window};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The way to bytes, shared.
pub type Source = Arc<dyn ByteSource>;

/// What a package was opened from.
pub enum Origin {
    /// A zip.
    Zip {
        /// Its bytes.
        source: Source,
        /// Its directory.
        directory: Arc<Directory>,
    },
    /// An unpacked folder.
    Folder(PathBuf),
    /// A folder with the files of a model alone: those that are below `model/` in a package.
    Model(PathBuf),
}

impl Origin {
    /// The folder, where it is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Origin::Zip { .. } => None,
            Origin::Folder(root) | Origin::Model(root) => Some(root),
        }
    }
}

/// Bytes of a zip's entry: a component like any other, with a checksum of what it decodes to.
#[derive(Clone)]
pub struct Stored {
    /// The bytes of the zip.
    pub source: Source,
    /// Where the entry is among them, and how it is compressed.
    pub component: Component,
    /// How the entry is compressed, as the zip says it.
    pub method: Method,
    /// Bytes after decoding.
    pub len: u64,
    /// CRC-32 of the decoded bytes.
    pub crc: u32,
}

impl Stored {
    /// Finds the bytes of an entry; its local header is read and checked.
    pub fn find(source: &Source, directory: &Directory, entry: Entry<'_>) -> Result<Stored> {
        let mut window = Window::new(source.len());
        let header = directory.header(entry);
        window.add(header.start, read_now(&**source, &[header])?.pop().unwrap_or_default());
        let range = fetched(&**source, &mut window, |window| directory.data(entry, window))?;
        let (method, len, crc) = (entry.method(), entry.decoded_len(), entry.crc32());
        let component = Component::of_bytes(range.into(), method.encoding(), len);
        Ok(Stored { source: source.clone(), component, method, len, crc })
    }

    /// Compares what follows the bytes of an entry with the directory, if anything is to follow.
    pub fn check_descriptor(
        source: &dyn ByteSource,
        directory: &Directory,
        entry: Entry<'_>,
    ) -> Result<()> {
        let mut window = Window::new(source.len());
        fetched(source, &mut window, |window| directory.check_descriptor(entry, window))
    }

    /// Where it is stored.
    pub fn range(&self) -> Range<u64> {
        self.component.stored.range()
    }

    /// Whether it is stored as it is.
    pub fn is_plain(&self) -> bool {
        self.method == Method::Stored
    }

    /// Its decoded bytes in order; its checksum is not compared.
    ///
    /// # Errors
    /// Limit, when it decodes to more than is allowed.
    pub fn pieces(&self, limits: &Limits) -> Result<Pieces> {
        pieces_of(self.source.clone(), self.component.clone(), limits)
    }

    /// A stream of its decoded bytes. It fails at its end where they have another checksum.
    ///
    /// # Errors
    /// As [`Stored::pieces`].
    pub fn stream(&self, limits: &Limits) -> Result<Decode> {
        let (pieces, crc) = (self.pieces(limits)?, Crc32::zip());
        Ok(Decode { pieces, piece: Bytes::new(), crc, wanted_crc: self.crc })
    }
}

/// The decoded bytes of a run of bytes of a source, in order.
///
/// # Errors
/// Limit, when it decodes to more than is allowed.
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

/// The decoded bytes of an entry as a stream.
pub struct Decode {
    pieces: Pieces,
    /// What was decoded and not taken.
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

/// A file on the disk, and how many bytes it has.
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
