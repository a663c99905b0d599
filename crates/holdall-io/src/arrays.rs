//! Folders of `.npy` files, opened as one file of tensors.

use crate::error::io;
use crate::file::File;
use crate::location::{Folder, FoundFile};
use crate::options::OpenOptions;
use crate::source::{ByteSource, FileSource, ReadHints};
use bytes::Bytes;
use holdall_core::{IndexBuilder, Result};
use holdall_formats::shards::NO_MODEL;
use holdall_formats::{add_arrays, array_header};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The greatest depth of nested folders that are searched.
const MAX_DEPTH: usize = 32;

impl OpenOptions {
    /// Opens all `.npy` files below a folder as one file of tensors. The name of a tensor is its path in the folder,
    /// with dots between the segments and without `.npy`: `layers/0/w.npy` is `layers.0.w`. Other files, and bytes
    /// after the arrays, are ignored. Only headers are read; a file on a disk is reopened when its elements are read.
    ///
    /// # Errors
    /// Returns an `Io` error; errors in a header; a `NotFound` error if the folder has no such file.
    pub(crate) fn open_arrays(&self, folder: &Folder) -> Result<File> {
        let mut builder: Option<IndexBuilder> = None;
        let mut sources: Vec<Arc<dyn ByteSource>> = Vec::new();
        for (name, path) in arrays_in(folder)? {
            let FoundFile { source, name: shown, .. } = match (folder, path) {
                (Folder::Inside(inside), path) => inside.find(&path.to_string_lossy(), self)?,
                (_, path) => {
                    FoundFile::new(Arc::new(Reopened::open(&path)?), path.display().to_string())
                }
            };
            let in_context = |e: holdall_core::Error| e.in_source(&shown);
            let (len, bytes) = (source.len(), |range| source.read_range(range));
            let header = array_header(0, len, &bytes).map_err(in_context)?;
            let data = header.len..len;
            let number = match &mut builder {
                Some(builder) => builder.source(len, data)?,
                None => {
                    builder = Some(IndexBuilder::new("npy", "", len, data, self.limits()));
                    0
                }
            };
            let Some(builder) = &mut builder else { continue };
            add_arrays(builder, &name, number, header, len, &bytes).map_err(in_context)?;
            sources.push(source);
        }
        let shown = folder.display_name();
        let Some(builder) = builder else {
            return Err(NO_MODEL
                .broken("the folder has no file of tensors, no index of them, and no `.npy` file")
                .in_source(shown));
        };
        let index = builder.finish().and_then(|index| index.sound());
        self.open_index(index.map_err(|e| e.in_source(&shown))?, sources, shown)
    }
}

/// Returns the names and paths of the arrays below a folder, sorted by name. The paths are local, or inside the
/// archive.
fn arrays_in(folder: &Folder) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    match folder {
        Folder::Disk(path) => collect(path, "", 0, &mut found)?,
        Folder::Inside(inside) => {
            let all = inside.below().into_iter().filter(|path| is_npy(Path::new(path)));
            let name = |path: &str| path[..path.len() - ".npy".len()].replace('/', ".");
            found.extend(all.map(|path| (name(path), PathBuf::from(path))));
        }
        Folder::Address(_) => {}
    }
    found.sort();
    Ok(found)
}

/// Returns `true` if a file is an array, by its extension.
fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy"))
}

/// Returns `true` if there are `.npy` files in a local folder or its subfolders.
pub(crate) fn has_arrays(folder: &Path) -> bool {
    has_arrays_below(folder, 0)
}

fn has_arrays_below(folder: &Path, depth: usize) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    let mut folders = Vec::new();
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => folders.push(entry.path()),
            Ok(_) if is_npy(&entry.path()) && entry.path().is_file() => return true,
            _ => {}
        }
    }
    depth < MAX_DEPTH && folders.iter().any(|folder| has_arrays_below(folder, depth + 1))
}

/// Collects the arrays below a folder, with their names. Links to folders are not followed, so that none is visited
/// twice.
fn collect(
    folder: &Path,
    name: &str,
    depth: usize,
    out: &mut Vec<(String, PathBuf)>,
) -> Result<()> {
    let failed = |e| io(e, "reading the folder").in_source(folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let part = |os: &std::ffi::OsStr| format!("{name}{}", os.to_string_lossy());
        if entry.file_type().map_err(failed)?.is_dir() {
            if depth < MAX_DEPTH {
                collect(&path, &format!("{}.", part(&entry.file_name())), depth + 1, out)?;
            }
        } else if is_npy(&path) && path.is_file() {
            out.push((part(path.file_stem().unwrap_or_default()), path));
        }
    }
    Ok(())
}

/// A file that is reopened for each read, so that thousands of files do not need as many handles.
pub(crate) struct Reopened {
    path: PathBuf,
    len: u64,
}

impl Reopened {
    pub(crate) fn open(path: &Path) -> Result<Reopened> {
        let len = FileSource::open(path).map_err(|e| e.in_source(path.display()))?.len();
        Ok(Reopened { path: path.to_owned(), len })
    }

    fn opened(&self) -> Result<FileSource> {
        let source = FileSource::open(&self.path).map_err(|e| e.in_source(self.path.display()))?;
        match source.len() == self.len {
            true => Ok(source),
            false => {
                let message = format!(
                    "the file had {} bytes when it was opened, and now has {}",
                    self.len,
                    source.len()
                );
                Err(crate::error::CHANGED.broken(message).in_source(self.path.display()))
            }
        }
    }
}

impl ByteSource for Reopened {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.opened()?.read(ranges)
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.opened()?.read_into(offset, out)
    }

    fn read_hints(&self) -> ReadHints {
        ReadHints::DISK
    }
}
