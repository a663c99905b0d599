//! Blocks of files that are elsewhere, kept on the disk: shared by processes, bounded, never trusted without a checksum.
//!
//! A block is a file of its own, with the CRC-32C of its bytes behind them. It gets its name when it is whole, so a process that is killed leaves no
//! half of one; what a power cut leaves is found by the checksum. A disk that is full, or any other failure to write, ends the keeping and not the
//! reading. The folder of a file is named by the SHA-256 of its address, its length and its strong validator: another version has another folder, and a
//! file without such a validator is not kept.

use crate::buffer::Buffer;
use crate::error::NO_CACHE;
use crate::source::{ByteSource, ReadHints, outside};
use bytes::Bytes;
use holdall_core::model::Hasher;
use holdall_core::{Algorithm, Digest, Result, Warning};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The environment variable that names the folder for cached files.
pub const CACHE: &str = "HOLDALL_CACHE";

/// The folder for cached files, by what the environment says: the one that [`CACHE`] names, else `holdall` where the system has caches.
pub fn standard_root(env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| env(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    // The convention says to ignore paths that are not absolute.
    let absolute = |name: &str| folder(name).filter(|path| path.is_absolute());
    if let Some(own) = folder(CACHE) {
        return Some(own);
    }
    if cfg!(windows) {
        return Some(absolute("LOCALAPPDATA")?.join("holdall").join("cache"));
    }
    if cfg!(target_os = "macos") {
        return Some(absolute("HOME")?.join("Library/Caches/holdall"));
    }
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("holdall"))
}

/// A cache of blocks of files on web servers and in object stores. Any number of processes use one.
#[derive(Debug, Clone)]
pub struct BlockCache {
    root: PathBuf,
    most: u64,
}

/// Bytes of a block.
const BLOCK: u64 = 512 << 10;
/// Bytes behind those of a block: its checksum.
const SUM: usize = 4;
/// Blocks fetched at once.
const BATCH: usize = 64;
/// Bytes kept between two looks at how much there is.
const LOOK: u64 = 64 << 20;
/// What is used is marked as used so often at most.
const MARK: Duration = Duration::from_secs(60);
/// What a process that was killed left behind is removed after so long.
const STALE: Duration = Duration::from_secs(3600);

impl BlockCache {
    /// One in this folder, below `holdall-blocks`, of at most 10 GiB.
    pub fn new(folder: impl AsRef<Path>) -> BlockCache {
        BlockCache { root: folder.as_ref().join("holdall-blocks"), most: 10 << 30 }
    }

    /// One in the folder that the environment or the system has for caches.
    ///
    /// # Errors
    /// Misuse, where there is none.
    pub fn standard() -> Result<BlockCache> {
        let root = standard_root(&|name| std::env::var_os(name));
        let root = root.ok_or_else(|| {
            NO_CACHE.broken("neither the environment nor the system names a folder for caches")
        })?;
        Ok(BlockCache::new(root))
    }

    /// The same of at most so many bytes, and 64 MiB that each process may be beyond them for a while. What was used longest ago goes first.
    pub fn with_size(mut self, bytes: u64) -> BlockCache {
        self.most = bytes;
        self
    }

    /// A file of which blocks are kept; `version` is what no other file and no other version has.
    pub(crate) fn wrap(&self, inner: Arc<dyn ByteSource>, version: &str) -> CachedSource {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(format!("{}\n{version}", inner.len()).as_bytes());
        let name = hasher.finish().to_string().trim_start_matches("sha256:").to_owned();
        let (folder, cache) = (self.root.join(name), self.clone());
        let (is_off, written) = (AtomicBool::new(false), AtomicU64::new(LOOK));
        CachedSource { inner, folder, cache, is_off, written }
    }

