//! Asynchronous files: the same plans as with threads, so the same bytes and the same errors.
#![cfg(feature = "aio")]
#![allow(clippy::single_range_in_vec_init)] // One range is meant, not its numbers.

use crate::corpus_files::{self, files};
use crate::make;
#[cfg(feature = "http")]
use crate::server;
use holdall::aio::{self, ByteSource, Reading};
use holdall::{
    Attributes, Bytes, Check, Convert, DType, Error, ErrorKind, LoadOptions, OpenOptions,
    ReadHints, Result, Role, Sharing, TensorRecords as _, VerifyOptions, WriteOptions,
};
use std::ops::Range;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};

fn wait<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).build().unwrap().block_on(work)
}

/// A source whose reads complete after a pseudorandom number of polls, so in any order.
struct ScriptedSource {
    bytes: Bytes,
    hints: ReadHints,
    /// Number of started reads, of pending reads, and the maximum of pending ones.
    begun: AtomicUsize,
    under_way: AtomicUsize,
    most: AtomicUsize,
    /// Reads after this number never complete.
    stops: usize,
}

impl ScriptedSource {
    fn new(bytes: impl Into<Bytes>) -> ScriptedSource {
        let mut hints = ReadHints::REMOTE;
        (hints.piece, hints.gap, hints.at_once) = (4096, 16, 8);
        let (begun, under_way, most) = Default::default();
        ScriptedSource { bytes: bytes.into(), hints, begun, under_way, most, stops: usize::MAX }
    }
}

/// Waits for this number of polls.
struct Wait(usize);

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Decrements the number of pending reads when dropped.
struct Less<'a>(&'a AtomicUsize);

impl Drop for Less<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ByteSource for ScriptedSource {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a> {
        Box::pin(async move {
            let number = self.begun.fetch_add(1, Ordering::SeqCst);
            let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let _less = Less(&self.under_way);
            if number >= self.stops {
                std::future::pending::<()>().await;
            }
            Wait((number.wrapping_mul(0x9e37_79b9) >> 7) & 0x1f).await;
            let part = |r: &Range<u64>| self.bytes.slice(r.start as usize..r.end as usize);
            Ok(ranges.iter().map(part).collect())
        })
    }

    fn read_hints(&self) -> ReadHints {
        self.hints
    }
}

/// The same bytes for threads, with the same read hints.
struct Threads(Bytes, ReadHints);

impl holdall::ByteSource for Threads {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let part = |r: &Range<u64>| self.0.slice(r.start as usize..r.end as usize);
        Ok(ranges.iter().map(part).collect())
    }

    fn read_hints(&self) -> ReadHints {
        self.1
    }
}

/// Returns the bytes of a component, or the complete text of the error.
fn describe<T>(found: Result<T>) -> std::result::Result<T, String> {
    found.map_err(|e| format!("{:?} {e} {:?}", e.code(), e.remedies()))
}

