//! A disk cache for blocks of remote files: shared by processes, bounded in size, and verified by checksums.
//!
//! Each block is a separate file that ends with the CRC-32C of its bytes. The file gets its name when it is complete,
//! so a killed process leaves no partial block; damage after a power failure is detected by the checksum. If the disk
//! is full, or writing fails for another reason, caching stops and reading continues. The folder of a remote file is
//! named by the SHA-256 of its address, its length and its strong validator, so another version has another folder. A
//! file without a strong validator is not cached.

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

/// The environment variable with the path of the cache folder.
pub const CACHE: &str = "HOLDALL_CACHE";

/// Returns the cache folder: the one in the environment variable [`CACHE`], else `holdall` in the system's folder for
/// caches. `env` looks up environment variables.
pub fn standard_root(env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| env(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    // The XDG specification says to ignore paths that are not absolute.
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

/// A disk cache for blocks of files on web servers and in object stores. Any number of processes can share one.
#[derive(Debug, Clone)]
pub struct BlockCache {
    root: PathBuf,
    most: u64,
}

/// The length of a block in bytes.
const BLOCK: u64 = 512 << 10;
/// The length in bytes of the checksum that follows a block.
const SUM: usize = 4;
/// The number of blocks fetched at once.
const BATCH: usize = 64;
/// The number of cached bytes after which the size of the cache is checked.
const PROBE_BYTES: u64 = 64 << 20;
/// The least time between two updates of a block's time of last use.
const MARK: Duration = Duration::from_secs(60);
/// The age at which temporary files of killed processes are removed.
const STALE: Duration = Duration::from_secs(3600);

impl BlockCache {
    /// Creates a cache in `holdall-blocks` below this folder, of at most 10 GiB.
    pub fn new(folder: impl AsRef<Path>) -> BlockCache {
        BlockCache { root: folder.as_ref().join("holdall-blocks"), most: 10 << 30 }
    }

    /// Creates a cache in the folder that the environment or the system has for caches.
    ///
    /// # Errors
    /// Misuse if there is no such folder.
    pub fn standard() -> Result<BlockCache> {
        let root = standard_root(&|name| std::env::var_os(name));
        let root = root.ok_or_else(|| {
            NO_CACHE.broken("neither the environment nor the system names a folder for caches")
        })?;
        Ok(BlockCache::new(root))
    }

    /// Sets the greatest size in bytes. Each process may exceed it temporarily by 64 MiB. The least recently used
    /// blocks are evicted first.
    pub fn with_size(mut self, bytes: u64) -> BlockCache {
        self.most = bytes;
        self
    }

    /// Returns a source that caches the blocks of a file. `version` must identify the file and its version.
    pub(crate) fn wrap(&self, inner: Arc<dyn ByteSource>, version: &str) -> CachedSource {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(format!("{}\n{version}", inner.len()).as_bytes());
        let name = hasher.finish().to_string().trim_start_matches("sha256:").to_owned();
        let (folder, cache) = (self.root.join(name), self.clone());
        let (is_off, written) = (AtomicBool::new(false), AtomicU64::new(PROBE_BYTES));
        CachedSource { inner, folder, cache, is_off, written }
    }

    /// Evicts the least recently used blocks until the size is within the bound. Only one process at a time does this;
    /// the others continue without waiting.
    fn trim(&self) -> io::Result<()> {
        let lock = File::options().create(true).append(true).open(self.root.join(".lock"))?;
        if lock.try_lock().is_err() {
            return Ok(());
        }
        let now = SystemTime::now();
        let (mut all, mut total) = (Vec::new(), 0u64);
        // Only files that this module created are removed.
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
            // Fails, as intended, if the folder is not empty.
            let _ = fs::remove_dir(folder.path());
        }
        if total <= self.most {
            return Ok(());
        }
        all.sort_unstable();
        for (_, len, path) in all {
            // A tenth below the bound, so that this is not repeated at once.
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

/// A source whose blocks are cached.
pub(crate) struct CachedSource {
    inner: Arc<dyn ByteSource>,
    folder: PathBuf,
    cache: BlockCache,
    /// Whether caching has stopped, because the disk is full or the folder cannot be written.
    is_off: AtomicBool,
    written: AtomicU64,
}

impl CachedSource {
    fn path(&self, block: u64) -> PathBuf {
        self.folder.join(block.to_string())
    }

    /// Returns the byte range of the file that a block covers.
    fn range(&self, block: u64) -> Range<u64> {
        let start = block * BLOCK;
        start..start.saturating_add(BLOCK).min(self.len())
    }

    /// Reads a cached block into `out`, which has its length. Returns `true` if the block is cached and its checksum
    /// matches.
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
                // The time is only used to find the least recently used blocks.
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

    /// Writes a block to the cache, if possible.
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
            if self.written.fetch_add(len, Ordering::Relaxed) + len >= PROBE_BYTES {
                self.written.store(0, Ordering::Relaxed);
                self.cache.trim()?;
            }
            Ok::<(), io::Error>(())
        };
        if write().is_err() {
            self.is_off.store(true, Ordering::Relaxed);
        }
    }

    /// Fills each buffer of `wanted` with its range, from cached blocks or else from the source.
    fn fill(&self, wanted: &mut [(Range<u64>, &mut [u8])]) -> Result<()> {
        let mut missing = BTreeSet::new();
        let mut spare = Vec::new();
        for (range, out) in wanted.iter_mut() {
            for block in blocks(range) {
                let (own, within) = (self.range(block), cut(range, &self.range(block)));
                let target = &mut out
                    [(within.start - range.start) as usize..(within.end - range.start) as usize];
                let is_here = if missing.contains(&block) {
                    false
                } else if within == own {
                    self.load(block, target)
                } else {
                    spare.resize((own.end - own.start) as usize, 0);
                    let is_here = self.load(block, &mut spare);
                    if is_here {
                        let from = (within.start - own.start) as usize;
                        target.copy_from_slice(&spare[from..from + target.len()]);
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
                        let target = (within.start - range.start) as usize
                            ..(within.end - range.start) as usize;
                        let from = (within.start - own.start) as usize;
                        let len = target.len();
                        out[target].copy_from_slice(&bytes[from..from + len]);
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

    fn read_hints(&self) -> ReadHints {
        self.inner.read_hints()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.inner.warnings()
    }
}

/// Returns the numbers of the blocks that overlap a range.
fn blocks(range: &Range<u64>) -> Range<u64> {
    if range.start == range.end { 0..0 } else { range.start / BLOCK..range.end.div_ceil(BLOCK) }
}

/// Returns the intersection of two ranges, or an empty range.
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

/// Creates a folder that only the user can access, because cached files may be secret.
fn create(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    #[test]
    #[allow(clippy::reversed_empty_ranges)]
    fn ranges_are_checked_as_those_of_other_sources() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..BLOCK + 9).map(|i| (i % 251) as u8).collect();
        let inner = Arc::new(MemorySource::new(bytes.clone()));
        let cached = BlockCache::new(folder.path()).wrap(inner, "1");
        let end = bytes.len() as u64;
        for range in [0..0, 7..7, end..end, 0..end, BLOCK - 3..BLOCK + 3, end - 1..end] {
            let wanted = &bytes[range.start as usize..range.end as usize];
            // First from the source, then from the cache.
            for _ in 0..2 {
                assert_eq!(cached.read(std::slice::from_ref(&range)).unwrap()[0], wanted);
                let mut out = vec![0; wanted.len()];
                cached.read_into(range.start, &mut out).unwrap();
                assert_eq!(out, wanted);
            }
        }
        for range in [3..2, end..end + 1, end + 1..end + 1] {
            assert!(cached.read(&[0..1, range]).is_err());
        }
        assert!(cached.read_into(end - 1, &mut [0; 2]).is_err());
    }
}