    /// Removes what was used longest ago, until there is room. One process at a time does; others go on.
    fn trim(&self) -> io::Result<()> {
        let lock = File::options().create(true).append(true).open(self.root.join(".lock"))?;
        if lock.try_lock().is_err() {
            return Ok(());
        }
        let now = SystemTime::now();
        let (mut all, mut total) = (Vec::new(), 0u64);
        // Nothing is removed that was not put here.
        let is_own = |name: &OsString| {
            name.to_str().is_some_and(|n| n.len() == 64 && n.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        let is_block = |name: &OsString| {
            let name = name.to_str().unwrap_or("?");
            name.starts_with('.') || name.bytes().all(|b| b.is_ascii_digit())
        };
        for folder in fs::read_dir(&self.root)?.flatten().filter(|f| is_own(&f.file_name())) {
            let Ok(entries) = fs::read_dir(folder.path()) else { continue };
            for entry in entries.flatten().filter(|entry| is_block(&entry.file_name())) {
                let Ok(meta) = entry.metadata() else { continue };
                let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let is_part = entry.file_name().to_string_lossy().starts_with('.');
                if is_part && now.duration_since(used).is_ok_and(|age| age > STALE) {
                    let _ = fs::remove_file(entry.path());
                    continue;
                }
                total = total.saturating_add(meta.len());
                all.push((used, meta.len(), entry.path()));
            }
            // Nothing happens to one with files in it.
            let _ = fs::remove_dir(folder.path());
        }
        if total <= self.most {
            return Ok(());
        }
        all.sort_unstable();
        for (_, len, path) in all {
            // A tenth more, so that this is not done again at once.
            if total <= self.most - self.most / 10 {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total = total.saturating_sub(len);
            }
        }
        Ok(())
    }
}

/// A source of which blocks are kept.
pub(crate) struct CachedSource {
    inner: Arc<dyn ByteSource>,
    folder: PathBuf,
    cache: BlockCache,
    /// Nothing more is kept: the disk is full, or the folder cannot be written.
    is_off: AtomicBool,
    written: AtomicU64,
}

impl CachedSource {
    fn path(&self, block: u64) -> PathBuf {
        self.folder.join(block.to_string())
    }

    /// The bytes of the file that a block has.
    fn range(&self, block: u64) -> Range<u64> {
        let start = block * BLOCK;
        start..start.saturating_add(BLOCK).min(self.len())
    }

    /// Reads a block that is kept into `out`, which is as long; whether it is there, and sound.
    fn load(&self, block: u64, out: &mut [u8]) -> bool {
        let path = self.path(block);
        let mut read = || {
            let mut file = File::open(&path)?;
            let mut sum = [0; SUM];
            file.read_exact(out)?;
            file.read_exact(&mut sum)?;
            let is_sound = file.read(&mut [0])? == 0 && u32::from_le_bytes(sum) == crc(out);
            let used = file.metadata()?.modified()?;
            if used.elapsed().is_ok_and(|age| age > MARK) {
                // Only said to those who look for what was used longest ago.
                let _ = file.set_modified(SystemTime::now());
            }
            Ok::<bool, io::Error>(is_sound)
        };
        match read() {
            Ok(true) => true,
            Ok(false) => {
                let _ = fs::remove_file(&path);
                false
            }
            Err(_) => false,
        }
    }

    /// Keeps a block, where that can be done.
    fn save(&self, block: u64, bytes: &[u8]) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let write = || {
            create(&self.folder)?;
            let mut part = tempfile::Builder::new().prefix(".").tempfile_in(&self.folder)?;
            part.write_all(bytes)?;
            part.write_all(&crc(bytes).to_le_bytes())?;
            part.persist(self.path(block)).map_err(|e| e.error)?;
            let len = bytes.len() as u64;
            if self.written.fetch_add(len, Ordering::Relaxed) + len >= LOOK {
                self.written.store(0, Ordering::Relaxed);
                self.cache.trim()?;
            }
            Ok::<(), io::Error>(())
        };
        if write().is_err() {
            self.is_off.store(true, Ordering::Relaxed);
        }
    }

    /// Fills each of `wanted` with the bytes of its range, from blocks that are kept and from the source.
    fn fill(&self, wanted: &mut [(Range<u64>, &mut [u8])]) -> Result<()> {
        let mut missing = BTreeSet::new();
        let mut spare = Vec::new();
        for (range, out) in wanted.iter_mut() {
            for block in blocks(range) {
                let (own, within) = (self.range(block), cut(range, &self.range(block)));
                let place = &mut out
                    [(within.start - range.start) as usize..(within.end - range.start) as usize];
                let is_here = if missing.contains(&block) {
                    false
                } else if within == own {
                    self.load(block, place)
                } else {
                    spare.resize((own.end - own.start) as usize, 0);
                    let is_here = self.load(block, &mut spare);
                    if is_here {
                        let from = (within.start - own.start) as usize;
                        place.copy_from_slice(&spare[from..from + place.len()]);
                    }
                    is_here
                };
                if !is_here {
                    missing.insert(block);
                }
            }
        }
        let missing: Vec<u64> = missing.into_iter().collect();
        for batch in missing.chunks(BATCH) {
            let ranges: Vec<Range<u64>> = batch.iter().map(|block| self.range(*block)).collect();
            let all = self.inner.read(&ranges)?;
            for ((block, own), bytes) in batch.iter().zip(&ranges).zip(&all) {
                self.save(*block, bytes);
                for (range, out) in wanted.iter_mut() {
                    let within = cut(range, own);
                    if within.start < within.end {
                        let place = (within.start - range.start) as usize
                            ..(within.end - range.start) as usize;
                        let from = (within.start - own.start) as usize;
                        let len = place.len();
                        out[place].copy_from_slice(&bytes[from..from + len]);
                    }
                }
            }
        }
        Ok(())
    }
}

impl ByteSource for CachedSource {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(range) = ranges.iter().find(|r| r.start > r.end || r.end > self.len()) {
            return Err(outside(range, self.len()));
        }
        let mut buffers = Vec::with_capacity(ranges.len());
        for range in ranges {
            buffers.push(Buffer::new((range.end - range.start) as usize)?);
        }
        let outs = buffers.iter_mut().map(|buffer| buffer.as_mut());
        let mut wanted: Vec<_> = ranges.iter().cloned().zip(outs).collect();
        self.fill(&mut wanted)?;
        Ok(buffers.into_iter().map(Buffer::freeze).collect())
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(out.len() as u64);
        if range.end > self.len() {
            return Err(outside(&range, self.len()));
        }
        self.fill(&mut [(range, out)])
    }

    fn terms(&self) -> ReadHints {
        self.inner.terms()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.inner.warnings()
    }
}

/// The blocks that a range touches.
fn blocks(range: &Range<u64>) -> Range<u64> {
    if range.start == range.end { 0..0 } else { range.start / BLOCK..range.end.div_ceil(BLOCK) }
}

/// What both have; where that is nothing, an empty range.
fn cut(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}

fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new(Algorithm::Crc32c);
    hasher.update(bytes);
    match hasher.finish() {
        Digest::Crc32c(sum) => sum,
        _ => 0,
    }
}

/// A folder for the user alone: what is in it may be secret.
fn create(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