async fn same(bytes: Bytes, check: Check, place: &str) -> usize {
    let options = OpenOptions::new().with_check(check);
    let mut source = ScriptedSource::new(bytes.clone());
    // A few hundred pieces of a file are enough.
    source.hints.piece = source.hints.piece.max(bytes.len() as u64 / 512);
    let source = Arc::new(source);
    let hints = source.hints;
    let blocking: Arc<dyn holdall::ByteSource> = Arc::new(Threads(bytes, hints));
    let waited = describe(aio::open_source(source, "made", &options).await);
    let (file, whole) = match (waited, describe(options.open_source(blocking, "made"))) {
        (Ok(file), Ok(whole)) => (file, whole),
        (waited, whole) => {
            assert_eq!(waited.err(), whole.err(), "{place}");
            return 0;
        }
    };
    let mut count = 0;
    for (tensor, whole) in file.tensors().zip(whole.tensors()) {
        for c in whole.components() {
            let of = format!("{place}: {} {}", whole.name(), c.role);
            let role = &c.role;
            let (waited, all) = (describe(tensor.bytes(role).await), describe(whole.bytes(role)));
            assert!(waited == all, "{of}: {:?}", (waited.err(), all.err()));
            let len = all.as_ref().map_or(0, |bytes| bytes.len() as u64);
            for range in [len / 3..len / 2, 0..len.min(5), len..len, len / 2..len] {
                let waited = describe(tensor.bytes_range(role, range.clone()).await);
                let found = describe(whole.bytes_range(role, range.clone()));
                // This side decodes whole frames, the other only as far as needed: errors further on are
                // found only here.
                if found.is_err() || waited.is_ok() || all.is_ok() {
                    assert!(waited == found, "{of}: {range:?}, {:?}", (waited.err(), found.err()));
                }
            }
            let beyond = 1..len + 2;
            let waited = describe(tensor.bytes_range(role, beyond.clone()).await).map(|b| b.len());
            let found = describe(whole.bytes_range(role, beyond)).map(|b| b.len());
            assert!(waited.is_ok() == found.is_ok() || all.is_err(), "{of}");
            count += 1;
        }
    }
    let all = file.load_all(&LoadOptions::new()).await;
    match (all, whole.load_all()) {
        (Ok(all), Ok(whole)) => {
            for (one, other) in all.iter().zip(whole.iter()) {
                for c in one.info().components() {
                    let (one, other) = (one.bytes(&c.role).unwrap(), other.bytes(&c.role).unwrap());
                    let at = one.iter().zip(other).position(|(a, b)| a != b);
                    assert!(
                        at.is_none() && one.len() == other.len(),
                        "{place}: {c:?} {at:?} {} {}",
                        one.len(),
                        other.len()
                    );
                }
            }
        }
        // Which of several errors comes first is not determined.
        (all, whole) => {
            let errors = (describe(all).err(), describe(whole).err());
            assert_eq!(errors.0.is_some(), errors.1.is_some(), "{place}: {errors:?}");
        }
    }
    count
}

#[test]
fn every_file_of_the_corpus_is_the_same_and_fails_the_same() {
    wait(async {
        let mut count = 0;
        for path in files("accept").into_iter().chain(files("reject")) {
            let bytes = Bytes::from(std::fs::read(&path).unwrap());
            count += same(bytes, Check::All, &path.display().to_string()).await;
        }
        assert!(count > 1000, "{count}");
    });
}

/// Returns a model with large and small tensors, raw and compressed, with and without frames, tied.
fn model() -> Vec<u8> {
    let mut all = Vec::new();
    for (at, len) in [0usize, 8, 5000, 70_000, 600_000, 6 << 20].into_iter().enumerate() {
        let data = || make::part(Role::Data, DType::U8, make::noise(len, at as u64));
        all.push(make::dense(&format!("raw{at}"), &[len as u64], data().sha256()));
        all.push(make::dense(&format!("zstd{at}"), &[len as u64], data().zstd()));
        all.push(make::dense(&format!("one{at}"), &[len as u64], data().one_frame().sha256()));
    }
    make::bytes_of("ztensor@1.2.0", &Attributes::new(), &all)
}

/// Split into two tests, so that they run in parallel.
fn changed_bytes_are_the_same(check: Check, changes: usize) {
    let bytes = model();
    wait(async {
        assert_eq!(same(bytes.clone().into(), check, "sound").await, 18);
        for at in (0..bytes.len()).step_by(bytes.len() / changes) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x41;
            same(bytes.into(), check, &format!("byte {at}, {check:?}")).await;
        }
    });
}

#[test]
fn a_model_is_the_same_whole_and_with_any_byte_changed() {
    changed_bytes_are_the_same(Check::Read, 17);
}

#[test]
fn a_model_is_the_same_with_any_byte_changed_where_digests_are_not_checked() {
    changed_bytes_are_the_same(Check::Off, 11);
}

