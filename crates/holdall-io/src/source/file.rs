//! A local file, read at offsets.

use super::{ByteSource, LocalFile, ReadHints, check_range};
use crate::buffer::Buffer;
use crate::error::{CHANGED, NOT_REGULAR, io};
use crate::lock::Stamp;
use crate::platform::{self, CachedRead};
use bytes::Bytes;
use holdall_core::model::nearest;
use holdall_core::{Error, Remedy, Result};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A local file that is read at offsets (`pread`), on any number of threads.
#[derive(Debug)]
pub struct FileSource {
    file: Arc<File>,
    len: u64,
    /// The file's metadata when it was opened.
    stamp: Stamp,
    path: PathBuf,
    /// A second handle to the file for direct reads. `None` if the system does not support them.
    direct: OnceLock<Option<File>>,
}

impl FileSource {
    /// Opens a file.
    ///
    /// # Errors
    /// Returns an `Io` error if the file cannot be opened, or is a directory. If it does not exist, the error suggests a similar name in
    /// the same folder.
    pub fn open(path: &Path) -> Result<FileSource> {
        if platform::is_device(path) {
            return Err(NOT_REGULAR.broken("this name is reserved for a device"));
        }
        let meta = path.metadata().map_err(|e| unopened(path, e))?;
        if meta.is_dir() {
            return Err(io(std::io::ErrorKind::IsADirectory.into(), "opening"));
        }
        // Checked before opening: opening a pipe may block, or consume its bytes.
        if !meta.is_file() {
            return Err(NOT_REGULAR.broken("this is a pipe or a device, not a regular file"));
        }
        let file = File::open(path).map_err(|e| io(e, "opening"))?;
        FileSource::from_file(file, path)
    }

    /// Creates a source of an open file. `path` is its name in errors.
    ///
    /// # Errors
    /// Returns an `Io` error.
    pub fn from_file(file: File, path: &Path) -> Result<FileSource> {
        let meta = file.metadata().map_err(|e| io(e, "opening"))?;
        let (file, stamp) = (Arc::new(file), Stamp::from(&meta));
        let (path, direct) = (path.to_owned(), OnceLock::new());
        Ok(FileSource { file, len: meta.len(), stamp, path, direct })
    }

    /// Returns the open file.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// Returns the open file for users that may outlive the source, and its metadata when it was opened.
    pub(crate) fn as_opened(&self) -> (Arc<File>, Stamp) {
        (self.file.clone(), self.stamp)
    }

    /// Returns the path that the file was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `true` if the file is on a network file system or a user-space file system (FUSE), where mapping is many
    /// times slower than reading.
    pub fn is_remote(&self) -> bool {
        platform::is_remote(&self.file, &self.path)
    }

    #[cold]
    fn ended_early(&self, offset: u64, len: usize) -> Error {
        CHANGED
            .broken(format!(
                "the file had {} bytes when it was opened and ends earlier now",
                self.len
            ))
            .at(offset..offset.saturating_add(len as u64))
    }

    fn direct(&self) -> Option<&File> {
        self.direct.get_or_init(|| platform::open_direct(&self.path)).as_ref()
    }

    pub(super) fn fetch_ahead(&self, range: Range<u64>) {
        platform::fetch_ahead(&self.file, range);
    }

    pub(super) fn read_direct(&self, offset: u64, out: &mut [u8]) -> Option<Result<()>> {
        let file = self.direct()?;
        let page = platform::page_size();
        let wanted = self.len.saturating_sub(offset).min(out.len() as u64) as usize;
        let mut done = 0;
        while done < wanted && done.is_multiple_of(page) {
            match platform::read_at(file, &mut out[done..], offset + done as u64) {
                Ok(0) => return Some(Err(self.ended_early(offset, wanted))),
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                // File systems refuse direct reads in different ways; reads through the page cache always work.
                Err(_) => break,
            }
        }
        if done < wanted {
            return Some(self.read_into(offset + done as u64, &mut out[done..wanted]));
        }
        Some(Ok(()))
    }

    /// Returns `true` if most of the range is known not to be in the system's page cache.
    pub(super) fn is_mostly_uncached(&self, range: Range<u64>) -> bool {
        let span = range.end.min(self.len).saturating_sub(range.start);
        let probes = (span >> 20).clamp(1, 16);
        let is_missing = |i: &u64| {
            let at = range.start + span / probes * i;
            matches!(platform::read_cached(&self.file, &mut [0], at), CachedRead::Waits)
        };
        (0..probes).filter(is_missing).count() as u64 > probes / 2
    }

    /// Reads a range if that does not have to wait for the disk; otherwise returns `None`.
    pub(super) fn read_without_waiting(&self, range: Range<u64>) -> Option<Result<Bytes>> {
        let len = range.end.min(self.len).saturating_sub(range.start) as usize;
        let mut bytes = vec![0; len];
        match platform::read_cached(&self.file, &mut bytes, range.start) {
            CachedRead::Read(read) if read == len => Some(Ok(bytes.into())),
            CachedRead::Read(_) | CachedRead::Waits => None,
            CachedRead::Unsupported => Some(self.read_range(range)),
        }
    }
}

impl ByteSource for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let one = |r: &Range<u64>| {
            check_range(r, self.len)?;
            let mut buffer = Buffer::new((r.end - r.start) as usize)?;
            self.read_into(r.start, buffer.as_mut())?;
            Ok(buffer.freeze())
        };
        ranges.iter().map(one).collect()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let len = out.len();
        platform::read_exact_at(&self.file, out, offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => self.ended_early(offset, len),
            _ => io(e, "reading"),
        })
    }

    fn read_hints(&self) -> ReadHints {
        ReadHints::DISK
    }

    fn local(&self) -> Option<LocalFile<'_>> {
        Some(LocalFile::new(self, None, self.len))
    }
}

/// The number of names in a folder that are searched for a similar one.
const MAX_NAMES: usize = 10_000;

#[cold]
fn unopened(path: &Path, e: std::io::Error) -> Error {
    let is_absent = e.kind() == std::io::ErrorKind::NotFound;
    let error = io(e, "opening");
    match is_absent.then(|| near(path)).flatten() {
        Some(name) => error.with_remedy(Remedy::did_you_mean(name)),
        None => error,
    }
}

/// Returns the path of an existing file in the same folder with a similar name.
fn near(path: &Path) -> Option<String> {
    let wanted = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = folder.unwrap_or(Path::new(".")).read_dir().ok()?.take(MAX_NAMES).flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<String> = names.filter(|name| name != wanted).collect();
    let near = nearest(wanted, names.iter().map(String::as_str))?;
    Some(path.with_file_name(near).display().to_string())
}
