//! Sound files that were cut short or had one byte changed give an error, or correct contents with less in
//! them; never a panic, and never bytes that differ from their digests.

mod corpus_files;

use corpus_files::files;
use holdall::{
    ByteOrder, Bytes, Check, Component, Encoding, ErrorKind, File, Hasher, LoadOptions, Loaded,
    OpenOptions, Result, Tensor, VerifyOptions, VerifyReport, Work, verify,
};
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

/// How many changes are tried: at some offsets, or with `HOLDALL_WHOLE`, as `cargo xtask whole` sets it, at
/// all of them; without checked arithmetic at other offsets than with it.
struct Effort {
    /// Files of up to this many bytes are cut and changed at every byte; longer ones at as many offsets as
    /// this and around the boundaries of their structure.
    every: usize,
    /// How many changes of a byte's bits are tried: one bit, then all.
    flips: usize,
    /// Approximate maximum of bytes that are decoded for one file.
    decoded: usize,
}

static EFFORT: LazyLock<Effort> = LazyLock::new(|| {
    let is_whole = std::env::var_os("HOLDALL_WHOLE").is_some();
    match (cfg!(debug_assertions), is_whole) {
        (true, false) => Effort { every: 160, flips: 1, decoded: 256 << 20 },
        (false, false) => Effort { every: 140, flips: 2, decoded: 256 << 20 },
        (_, true) => Effort { every: 8 << 10, flips: 2, decoded: 4 << 30 },
    }
});

/// Runs `work` on every accepted file, on all cores.
fn on_every_file(work: impl Fn(&Path, Bytes) + Sync) {
    let queue: Mutex<Vec<PathBuf>> = Mutex::new(files("accept"));
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let Some(path) = queue.lock().unwrap().pop() else { return };
                    work(&path, std::fs::read(&path).unwrap().into());
                }
            });
        }
    });
}

fn open(bytes: Bytes) -> Result<File> {
    OpenOptions::new().with_check(Check::All).open_bytes(bytes, "changed")
}

fn load(file: &File) -> Result<Loaded> {
    let names: Vec<&str> = file.names().collect();
    file.load(names, &LoadOptions::new().with_work(Work::new().with_threads(1)))
}

fn verified(file: &File) -> VerifyReport {
    verify(file, &VerifyOptions::new().with_work(Work::new().with_threads(1)))
        .expect("bytes in memory can be read")
}

fn components(file: &File) -> impl Iterator<Item = (Tensor, Component)> {
    file.tensors().flat_map(|t| t.components().map(|c| (t.clone(), c)).collect::<Vec<_>>())
}

