//! Serves files and folders over HTTP, and with the feature `quic` over QUIC: `docs/serve.md`.
//!
//! ```no_run
//! # use holdall::serve::{Files, ServeOptions, Service, Serving, Tokens};
//! # use std::sync::Arc;
//! # fn main() -> holdall::Result<()> {
//! let files = Arc::new(Files::new(["models"])?);
//! let service = Service::new(files).with_tokens(Tokens::new(vec!["secret".to_owned()])?);
//! let listen = "0.0.0.0:4433".parse().expect("an address");
//! let serving = Serving::start(&service, &ServeOptions::new().with_listen(listen))?;
//! println!("{}", serving.url("models/model.zt").unwrap_or_default());
//! # Ok(())
//! # }
//! ```

pub use crate::serving::{Protocols, ServeOptions, Serving, read_tokens};
#[cfg(feature = "quic")]
pub use crate::serving::{read_certificate, read_identity};
pub use holdall_net::protocol::{FileId, Root, Tree};
#[cfg(feature = "quic")]
pub use holdall_net::quic::{Address, Identity, Server};
pub use holdall_net::{
    Access, Entry, FileCatalog, Log, RequestOutcome, ServedFile, ServerLimits, Service, Tokens,
};
/// The service over HTTP.
pub use holdall_net::{http, rules};

use crate::Hasher;
use crate::error::IO;
use crate::source::FileSource;
use crate::{Algorithm, ByteSource, Digest, Limits, ReadHints, Result};
use bytes::Bytes;
use holdall_core::error::Escape as _;
use holdall_net::protocol::{INDEX_MAX, RANGES_MAX};
use holdall_net::rules::{CHANGED, NO_FILE, SERVE};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::fs::Metadata;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Opens one file in its present version for serving.
///
/// # Errors
/// Returns an `Io` error.
pub fn file(path: impl AsRef<Path>) -> Result<Arc<dyn ServedFile>> {
    Ok(Arc::new(OneFile::open(path.as_ref(), &Limits::default(), Arc::default())?))
}

/// Files and folders that are served, each under its own name.
///
/// A folder is served with everything in it, except names that begin with a dot and links that lead out of
/// the folder. No requested name leads out of the served files and folders.
pub struct Files {
    roots: BTreeMap<String, Named>,
    limits: Limits,
    /// Files that are open now, by path.
    open: Mutex<HashMap<PathBuf, Weak<OneFile>>>,
    known: Arc<Known>,
}

enum Named {
    File(PathBuf),
    /// The folder's path, with links resolved.
    Folder(PathBuf),
}

/// The maximum number of files in a listing.
const LIST_MAX: usize = 100_000;
/// The maximum nesting of folders in a listing.
const DEPTH_MAX: usize = 32;

impl Files {
    /// Creates a catalog of the files and folders at these paths.
    ///
    /// # Errors
    /// Returns `net/serve` if a path does not exist, has no usable name or is neither a file nor a folder, if two
    /// have the same name, or if there are no paths.
    pub fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Files> {
        let mut roots = BTreeMap::new();
        for path in paths {
            let path = path.as_ref();
            let wrong = |what: String| SERVE.broken(what).in_source(path.display());
            let real = path.canonicalize();
            let real = real.map_err(|e| wrong("file or folder not found".to_owned()).because(e))?;
            // Its own name, not the name of a link's target.
            let name = path.file_name().or(real.file_name()).and_then(|name| name.to_str());
            let Some(name) = name.filter(|name| is_name(name)).map(str::to_owned) else {
                return Err(wrong(
                    "the name of the file or folder cannot be used in an address".to_owned(),
                ));
            };
            let root = match (real.is_file(), real.is_dir()) {
                (true, _) => Named::File(real),
                (_, true) => Named::Folder(real),
                _ => return Err(wrong("it is neither a file nor a folder".to_owned())),
            };
            if roots.insert(name.clone(), root).is_some() {
                return Err(wrong(format!("two served paths have the same name: `{name}`")));
            }
        }
        if roots.is_empty() {
            return Err(SERVE.broken("no files or folders to serve were given"));
        }
        Ok(Files {
            roots,
            limits: Limits::default(),
            open: Mutex::default(),
            known: Arc::default(),
        })
    }

