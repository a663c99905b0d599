//! A disk cache for blocks of remote files: shared by processes, bounded in size, and verified by checksums.
//!
//! Each block is a separate file that ends with the CRC-32C of its bytes. The file gets its name when it is complete,
//! so a killed process leaves no partial block; damage after a power failure is detected by the checksum. If the disk
//! is full, or writing fails for another reason, caching stops and reading continues. The folder of a remote file is
//! named by the SHA-256 of its address, its length and its strong validator, so another version has another folder. A
//! file without a strong validator is not cached.

use crate::buffer::Buffer;
use crate::error::NO_CACHE;
use crate::platform;
use crate::source::{ByteSource, FileSource, MapSource, ReadHints, outside};
use bytes::Bytes;
use holdall_core::model::Hasher;
use holdall_core::{Algorithm, Digest, Result, Warning};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The environment variable with the path of the cache folder.
pub const CACHE: &str = "HOLDALL_CACHE";

/// Returns the cache folder: the one in the environment variable [`CACHE`], else `holdall` in the system's folder for
/// caches. `env` looks up environment variables.
pub fn standard_root(env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let own = env(CACHE).filter(|path| !path.is_empty()).map(PathBuf::from);
    own.or_else(|| platform::cache_folder(env))
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
/// The number of blocks that a source keeps mapped.
const MAPPED: usize = 8192;
/// While the whole file is fetched, missing ranges of at most this length are read alone, without their block.
const SMALL: u64 = 64 << 10;
/// A file of at most this length is fetched by the reads that need its blocks: it is not worth a thread.
const FEW: u64 = 128 << 20;
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
    /// Returns a `Misuse` error if there is no such folder.
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
        CachedSource {
            inner,
            folder,
            cache,
            is_off: AtomicBool::new(false),
            is_filling: AtomicBool::new(false),
            written: AtomicU64::new(PROBE_BYTES),
            mapped: Mutex::default(),
        }
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
    /// Whether [`ByteSource::fill_cache`] is running.
    is_filling: AtomicBool,
    written: AtomicU64,
    mapped: Mutex<MappedBlocks>,
}

/// Cached blocks that were checked and mapped, so that small reads neither open nor check their files again.
#[derive(Default)]
struct MappedBlocks {
    blocks: BTreeMap<u64, MappedBlock>,
    /// The numbers of the blocks, in the order in which they were mapped.
    order: VecDeque<u64>,
}

struct MappedBlock {
    bytes: Bytes,
    /// When the time of last use of its file was last updated.
    marked: Instant,
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

    /// Returns a cached block if its checksum matches.
    fn load(&self, block: u64) -> Option<Bytes> {
        let lock = || self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().blocks.get_mut(&block) {
            if found.marked.elapsed() > MARK {
                found.marked = Instant::now();
                self.mark(block);
            }
            return Some(found.bytes.clone());
        }
        let len = usize::try_from(self.range(block).end - self.range(block).start).ok()?;
        let file = FileSource::open(&self.path(block)).ok()?;
        let (all, is_remote) = (file.len(), file.is_remote());
        let bytes = match all == (len + SUM) as u64 {
            true if is_remote => file.read_range(0..all).ok()?,
            true => MapSource::new(file).and_then(|map| map.read_range(0..all)).ok()?,
            false => Bytes::new(),
        };
        let sum = bytes.get(len..).and_then(|sum| sum.first_chunk().copied());
        let bytes = bytes.slice(..len.min(bytes.len()));
        if sum.map(u32::from_le_bytes) != Some(crc(&bytes)) {
            let _ = fs::remove_file(self.path(block));
            return None;
        }
        self.mark(block);
        if is_remote {
            return Some(bytes);
        }
        let mut mapped = lock();
        if mapped.order.len() >= MAPPED
            && let Some(oldest) = mapped.order.pop_front()
        {
            mapped.blocks.remove(&oldest);
        }
        let marked = Instant::now();
        if mapped.blocks.insert(block, MappedBlock { bytes: bytes.clone(), marked }).is_none() {
            mapped.order.push_back(block);
        }
        Some(bytes)
    }

    /// Updates the time of last use of a block's file, which only says which blocks are evicted first.
    fn mark(&self, block: u64) {
        let update = || {
            let file = File::options().append(true).open(self.path(block))?;
            if file.metadata()?.modified()?.elapsed().is_ok_and(|age| age > MARK) {
                file.set_modified(SystemTime::now())?;
            }
            Ok::<(), io::Error>(())
        };
        let _ = update();
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
        let mut alone = Vec::new();
        for (index, (range, out)) in wanted.iter_mut().enumerate() {
            let mut new = Vec::new();
            for block in blocks(range) {
                if missing.contains(&block) {
                    continue;
                }
                match self.load(block) {
                    Some(bytes) => copy_overlap(&self.range(block), &bytes, range, out),
                    None => new.push(block),
                }
            }
            // The block of a small range is being fetched.
            let is_alone = new.len() == 1 && range.end - range.start <= SMALL && self.is_filling();
            match is_alone {
                true => alone.push(index),
                false => missing.extend(new),
            }
        }
        if !alone.is_empty() {
            let ranges: Vec<Range<u64>> = alone.iter().map(|at| wanted[*at].0.clone()).collect();
            for (at, bytes) in alone.into_iter().zip(self.inner.read(&ranges)?) {
                wanted[at].1.copy_from_slice(&bytes);
            }
        }
        let missing: Vec<u64> = missing.into_iter().collect();
        for batch in missing.chunks(BATCH) {
            self.fetch(batch, |own, bytes| {
                for (range, out) in wanted.iter_mut() {
                    copy_overlap(own, bytes, range, out);
                }
            })?;
        }
        Ok(())
    }