#[test]
fn reads_are_bounded_and_a_range_reads_no_more_than_it_must() {
    let bytes = model();
    wait(async {
        let source = Arc::new(ScriptedSource::new(bytes));
        let file = aio::open_source(source.clone(), "made", &OpenOptions::new()).await.unwrap();
        source.most.store(0, Ordering::SeqCst);
        file.load_all(&LoadOptions::new()).await.unwrap();
        // Each run of tensors gets as many permits as the source's hint says; all lanes share that number.
        let most = source.most.load(Ordering::SeqCst);
        assert!((2..=8).contains(&most), "{most}");
        let before = source.begun.load(Ordering::SeqCst);
        let range = 100_000..100_100;
        let few = file.tensor("raw5").unwrap().bytes_range(&Role::Data, range).await.unwrap();
        assert_eq!(few, make::noise(6 << 20, 5)[100_000..100_100]);
        assert_eq!(source.begun.load(Ordering::SeqCst) - before, 1);
        // Without frames to be found, the end is not read.
        let before = source.begun.load(Ordering::SeqCst);
        file.tensor("one5").unwrap().bytes_range(&Role::Data, 10..20).await.unwrap();
        let all = (6 << 20) / 4096;
        let begun = source.begun.load(Ordering::SeqCst) - before;
        assert!(begun < all * 3 / 4, "{begun} of {all}");
    });
}

#[test]
fn scattered_small_tensors_are_one_read() {
    let tensor = |i: usize| {
        let len = if i.is_multiple_of(2) { 1000 } else { 100 };
        let data = make::part(Role::Data, DType::U8, make::noise(len, i as u64 + 1));
        make::dense(&format!("{i}"), &[len as u64], data)
    };
    let tensors: Vec<_> = (0..40).map(tensor).collect();
    let bytes = make::bytes_of("ztensor", &Attributes::new(), &tensors);
    let names: Vec<String> = (1..40).step_by(2).map(|i| i.to_string()).collect();
    wait(async {
        let source = Arc::new(ScriptedSource::new(bytes));
        let file = aio::open_source(source.clone(), "made", &OpenOptions::new()).await.unwrap();
        let before = source.begun.load(Ordering::SeqCst);
        let names = names.iter().map(String::as_str);
        let loaded = file.load(names, &LoadOptions::new()).await.unwrap();
        assert_eq!(source.begun.load(Ordering::SeqCst) - before, 1);
        for i in (1..40).step_by(2) {
            let got = loaded.get(&i.to_string()).unwrap();
            assert_eq!(got.bytes(&Role::Data).unwrap(), &make::noise(100, i + 1));
        }
    });
}