    /// Sets the limits for reading the index of a file.
    pub fn with_limits(mut self, limits: Limits) -> Files {
        self.limits = limits;
        self
    }

    /// Returns the path of the file with this name.
    fn path_for(&self, name: &str) -> Option<PathBuf> {
        let mut parts = name.split('/');
        let root = self.roots.get(parts.next()?)?;
        let folder = match root {
            Named::File(path) => return parts.next().is_none().then(|| path.clone()),
            Named::Folder(folder) => folder,
        };
        let mut path = folder.clone();
        let mut count = 0;
        for part in parts {
            if !is_name(part) || count == DEPTH_MAX {
                return None;
            }
            path.push(part);
            count += 1;
        }
        let real = path.canonicalize().ok().filter(|_| count > 0)?;
        let is_inside = real.starts_with(folder) && !is_hidden(real.strip_prefix(folder).ok()?);
        (is_inside && real.is_file()).then_some(real)
    }
}

/// Returns `true` if a part of a requested name is valid: not `.` or `..`, and not hidden.
fn is_name(part: &str) -> bool {
    let is_odd = |c: char| c.is_control() || matches!(c, '/' | '\\');
    !part.is_empty()
        && !part.starts_with('.')
        && !part.contains(is_odd)
        && holdall_io::platform::invalid_name(Path::new(part)).is_none()
}

fn is_hidden(path: &Path) -> bool {
    path.iter().any(|part| part.as_encoded_bytes().starts_with(b"."))
}

impl FileCatalog for Files {
    fn open(&self, name: &str) -> Result<Arc<dyn ServedFile>> {
        let none = || NO_FILE.broken(format!("no file `{}` is served", name.escaped()));
        let path = self.path_for(name).ok_or_else(none)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&path).and_then(Weak::upgrade)
            && path.metadata().is_ok_and(|meta| id(&meta) == file.id)
        {
            return Ok(file);
        }
        let file =
            Arc::new(OneFile::open(&path, &self.limits, Arc::clone(&self.known)).map_err(|e| {
                match e.io() {
                    Some(io) if io.kind() == std::io::ErrorKind::NotFound => none(),
                    _ => e,
                }
            })?);
        open.retain(|_, file| file.strong_count() > 0);
        open.insert(path, Arc::downgrade(&file));
        Ok(file)
    }

    fn list(&self) -> Result<Vec<Entry>> {
        let mut all = Vec::new();
        for (name, root) in &self.roots {
            match root {
                Named::File(path) => {
                    let len = path.metadata().map(|meta| meta.len());
                    all.extend(len.ok().map(|len| Entry { name: name.clone(), len }));
                }
                Named::Folder(folder) => walk(folder, folder, name, 0, &mut all),
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}

/// Adds the served files of a folder to `all`. Unreadable entries are left out, since opening them would fail
/// too.
fn walk(root: &Path, folder: &Path, name: &str, depth: usize, all: &mut Vec<Entry>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let own = entry.file_name();
        let Some(own) = own.to_str().filter(|own| is_name(own)) else { continue };
        let name = format!("{name}/{own}");
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && depth + 1 < DEPTH_MAX {
            walk(root, &entry.path(), &name, depth + 1, all);
            continue;
        }
        // Files in a linked folder are served by name but not listed, because links may form cycles.
        let Ok(real) = entry.path().canonicalize() else { continue };
        let is_inside = |real: &Path| real.strip_prefix(root).is_ok_and(|rest| !is_hidden(rest));
        let Some(meta) = real.metadata().ok().filter(|meta| meta.is_file()) else { continue };
        if is_inside(&real) && all.len() < LIST_MAX {
            all.push(Entry { name, len: meta.len() });
        }
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.roots.keys()).finish()
    }
}