/// Returns the offsets to cut or change: every byte of a short file; in a longer one the bytes around every
/// boundary of its structure, and others spread evenly.
fn places(bytes: &Bytes) -> Vec<usize> {
    let file = open(bytes.clone()).expect("accepted files are sound");
    let decoded: u64 = components(&file).filter_map(|(_, c)| c.decoded_len).sum();
    let count = EFFORT.every.min(EFFORT.decoded / (decoded as usize + 1));
    if bytes.len() <= count {
        return (0..bytes.len()).collect();
    }
    let mut all: Vec<usize> = (0..count).map(|i| i * bytes.len() / count).collect();
    let edges = components(&file)
        .filter(|(_, c)| is_in_file(c))
        .flat_map(|(_, c)| [c.stored.start, c.stored.end]);
    let ends = [0, 16, bytes.len() as u64 - 8, bytes.len() as u64];
    for edge in edges.take(count / 16).chain(ends) {
        all.extend((edge.saturating_sub(2)..edge + 2).map(|at| at as usize));
    }
    all.retain(|&at| at < bytes.len());
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns `true` if the bytes are in the file: not stated in the manifest, and not assembled from chunks.
fn is_in_file(c: &Component) -> bool {
    !c.stored.is_stated() && c.stored.chunked().is_none()
}

/// Calls all reading operations on a file. Their results are not compared here.
fn exercise(file: &File) -> (VerifyReport, Result<Loaded>) {
    let report = verified(file);
    for tensor in file.tensors() {
        let _ = tensor.to_dense().map(|dense| dense.shape().len());
    }
    (report, load(file))
}

#[test]
fn every_prefix_is_an_error_or_a_shorter_truth() {
    on_every_file(|path, bytes| {
        let whole = open(bytes.clone()).unwrap();
        let all = load(&whole).unwrap();
        for len in places(&bytes) {
            let Ok(file) = open(bytes.slice(..len)) else { continue };
            let place = format!("{} cut to {len} bytes", path.display());
            let (_, loaded) = exercise(&file);
            let loaded = loaded.unwrap_or_else(|e| panic!("{place}: {e}"));
            for (tensor, c) in components(&file) {
                let name = tensor.name();
                let known = whole.tensor(name).unwrap_or_else(|e| panic!("{place}: {e}"));
                assert_eq!((known.shape(), known.layout()), (tensor.shape(), tensor.layout()));
                let own = loaded.get(name).unwrap().bytes(&c.role).unwrap();
                assert_eq!(own, all.get(name).unwrap().bytes(&c.role).unwrap(), "{place}: {name}");
            }
        }
    });
}

#[test]
fn every_changed_byte_is_found_or_does_no_harm() {
    on_every_file(|path, bytes| {
        let whole = open(bytes.clone()).unwrap();
        // The ranges that a computable digest covers, and the ranges of all data.
        let is_watched = |c: &Component| {
            c.stored_digest_algorithm()
                .is_some_and(|a| c.encoding == Encoding::Raw || !a.covers_decoded_bytes())
        };
        let watched: Vec<Range<u64>> = components(&whole)
            .filter(|(_, c)| is_watched(c))
            .map(|(_, c)| c.stored.range())
            .collect();
        let in_file = components(&whole).filter(|(_, c)| is_in_file(c));
        let data: Vec<Range<u64>> = in_file.map(|(_, c)| c.stored.range()).collect();
        let mut changed = bytes.to_vec();
        for at in places(&bytes) {
            let here = at as u64;
            let sure = watched.iter().any(|range| range.contains(&here));
            let in_data = data.iter().any(|range| range.contains(&here));
            for flip in [1 << (at % 8), 0xff].into_iter().take(EFFORT.flips) {
                changed[at] ^= flip;
                let place = format!("{} with byte {at} ^ {flip:#x}", path.display());
                match open(Bytes::copy_from_slice(&changed)) {
                    Ok(file) => {
                        let (report, loaded) = exercise(&file);
                        if sure {
                            assert!(report.finding_count > 0, "{place}: nothing found");
                            assert!(loaded.is_err(), "{place}: it loads");
                        }
                        check_loaded(&file, &report, loaded, &place);
                    }
                    Err(e) => assert!(!in_data, "{place}: {e}"),
                }
                changed[at] ^= flip;
            }
        }
    });
}

/// Compares loaded bytes with digests and decoding done here.
fn check_loaded(file: &File, report: &VerifyReport, loaded: Result<Loaded>, place: &str) {
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(e) => {
            let beyond_us = matches!(e.kind(), ErrorKind::Limit | ErrorKind::Unsupported);
            assert!(beyond_us || !report.is_sound(), "{place}: verified, but does not load: {e}");
            return;
        }
    };
    for (tensor, c) in components(file) {
        let stored = tensor.stored(&c.role).unwrap();
        let bytes = loaded.get(tensor.name()).unwrap().bytes(&c.role).unwrap();
        if let Some(algorithm) = c.digest.as_ref().and_then(|d| d.algorithm()) {
            let mut hasher = Hasher::new(algorithm);
            let of_stored = c.encoding == Encoding::Raw || !algorithm.covers_decoded_bytes();
            hasher.update(if of_stored { &stored } else { bytes });
            // Decoded bytes equal the file's bytes only if little-endian.
            let is_known = of_stored || c.byte_order == ByteOrder::Little;
            assert!(!is_known || Some(hasher.finish()) == c.digest, "{place}: {}", tensor.name());
        }
        let len = c.decoded_len.unwrap_or(bytes.len() as u64);
        assert_eq!(bytes.len() as u64, len, "{place}: {}", tensor.name());
        if c.encoding == Encoding::ZSTD && len <= 64 << 10 {
            let mut decoder = zstd::Decoder::new(&stored[..]).unwrap();
            decoder.window_log_max(31).unwrap();
            let mut decoded = Vec::new();
            decoder.read_to_end(&mut decoded).expect("it decodes elsewhere too");
            assert_eq!(bytes, &decoded, "{place}: {}", tensor.name());
        }
    }
}