#[test]
fn dropped_operations_stop() {
    let bytes = model();
    wait(async {
        let mut source = ScriptedSource::new(bytes);
        source.stops = 40;
        let source = Arc::new(source);
        let file = aio::open_source(source.clone(), "made", &OpenOptions::new()).await.unwrap();
        let mut load = Box::pin(async { file.load_all(&LoadOptions::new()).await.map(drop) });
        // Waits until no more reads complete.
        let mut turns = 0;
        while source.begun.load(Ordering::SeqCst) < source.stops + 1 {
            let now = std::future::poll_fn(|cx| Poll::Ready(load.as_mut().poll(cx))).await;
            assert!(now.is_pending());
            tokio::task::yield_now().await;
            turns += 1;
        }
        assert!(turns > 0 && source.under_way.load(Ordering::SeqCst) > 0);
        drop(load);
        while source.under_way.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        let begun = source.begun.load(Ordering::SeqCst);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(source.begun.load(Ordering::SeqCst), begun);

        // The same for work on threads: the thread is cancelled, too.
        let (sender, receiver) = mpsc::channel();
        let mut run = Box::pin(file.run(move |file, work| {
            let options = VerifyOptions::new().with_work(work);
            let found = holdall::verify(file, &options).map(drop);
            sender.send(found.map_err(|e| e.code())).unwrap();
            Ok(())
        }));
        while source.under_way.load(Ordering::SeqCst) == 0 {
            let now = std::future::poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await;
            assert!(now.is_pending());
            tokio::task::yield_now().await;
        }
        drop(run);
        assert_eq!(receiver.recv().unwrap(), Err("work/cancelled"));
        while source.under_way.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn files_verify_and_records_are_read() {
    wait(async {
        for path in files("accept") {
            let Ok(whole) = holdall::open(&path) else { continue };
            let file = aio::open(&path).await.unwrap();
            let waited = aio::verify(&file, &VerifyOptions::new()).await.unwrap();
            let found = holdall::verify(&whole, &VerifyOptions::new()).unwrap();
            assert_eq!(format!("{waited:?}"), format!("{found:?}"), "{}", path.display());
        }
        let path = corpus_files::root().join("accept/metatensor");
        let records = path.read_dir().unwrap().map(|f| f.unwrap().path()).find_map(|path| {
            let file = holdall::open(&path).ok()?;
            let all = file.tensors().find_map(|t| t.records().ok().map(|r| (t, r)))?;
            (!all.1.is_empty()).then(|| (path, all.0.name().to_owned(), all.1.len()))
        });
        let (path, name, len) = records.expect("the corpus has records");
        let bytes = Bytes::from(std::fs::read(path).unwrap());
        let source = Arc::new(ScriptedSource::new(bytes));
        let file = aio::open_source(source, "made", &OpenOptions::new()).await.unwrap();
        let of = file.run(move |file, _| Ok(file.tensor(&name)?.records()?.len()));
        assert_eq!(of.await.unwrap(), len);
    });
}

/// A source that records which ranges were read.
struct Noted(ScriptedSource, Mutex<Vec<Range<u64>>>);

impl Noted {
    fn new(bytes: impl Into<Bytes>) -> Arc<Noted> {
        Arc::new(Noted(ScriptedSource::new(bytes), Mutex::default()))
    }

    /// Returns how often each byte was read since the last call.
    fn reads_of(&self, at: &[u64]) -> Vec<usize> {
        let all = std::mem::take(&mut *self.1.lock().unwrap());
        at.iter().map(|at| all.iter().filter(|range| range.contains(at)).count()).collect()
    }
}

impl ByteSource for Noted {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a> {
        self.1.lock().unwrap().extend_from_slice(ranges);
        self.0.read(ranges)
    }

    fn read_hints(&self) -> ReadHints {
        self.0.read_hints()
    }
}

/// A chunk is a column of 8 of 32 numbers, so each row has bytes of all four chunks: they are read and
/// decoded once all the same.
#[test]
fn a_chunk_is_decoded_once() {
    use crate::hdf5_files::{EXTRA, chunked, dataset, filters, leaf, shape};
    const CHUNK: u64 = 256 * 8 * 4;
    let at: Vec<u64> = (0..4).map(|column| 4096 + column * CHUNK).collect();
    let places: Vec<[u64; 2]> = (0..4).map(|column| [0, 8 * column]).collect();
    let chunks: Vec<(u32, &[u64], u64)> =
        places.iter().zip(&at).map(|(place, at)| (CHUNK as u32, &place[..], *at)).collect();
    // The shuffle filter separates the bytes of numbers, so that no part of a chunk can be used unchanged.
    let shuffle = filters(&[2]);
    let messages = [shape(&[256, 32]), chunked(&[256, 8, 4], EXTRA), shuffle];
    let mut bytes = dataset(&messages, &leaf(&chunks));
    bytes.resize(4096, 0);
    bytes.extend(make::noise(4 * CHUNK as usize, 7));
    let len = bytes.len() as u64;
    // The end of the file, as stated in its first block.
    bytes[40..48].copy_from_slice(&len.to_le_bytes());
    let whole: holdall::File = OpenOptions::new().open_bytes(bytes.clone(), "made").unwrap();
    let wanted = whole.tensor("w").unwrap().bytes(&Role::Data).unwrap();
    wait(async {
        let source = Noted::new(bytes);
        let options = OpenOptions::new();
        let open = || aio::open_source(source.clone(), "made", &options);
        let file = open().await.unwrap();
        source.reads_of(&at);
        let all = file.load_all(&LoadOptions::new()).await.unwrap();
        assert_eq!(all.get("w").unwrap().bytes(&Role::Data).unwrap(), &wanted);
        assert_eq!(source.reads_of(&at), [1; 4]);
        let tensor = file.tensor("w").unwrap();
        assert_eq!(tensor.bytes(&Role::Data).await.unwrap(), wanted);
        assert_eq!(source.reads_of(&at), [1; 4]);
        // Rows far apart, in one call; then others, for which the decoded chunks are kept.
        let rows = [0..128, 9000..9200, 32_000..32_768];
        for reads in [1, 0] {
            let found = tensor.bytes_ranges(&Role::Data, &rows).await.unwrap();
            for (range, found) in rows.iter().zip(found) {
                assert_eq!(found, wanted.slice(range.start as usize..range.end as usize));
            }
            assert_eq!(source.reads_of(&at), [reads; 4]);
        }
        // A file that is opened again has no such cache.
        let tensor = open().await.unwrap().tensor("w").unwrap();
        source.reads_of(&at);
        tensor.bytes_range(&Role::Data, 0..4).await.unwrap();
        assert_eq!(source.reads_of(&at), [1, 0, 0, 0]);
    });
}

#[test]
fn tied_tensors_are_decoded_once() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, tied) = (folder.path().join("plain.zt"), folder.path().join("tied.zt"));
    let data = || make::part(Role::Data, DType::U8, make::noise(90_000, 3)).zstd();
    let all = ["a", "b", "c"].map(|name| make::dense(name, &[90_000], data()));
    std::fs::write(&plain, make::bytes_of("ztensor@1.2.0", &Attributes::new(), &all)).unwrap();
    let options = Convert::new(WriteOptions::new()).with_sharing(Sharing::Dedupe);
    let report = holdall::convert(&holdall::open(&plain).unwrap(), &tied, &options).unwrap();
    assert_eq!(report.shared, 2);
    wait(async {
        let bytes = std::fs::read(&tied).unwrap();
        let source = Arc::new(ScriptedSource::new(bytes));
        let file = aio::open_source(source, "made", &OpenOptions::new()).await.unwrap();
        let all = file.load_all(&LoadOptions::new()).await.unwrap();
        let of = |name| all.get(name).unwrap().bytes(&Role::Data).unwrap();
        assert_eq!(of("a"), &make::noise(90_000, 3));
        for name in ["b", "c"] {
            assert_eq!((of(name).as_ptr(), of(name).len()), (of("a").as_ptr(), 90_000));
        }
    });
}

#[test]
fn a_panic_in_a_source_is_an_error_with_its_message() {
    struct Broken(Bytes, AtomicUsize);
    impl ByteSource for Broken {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn read<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a> {
            Box::pin(async move {
                assert!(self.1.fetch_sub(1, Ordering::SeqCst) > 1, "the disk is on fire");
                let part = |r: &Range<u64>| self.0.slice(r.start as usize..r.end as usize);
                Ok(ranges.iter().map(part).collect())
            })
        }
    }
    let panic_message = |e: tokio::task::JoinError| {
        let payload = e.into_panic();
        payload.downcast::<&str>().map(|payload| payload.to_string()).unwrap_or_default()
    };
    wait(async {
        let source = Arc::new(Broken(model().into(), AtomicUsize::new(0)));
        let open = |reads: usize| {
            source.1.store(reads + 1, Ordering::SeqCst);
            let source = source.clone();
            async move { aio::open_source(source, "made", &OpenOptions::new()).await.unwrap() }
        };
        // While opening, in a load, and in a read on a thread.
        let e = tokio::spawn(open(0)).await.map(drop).unwrap_err();
        assert_eq!(panic_message(e), "the disk is on fire");
        let file = open(1000).await;
        source.1.store(1, Ordering::SeqCst);
        let of = file.clone();
        let load = async move { of.load_all(&LoadOptions::new()).await.map(drop) };
        assert_eq!(panic_message(tokio::spawn(load).await.unwrap_err()), "the disk is on fire");
        source.1.store(1, Ordering::SeqCst);
        let run = async move {
            file.run(|file, _| file.tensor("raw1")?.bytes(&Role::Data).map(drop)).await
        };
        assert_eq!(panic_message(tokio::spawn(run).await.unwrap_err()), "the disk is on fire");
    });
}

/// The snippets of `docs/rust.md`.
async fn guide(path: PathBuf, written: PathBuf) -> Result<()> {
    let file = holdall::aio::open(path).await?;
    let embedding = file.tensor("embed.weight")?.bytes(&Role::Data).await?;
    let rows = file.tensor("embed.weight")?.bytes_ranges(&Role::Data, &[0..64, 640..704]).await?;
    let all = file.load(["embed.weight", "router.weight"], &LoadOptions::new()).await?;
    let report = holdall::aio::verify(&file, &VerifyOptions::new()).await?;
    assert_eq!([&embedding[..64], &embedding[640..704]], [&rows[0][..], &rows[1][..]]);
    assert_eq!(all.get("embed.weight").unwrap().bytes(&Role::Data)?, &embedding);
    assert!(report.is_sound());

    let convert = file.run(move |file, work| {
        let options = WriteOptions::new().with_work(work);
        holdall::convert(file, written, &Convert::new(options))
    });
    assert_eq!(convert.await?.tensors, file.tensors().len() as u64);
    Ok(())
}

#[test]
fn the_guide_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let path = corpus_files::root().join("../examples/tiny.zt");
    wait(guide(path, folder.path().join("written.zt"))).unwrap();
}