/// One version of one file.
struct OneFile {
    source: Arc<FileSource>,
    id: FileId,
    limits: Limits,
    index: OnceLock<Vec<Range<u64>>>,
    known: Arc<Known>,
    /// The file's hash tree. Locked while the file is hashed, so that this is done once.
    tree: Mutex<Option<Arc<Tree>>>,
}

/// A cache of the properties of files, for later requests, with the newest entries last.
#[derive(Default)]
struct Known {
    /// The byte ranges of each file's index.
    indexes: Mutex<VecDeque<(FileId, Vec<Range<u64>>)>>,
    /// Hash trees of files.
    trees: Mutex<VecDeque<(FileId, Arc<Tree>)>>,
}

/// Maximum number of files whose index ranges are cached.
const INDEXES: usize = 256;

/// Maximum bytes of cached hash trees: enough for 64 of the largest files.
const TREES: usize = 256 << 20;

impl Known {
    fn index(&self, id: FileId, find: impl FnOnce() -> Vec<Range<u64>>) -> Vec<Range<u64>> {
        if let Some((_, index)) = lock(&self.indexes).iter().find(|(other, _)| *other == id) {
            return index.clone();
        }
        let index = find();
        let mut all = lock(&self.indexes);
        // An empty result is not cached, since a failure may be temporary.
        all.extend((!index.is_empty()).then(|| (id, index.clone())));
        if all.len() > INDEXES {
            all.pop_front();
        }
        index
    }

    fn tree(&self, id: FileId) -> Option<Arc<Tree>> {
        let mut all = lock(&self.trees);
        let at = all.iter().position(|(other, _)| *other == id)?;
        let found = all.remove(at)?;
        let tree = Arc::clone(&found.1);
        all.push_back(found);
        Some(tree)
    }

    fn keep(&self, id: FileId, tree: &Arc<Tree>) {
        let mut all = lock(&self.trees);
        all.push_back((id, Arc::clone(tree)));
        let is_much = |all: &VecDeque<(FileId, Arc<Tree>)>| {
            all.len() > 1024 || all.iter().map(|(_, tree)| tree.size()).sum::<usize>() > TREES
        };
        while all.len() > 1 && is_much(&all) {
            all.pop_front();
        }
    }
}

impl OneFile {
    fn open(path: &Path, limits: &Limits, known: Arc<Known>) -> Result<OneFile> {
        let source = Arc::new(FileSource::open(path)?);
        let meta =
            source.as_file().metadata().map_err(|e| IO.broken("looking at the file").because(e))?;
        Ok(OneFile {
            id: id(&meta),
            source,
            limits: limits.clone(),
            index: OnceLock::new(),
            known,
            tree: Mutex::default(),
        })
    }

    /// Returns the ranges that a decoder reads. If a few bytes give the position of the index, nothing is
    /// decoded: the client waits for this answer, and decodes the index anyway.
    fn find_index(&self) -> Vec<Range<u64>> {
        let traced = Arc::new(Traced { source: Arc::clone(&self.source), read: Mutex::default() });
        let done = match holdall_io::table_of(&*traced, &self.limits) {
            Ok(Some(table)) => {
                lock(&traced.read).push(table);
                Ok(())
            }
            Ok(None) => {
                let source: Arc<dyn ByteSource> = Arc::clone(&traced) as Arc<dyn ByteSource>;
                let options = holdall_io::OpenOptions::new().with_limits(self.limits.clone());
                options.open_source(source, "").map(drop)
            }
            Err(e) => Err(e),
        };
        match done {
            Ok(()) => joined(std::mem::take(&mut *lock(&traced.read))),
            // The format is unknown or the file is invalid: the client gets the error when it opens the file.
            Err(_) => Vec::new(),
        }
    }