    /// Fetches and caches blocks, and calls `each` with the range and the bytes of every one.
    fn fetch(&self, batch: &[u64], mut each: impl FnMut(&Range<u64>, &Bytes)) -> Result<()> {
        let ranges: Vec<Range<u64>> = batch.iter().map(|block| self.range(*block)).collect();
        let all = self.inner.read(&ranges)?;
        for ((block, own), bytes) in batch.iter().zip(&ranges).zip(&all) {
            self.save(*block, bytes);
            each(own, bytes);
        }
        Ok(())
    }

    fn is_filling(&self) -> bool {
        self.is_filling.load(Ordering::Relaxed)
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
        // Ranges within one cached block are not copied.
        let within = |range: &Range<u64>| {
            let block = range.start / BLOCK;
            if range.start == range.end || (range.end - 1) / BLOCK != block {
                return None;
            }
            let start = (range.start - block * BLOCK) as usize;
            let bytes = self.load(block)?;
            Some(bytes.slice(start..start + (range.end - range.start) as usize))
        };
        if let Some(found) = ranges.iter().map(within).collect() {
            return Ok(found);
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

    fn fill_cache(&self, range: Range<u64>, first: u64, is_wanted: &dyn Fn() -> bool) {
        let len = range.end.saturating_sub(range.start);
        if len <= FEW || len > self.cache.most / 2 || self.is_filling.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let all = blocks(&range);
        let middle = (first / BLOCK).clamp(all.start, all.end);
        let is_missing = |block: &u64| !self.path(*block).exists();
        let missing: Vec<u64> =
            (middle..all.end).chain(all.start..middle).filter(is_missing).collect();
        for batch in missing.chunks(BATCH) {
            // Reads, and other processes, have fetched some in the meantime.
            let mut batch: Vec<u64> = batch.iter().copied().filter(is_missing).collect();
            batch.sort_unstable();
            let is_off = self.is_off.load(Ordering::Relaxed);
            if is_off || !is_wanted() || self.fetch(&batch, |_, _| ()).is_err() {
                break;
            }
        }
        self.is_filling.store(false, Ordering::Relaxed);
    }
}

/// Copies the bytes of a block that belong to a range to their position in `out`, the bytes of the range.
fn copy_overlap(block: &Range<u64>, bytes: &[u8], range: &Range<u64>, out: &mut [u8]) {
    let start = block.start.max(range.start);
    let end = block.end.min(range.end);
    if start < end {
        let len = (end - start) as usize;
        let (from, to) = ((start - block.start) as usize, (start - range.start) as usize);
        out[to..to + len].copy_from_slice(&bytes[from..from + len]);
    }
}

/// Returns the numbers of the blocks that overlap a range.
fn blocks(range: &Range<u64>) -> Range<u64> {
    if range.start == range.end { 0..0 } else { range.start / BLOCK..range.end.div_ceil(BLOCK) }
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
    platform::make_private_folders(&mut builder);
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

    /// While the whole file is fetched, small ranges are read without their block. Other ranges of the same call, which begin
    /// or end in the same blocks, get their bytes all the same.
    #[test]
    fn ranges_that_meet_in_a_block_are_all_read_while_the_cache_fills() {
        let bytes: Vec<u8> = (0..4 * BLOCK).map(|i| (i % 251) as u8).collect();
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let folder = tempfile::tempdir().unwrap();
            let inner = Arc::new(MemorySource::new(bytes.clone()));
            let cached = BlockCache::new(folder.path()).wrap(inner, "1");
            cached.is_filling.store(true, Ordering::Relaxed);
            // Around the ends of blocks, on both sides of the length from which ranges are not small.
            let near = |block: u64, distance: u64| block * BLOCK - distance;
            let mut ranges = Vec::new();
            for _ in 0..3 {
                let start = near(1 + random(3), random(2 * SMALL));
                let len = random(3 * SMALL) + 1;
                ranges.push(start..(start + len).min(bytes.len() as u64));
            }
            let read = cached.read(&ranges).unwrap();
            for (range, read) in ranges.iter().zip(read) {
                assert!(read == bytes[range.start as usize..range.end as usize], "{ranges:?}");
            }
        }
    }
}