/// A source that returns other bytes than requested.
struct Wrong(Bytes, fn(Vec<Bytes>) -> Vec<Bytes>, AtomicUsize);

impl ByteSource for Wrong {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a> {
        let part = |r: &Range<u64>| self.0.slice(r.start as usize..r.end as usize);
        let all = ranges.iter().map(part).collect();
        let is_first = self.2.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(async move { Ok(if is_first { all } else { (self.1)(all) }) })
    }
}

#[test]
fn sources_that_give_too_little_or_too_much_are_found_out() {
    let shorter = |mut all: Vec<Bytes>| {
        let len = all[0].len() - 1;
        all[0].truncate(len);
        all
    };
    let fewer = |mut all: Vec<Bytes>| {
        all.pop();
        all
    };
    let more = |mut all: Vec<Bytes>| {
        all.push(Bytes::from_static(b"x"));
        all
    };
    let wrong: [fn(Vec<Bytes>) -> Vec<Bytes>; 3] = [shorter, fewer, more];
    wait(async {
        for wrong in wrong {
            let source = Arc::new(Wrong(model().into(), wrong, AtomicUsize::new(0)));
            let file = aio::open_source(source, "made", &OpenOptions::new()).await.unwrap();
            let is_found = |e: Error| {
                assert_eq!((e.code(), e.kind()), ("file/source-len", ErrorKind::Misuse), "{e}");
                assert_eq!(e.source_name(), Some("made"));
            };
            is_found(file.load_all(&LoadOptions::new()).await.map(drop).unwrap_err());
            let tensor = file.tensor("raw5").unwrap();
            is_found(tensor.bytes_range(&Role::Data, 5..9).await.unwrap_err());
            is_found(file.run(|file, _| file.load_all().map(drop)).await.unwrap_err());
        }
    });
}

/// Many at once on one runtime: blocking reads of web sources run on its blocking threads.
#[cfg(feature = "http")]
#[test]
fn files_at_addresses_are_waited_for() {
    let bytes = model();
    let server = server::Server::with_file(bytes.clone());
    let options = OpenOptions::new().with_policy(server::policy());
    wait(async {
        let file = aio::open_with(server.url("/model.zt"), &options).await.unwrap();
        let whole: holdall::File = options.open_bytes(bytes, "made").unwrap();
        let names: Vec<String> = whole.names().map(str::to_owned).collect();
        let mut all = tokio::task::JoinSet::new();
        for name in names {
            let tensor = file.tensor(&name).unwrap();
            all.spawn(async move { (name, tensor.bytes(&Role::Data).await.unwrap()) });
        }
        while let Some(done) = all.join_next().await {
            let (name, bytes) = done.unwrap();
            assert!(bytes == whole.tensor(&name).unwrap().bytes(&Role::Data).unwrap(), "{name}");
        }
        let missing = aio::open_with(server.url("/none"), &options).await.map(drop);
        assert_eq!(describe(missing), describe(options.open(server.url("/none")).map(drop)));
    });
}
