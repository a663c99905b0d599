//! A memory-mapped file.

use super::memory::slice;
use super::{ByteSource, FileSource, LocalFile, ReadHints};
use crate::buffer::Buffer;
use bytes::Bytes;
use holdall_core::Result;
use memmap2::Mmap;
use std::ops::Range;
use std::sync::Arc;

/// A file mapped read-only. Creating a view reads nothing until its bytes are used, and the view keeps the mapping
/// alive after the source is dropped.
///
/// If another process truncates the file, using the lost bytes ends this process with SIGBUS, as in every program that
/// maps files. Use [`Io::Read`](crate::Io::Read) for files that other processes may write, and on network disks.
#[derive(Debug)]
pub struct MapSource {
    bytes: Bytes,
    /// The mapping that owns the bytes. `None` for an empty file.
    map: Option<Shared>,
    file: FileSource,
}

/// The result of an attempt to map a file.
#[derive(Debug)]
pub enum Mapped {
    /// The mapped file.
    Map(MapSource),
    /// The unmapped file, because the address space has no room for the mapping. It must be read instead.
    NoRoom(FileSource),
}

#[derive(Debug, Clone)]
struct Shared(Arc<Mmap>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl MapSource {
    /// Maps a whole file.
    ///
    /// # Errors
    /// Returns an `Io` error if the operating system cannot map it.
    pub fn new(file: FileSource) -> Result<MapSource> {
        match Mapped::new(file)? {
            Mapped::Map(map) => Ok(map),
            Mapped::NoRoom(file) => {
                let message = format!("mapping {} bytes", file.len());
                Err(crate::error::io(std::io::ErrorKind::OutOfMemory.into(), message))
            }
        }
    }

    /// Maps the pages of a range of the file in one step.
    pub(super) fn populate(&self, range: Range<u64>) {
        if let Some(map) = &self.map {
            crate::platform::populate(&map.0, range.start as usize..range.end as usize);
        }
    }
}

impl Mapped {
    /// Maps a whole file if the address space has room for it.
    ///
    /// # Errors
    /// Returns an `Io` error if the operating system cannot map it for another reason.
    pub fn new(file: FileSource) -> Result<Mapped> {
        if file.is_empty() {
            // An empty range cannot be mapped.
            return Ok(Mapped::Map(MapSource { bytes: Bytes::new(), map: None, file }));
        }
        let Ok(len) = usize::try_from(file.len()) else { return Ok(Mapped::NoRoom(file)) };
        // SAFETY: the mapping is read-only and private to this struct and the `Bytes` that own it, so
        // nothing in this process writes through it. Another process may change the file under it:
        // the bytes are handed out as plain data of which any bit pattern is valid. What is parsed
        // (manifests, headers) is a copy that was read, see [`super::read_now`].
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(file.as_file()) };
        let map = match map {
            Ok(map) => Shared(Arc::new(map)),
            // `ENOMEM`: the mapping does not fit the address space or its limit (`RLIMIT_AS`).
            Err(e) if e.kind() == std::io::ErrorKind::OutOfMemory => {
                return Ok(Mapped::NoRoom(file));
            }
            Err(e) => return Err(crate::error::io(e, "mapping the file")),
        };
        let bytes = Bytes::from_owner(map.clone());
        Ok(Mapped::Map(MapSource { bytes, map: Some(map), file }))
    }
}

/// Maps bytes of a file copy-on-write. Returns `None` if the address space has no room for them.
///
/// # Errors
/// Returns an `Io` error if the operating system cannot map them for another reason.
pub(super) fn map_private(file: &FileSource, start: u64, len: usize) -> Result<Option<Buffer>> {
    // Pages are allocated when they are written to, so none are reserved for the whole file.
    let mut options = memmap2::MmapOptions::new();
    options.offset(start).len(len).no_reserve_swap();
    // SAFETY: the mapping is private and has one owner, and writes through it do not change the file. Another process
    // may change the file under it: the bytes are plain data, of which any bit pattern is valid, and nothing is parsed
    // from them.
    match unsafe { options.map_copy(file.as_file()) } {
        Ok(map) => Ok(Some(Buffer::from_map(map))),
        Err(e) if e.kind() == std::io::ErrorKind::OutOfMemory => Ok(None),
        Err(e) => Err(crate::error::io(e, "mapping the file")),
    }
}

/// Maps a file, or reads it if the address space has no room for the mapping.
///
/// # Errors
/// Returns the same errors as [`Mapped::new`].
pub fn mapped_or_read(file: FileSource) -> Result<Arc<dyn ByteSource>> {
    Ok(match Mapped::new(file)? {
        Mapped::Map(map) => Arc::new(map),
        Mapped::NoRoom(file) => Arc::new(file),
    })
}

impl ByteSource for MapSource {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().map(|r| slice(&self.bytes, r)).collect()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        // Copying through the mapping would take a page fault for every 64 KiB; reading does not.
        self.file.read_into(offset, out)
    }

    fn read_hints(&self) -> ReadHints {
        ReadHints::MEMORY
    }

    fn local(&self) -> Option<LocalFile<'_>> {
        Some(LocalFile::new(&self.file, Some(self), self.len()))
    }
}
