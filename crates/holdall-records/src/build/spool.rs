//! Bytes that are kept on disk, or in memory if there are few, until their number is known.

use super::window::Window;
use holdall_core::Result;
use holdall_io::Work;
use holdall_io::error::io;
use holdall_schema::Heap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Number of bytes to keep in memory before they are written to the file.
const BUFFER: usize = 1 << 20;

/// A growing sequence of bytes.
pub(crate) struct Spool {
    folder: PathBuf,
    file: Option<File>,
    /// Number of bytes in the file.
    flushed: u64,
    buffer: Vec<u8>,
}

impl Spool {
    /// Creates an empty spool. Its file will be in `folder`.
    pub(super) fn new(folder: &Path) -> Spool {
        Spool { folder: folder.to_owned(), file: None, flushed: 0, buffer: Vec::new() }
    }

    pub(crate) fn len(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        if bytes.len() > BUFFER {
            return self.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends zeros up to a multiple of `align`, a power of two.
    pub(super) fn pad(&mut self, align: u32) -> Result<()> {
        static ZEROS: [u8; 4096] = [0; 4096];
        let mut left = self.len().next_multiple_of(u64::from(align.max(1))) - self.len();
        while left > 0 {
            let now = left.min(ZEROS.len() as u64);
            self.append(&ZEROS[..now as usize])?;
            left -= now;
        }
        Ok(())
    }

    /// Removes the bytes that were appended after the first `len` bytes.
    fn truncate(&mut self, len: u64) -> Result<()> {
        if let Some(kept) = len.checked_sub(self.flushed) {
            self.buffer.truncate(kept as usize);
            return Ok(());
        }
        self.buffer.clear();
        if let Some(file) = &mut self.file {
            let cut = file.set_len(len).and_then(|()| file.seek(SeekFrom::Start(len)));
            cut.map_err(|e| io(e, "truncating a temporary file"))?;
        }
        self.flushed = len;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        self.write(&buffer)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let failed = |e| io(e, "writing a temporary file").in_source(self.folder.display());
        let file = match &mut self.file {
            Some(file) => file,
            empty => empty.insert(tempfile::tempfile_in(&self.folder).map_err(failed)?),
        };
        file.write_all(bytes).map_err(failed)?;
        self.flushed += bytes.len() as u64;
        Ok(())
    }

    /// Returns a range of the bytes. The range must be in bounds.
    pub(crate) fn range(&mut self, range: std::ops::Range<u64>) -> Result<Vec<u8>> {
        let mut out = vec![0; range.end.saturating_sub(range.start) as usize];
        let in_file = self.flushed.saturating_sub(range.start).min(out.len() as u64) as usize;
        let (on_disk, rest) = out.split_at_mut(in_file);
        if let (Some(file), false) = (&mut self.file, on_disk.is_empty()) {
            let read = file.seek(SeekFrom::Start(range.start));
            read.and_then(|_| file.read_exact(on_disk))
                .map_err(|e| io(e, "reading a temporary file"))?;
        }
        let from = range.start.saturating_sub(self.flushed) as usize;
        let buffered = self.buffer.get(from..).unwrap_or_default();
        rest.iter_mut().zip(buffered).for_each(|(slot, byte)| *slot = *byte);
        Ok(out)
    }

    /// Returns a reader of all bytes.
    pub(super) fn reader(mut self, work: Work) -> Result<Reader> {
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(0)).map_err(|e| io(e, "reading a temporary file"))?;
        }
        let Spool { file, flushed, buffer, .. } = self;
        Ok(Reader { file, left: flushed, rest: std::io::Cursor::new(buffer), work })
    }
}

/// A reader of the bytes of a [`Spool`].
pub(super) struct Reader {
    file: Option<File>,
    /// Number of bytes left in the file.
    left: u64,
    rest: std::io::Cursor<Vec<u8>>,
    work: Work,
}

impl Read for Reader {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = match &mut self.file {
            Some(file) if self.left > 0 => {
                let most = self.left.min(out.len() as u64) as usize;
                let count = file.read(&mut out[..most])?;
                if count == 0 && most > 0 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                self.left -= count as u64;
                count
            }
            _ => self.rest.read(out)?,
        };
        self.work.advance(count as u64).map_err(std::io::Error::other)?;
        Ok(count)
    }
}

/// A heap that is kept on disk.
pub(super) struct SpoolHeap {
    pub(super) spool: Spool,
    /// The recently appended bytes that can be shared, if sharing is on.
    pub(super) window: Option<Window>,
}

impl SpoolHeap {
    pub(super) fn new(folder: &Path) -> SpoolHeap {
        SpoolHeap { spool: Spool::new(folder), window: None }
    }

    /// Removes the bytes that were appended after the first `len` bytes, because their record failed.
    pub(super) fn truncate(&mut self, len: u64) -> Result<()> {
        if self.spool.len() != len {
            self.spool.truncate(len)?;
            if let Some(window) = &mut self.window {
                window.forget();
            }
        }
        Ok(())
    }
}

impl Heap for SpoolHeap {
    fn append(&mut self, bytes: &[u8], align: u32) -> Result<u64> {
        if let Some(offset) = self.window.as_ref().and_then(|w| w.find(bytes, align)) {
            return Ok(offset);
        }
        self.spool.pad(align)?;
        let offset = self.spool.len();
        self.spool.append(bytes)?;
        if let Some(window) = &mut self.window {
            window.keep(bytes, offset);
        }
        Ok(offset)
    }
}