    fn unchanged(&self) -> Result<()> {
        match self.source.as_file().metadata() {
            Ok(meta) if id(&meta) == self.id => Ok(()),
            _ => Err(CHANGED.broken("the file was changed on the server")),
        }
    }
}

/// Returns an identifier of this version of the file: a hash of its length, modification time, device and
/// inode.
fn id(meta: &Metadata) -> FileId {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let mut add = |n: u128| hasher.update(&n.to_le_bytes());
    add(meta.len().into());
    let since = |t: std::time::SystemTime| t.duration_since(std::time::UNIX_EPOCH).ok();
    add(meta.modified().ok().and_then(since).map_or(0, |t| t.as_nanos()));
    if let Some((device, number)) = holdall_io::platform::file_id(meta) {
        add(device.into());
        add(number.into());
    }
    match hasher.finish() {
        Digest::Sha256(bytes) => FileId(bytes),
        _ => FileId([0; 32]),
    }
}

impl ServedFile for OneFile {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn index(&self) -> Vec<Range<u64>> {
        self.index.get_or_init(|| self.known.index(self.id, || self.find_index())).clone()
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.source.read_range(range);
        // If the file was changed, return that error instead of the bytes.
        self.unchanged().and(bytes)
    }

    fn read_into(&self, range: Range<u64>, out: &mut [u8]) -> Result<()> {
        let done = self.source.read_into(range.start, out);
        self.unchanged().and(done)
    }

    fn tree(&self) -> Result<Arc<Tree>> {
        let mut own = lock(&self.tree);
        let tree = match own.take().or_else(|| self.known.tree(self.id)) {
            Some(tree) => tree,
            None => {
                let tree = Arc::new(Tree::new(self.len(), &|range| self.read(range))?);
                self.known.keep(self.id, &tree);
                tree
            }
        };
        *own = Some(Arc::clone(&tree));
        Ok(tree)
    }
}

/// A source that records which ranges were read.
struct Traced {
    source: Arc<FileSource>,
    read: Mutex<Vec<Range<u64>>>,
}

impl ByteSource for Traced {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        lock(&self.read).extend_from_slice(ranges);
        self.source.read(ranges)
    }

    fn read_hints(&self) -> ReadHints {
        ReadHints::DISK
    }

    fn prefetched(&self) -> Vec<(u64, Bytes)> {
        // No prefetch, so that only the decoder's own reads are recorded: a new connection carries no more
        // than 14 kB in one round trip.
        vec![(0, Bytes::new())]
    }
}

/// Sorts ranges and merges those that touch or overlap, then keeps as many, from the front, as an index may
/// have.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    // One byte is reserved for the last byte of the file, which is proven with the index.
    let mut room = INDEX_MAX - 1;
    all.retain(|range| {
        let fits = range.end - range.start <= room;
        room -= if fits { range.end - range.start } else { 0 };
        fits
    });
    all.truncate(RANGES_MAX);
    all
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // One range is meant, not its numbers.
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let ranges = vec![50..60, 0..10, 10..20, 5..7, 30..30, 55..70];
        assert_eq!(joined(ranges), [0..20, 50..70]);
        assert_eq!(joined(vec![0..10, 20..20 + INDEX_MAX]).len(), 1, "too long to be sent");
    }

    #[test]
    fn where_an_index_is_is_found_out_once() {
        let (known, id) = (Known::default(), FileId([255; 32]));
        assert_eq!(known.index(id, Vec::new), []);
        assert_eq!(known.index(id, || vec![0..10]), [0..10]);
        assert_eq!(known.index(id, || unreachable!("it is known")), [0..10]);
        for other in 0..INDEXES {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&other.to_le_bytes());
            known.index(FileId(id), || vec![0..1]);
        }
        assert_eq!(known.index(id, || vec![0..11]), [0..11], "it was the oldest");
    }
}
