//! Counts the requests of an operation over HTTP, how many run at once, and their bytes.
#![cfg(all(feature = "http", feature = "carton", feature = "ztensor"))]

use crate::make::{self, dense, noise, part};
use crate::records_files;
#[cfg(feature = "quic")]
use crate::served;
use crate::server::{Reply, Server, policy};
use holdall::carton::{FileSelection, Packer, SymlinkPolicy};
use holdall::{
    Convert, DType, File, Layout, LoadOptions, OpenOptions, Role, TensorRecords as _, WriteOptions,
    convert, stats, verify,
};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const MIB: usize = 1 << 20;

/// How long a request waits for others that should run at the same time: less than its client waits for the
/// answer. A first request that is alone waits in vain.
const PATIENCE: Duration = Duration::from_secs(2);

/// A server of one file that counts requests.
struct Counted {
    server: Server,
    waiting: Arc<Waiting>,
    len: usize,
}

/// The requests that are running.
#[derive(Default)]
struct Waiting {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    now: usize,
    /// The maximum at once.
    most: usize,
    /// Answers wait until this many were running at once.
    due: usize,
}

impl Waiting {
    /// Registers a request, and waits until enough others are running.
    fn meet(&self) {
        let mut counts = self.counts.lock().unwrap();
        counts.now += 1;
        counts.most = counts.most.max(counts.now);
        self.changed.notify_all();
        let _met = self
            .changed
            .wait_timeout_while(counts, PATIENCE, |counts| counts.most < counts.due)
            .unwrap();
    }

    fn leave(&self) {
        self.counts.lock().unwrap().now -= 1;
    }
}

impl Counted {
    fn new(bytes: Vec<u8>) -> Counted {
        let (waiting, len) = (Arc::<Waiting>::default(), bytes.len());
        let met = waiting.clone();
        let server = Server::new(move |request| {
            met.meet();
            let reply = Reply::file(&bytes, "\"v1\"", request);
            met.leave();
            reply
        });
        Counted { server, waiting, len }
    }

    fn open(&self) -> File {
        self.open_as("f.zt")
    }

    fn open_as(&self, name: &str) -> File {
        let url = self.server.url(&format!("/{name}"));
        OpenOptions::new().with_policy(policy()).open(url).unwrap()
    }

    /// Returns the requests and bytes of `run`.
    fn count<T>(&self, run: impl FnOnce() -> T) -> (T, usize, usize) {
        self.count_meeting(0, run)
    }

    /// The same, with answers that wait until `at_once` requests are running.
    fn count_meeting<T>(&self, at_once: usize, run: impl FnOnce() -> T) -> (T, usize, usize) {
        self.server.forget();
        *self.waiting.counts.lock().unwrap() = Counts { due: at_once, ..Counts::default() };
        let out = run();
        let (requests, bytes) = self.server.count();
        let most = self.waiting.counts.lock().unwrap().most;
        assert!(most >= at_once, "{requests} requests, {most} at once");
        (out, requests, bytes)
    }
}

/// Returns a file of many tensors, in a format.
fn many(format: &str) -> Vec<u8> {
    let tensors: Vec<_> = (0..2000)
        .map(|i| {
            let data = part(Role::Data, DType::U8, noise(200, i + 1));
            dense(&format!("layers.{i}.weight"), &[200], data)
        })
        .collect();
    make::bytes_of(format, &Default::default(), &tensors)
}

fn one_tensor(zstd: bool) -> Vec<u8> {
    let data = part(Role::Data, DType::U8, noise(32 * MIB, 9));
    let data = if zstd { data.zstd() } else { data };
    make::bytes_of("ztensor", &Default::default(), &[dense("w", &[32 << 20], data)])
}

#[test]
fn opening_takes_two_requests() {
    for (format, name) in
        [("ztensor", "f.zt"), ("metatensor", "f.mt"), ("safetensors", "f.safetensors")]
    {
        let served = Counted::new(many(format));
        let (file, requests, _) = served.count(|| served.open_as(name));
        assert_eq!(file.len(), 2000);
        assert!(requests <= 2, "{format}: {requests}");
    }
}

#[test]
fn loading_a_tensor_is_a_few_large_requests_at_once() {
    let bytes = noise(32 * MIB, 9);
    for zstd in [false, true] {
        let served = Counted::new(one_tensor(zstd));
        let file = served.open();
        let tensor = file.tensor("w").unwrap();
        let stored = tensor.stored_len() as usize;
        // Frames also need their table, and noise does not compress.
        let most = if zstd { 6 } else { 4 };
        let (got, requests, read) = served.count_meeting(2, || tensor.bytes(&Role::Data).unwrap());
        assert!(got == bytes);
        assert!(requests <= most, "{requests} requests");
        assert!(read <= stored, "{read} of {stored}");

        let (got, requests, read) = served.count_meeting(2, || {
            let pieces = tensor.pieces(&Role::Data).unwrap();
            pieces.map(|piece| piece.unwrap().to_vec()).collect::<Vec<_>>().concat()
        });
        assert!(got == bytes);
        assert!(requests <= most, "{requests} requests");
        assert!(read <= stored, "{read} of {stored}");
    }
}

#[test]
fn converting_fetches_each_byte_once() {
    let dir = tempfile::tempdir().unwrap();
    for zstd in [false, true] {
        let served = Counted::new(one_tensor(zstd));
        let file = served.open();
        let target = dir.path().join(format!("{zstd}.zt"));
        let options = Convert::new(WriteOptions::new());
        let (_, requests, read) =
            served.count_meeting(2, || convert(&file, &target, &options).unwrap());
        assert!(requests <= 8, "{requests} requests");
        assert!(read <= served.len, "{read} of {}", served.len);
        assert!(holdall::open(&target).unwrap().tensor("w").unwrap().bytes(&Role::Data).is_ok());
    }
}

#[test]
fn verifying_fetches_each_byte_once() {
    for zstd in [false, true] {
        let served = Counted::new(one_tensor(zstd));
        let file = served.open();
        let (report, requests, read) =
            served.count_meeting(2, || verify(&file, &Default::default()).unwrap());
        assert!(report.is_sound());
        assert!(requests <= 8, "{requests} requests");
        assert!(read <= served.len, "{read} of {}", served.len);
    }
}

#[test]
fn statistics_fetch_each_byte_once() {
    let served = Counted::new(one_tensor(false));
    let file = served.open();
    let tensor = file.tensor("w").unwrap();
    let (found, requests, read) = served.count(|| stats(&tensor, &Default::default()).unwrap());
    assert_eq!(found.count, 32 << 20);
    assert!(requests <= 5, "{requests} requests");
    assert!(read <= served.len, "{read} of {}", served.len);
}

#[test]
fn one_record_of_many_is_found_in_few_requests() {
    // 5 MB, plus texts.
    let written = records_files::write(&records_files::dataset(30_000), &WriteOptions::new());
    let bytes = std::fs::read(written.path()).unwrap();
    assert!(bytes.len() > 5_000_000, "{}", bytes.len());
    let served = Counted::new(bytes);
    let (file, opened, _) = served.count(|| served.open());
    let (found, requests, read) = served.count(|| {
        let records = file.tensor("set").unwrap().records().unwrap();
        let query = records.query().with_condition("id=27777").unwrap();
        query.run().unwrap().map(|r| r.unwrap().to_value().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(found, [records_files::value(27_777)]);
    assert!(opened + requests <= 4, "{opened} to open, {requests} to search");
    assert!(read <= served.len, "{read} of {}", served.len);
}

#[test]
fn heap_data_of_records_is_read_ahead() {
    let written = records_files::write(&records_files::dataset(3_000), &WriteOptions::new());
    let served = Counted::new(std::fs::read(written.path()).unwrap());
    let file = served.open();
    let records = file.tensor("set").unwrap().records().unwrap();
    let (values, requests, read) = served.count(|| {
        let all = records.iter(0..3_000).unwrap();
        all.map(|record| record.unwrap().to_value().unwrap()).collect::<Vec<_>>()
    });
    assert!(values.iter().enumerate().all(|(at, value)| *value == records_files::value(at as u64)));
    assert!(requests <= 10, "{requests}");
    assert!(read <= served.len + served.len / 4, "{read} of {}", served.len);
    // Records far from each other are read separately.
    let file = served.open();
    let records = file.tensor("set").unwrap().records().unwrap();
    let (_, requests, read) = served.count(|| {
        for index in [2_500, 100, 1_700, 900] {
            assert_eq!(
                records.record(index).unwrap().to_value().unwrap(),
                records_files::value(index)
            );
        }
    });
    assert!(requests <= 40, "{requests}");
    assert!(read <= served.len / 4, "{read} of {}", served.len);
}

#[test]
fn rows_are_one_request() {
    let served = Counted::new(one_tensor(false));
    let file = served.open();
    let tensor = file.tensor("w").unwrap();
    let (_, requests, read) = served.count(|| tensor.rows(10 << 20..(10 << 20) + 4096).unwrap());
    assert_eq!(requests, 1);
    assert!(read <= 64 << 10, "{read}");
    // Frames also need their table.
    let served = Counted::new(one_tensor(true));
    let file = served.open();
    let tensor = file.tensor("w").unwrap();
    let (_, requests, read) = served.count(|| tensor.rows(10 << 20..(10 << 20) + 4096).unwrap());
    assert!(requests <= 2, "{requests}");
    assert!(read <= 2 * MIB, "{read}");
}

#[test]
fn many_small_tensors_come_together() {
    let served = Counted::new(many("ztensor"));
    let file = served.open();
    assert!(file.tensors().all(|t| *t.layout() == Layout::Dense));
    let (loaded, requests, read) = served.count(|| file.load_all().unwrap());
    assert_eq!(loaded.len(), 2000);
    assert!(requests <= 4, "{requests}");
    assert!(read <= served.len, "{read} of {}", served.len);
}

/// Returns a file of 40 small tensors, each after one so large that it is not fetched along, and their names.
fn scattered(zstd: bool) -> (Vec<u8>, Vec<String>) {
    let tensor = |i: usize| {
        let (name, len) = match i % 2 {
            0 => (format!("{i}.large"), 300 << 10),
            _ => (format!("{i}.small"), 1000),
        };
        let data = part(Role::Data, DType::U8, noise(len, i as u64 + 1));
        dense(&name, &[len as u64], if zstd { data.zstd() } else { data })
    };
    let bytes =
        make::bytes_of("ztensor", &Default::default(), &(0..80).map(tensor).collect::<Vec<_>>());
    (bytes, (1..80).step_by(2).map(|i| format!("{i}.small")).collect())
}

#[test]
fn scattered_small_tensors_are_asked_for_at_once() {
    for zstd in [false, true] {
        let (bytes, names) = scattered(zstd);
        let served = Counted::new(bytes);
        let file = served.open();
        let load = || file.load(names.iter().map(String::as_str), &LoadOptions::new()).unwrap();
        let (loaded, requests, read) = served.count_meeting(16, load);
        for (i, name) in (1u64..).step_by(2).zip(&names) {
            assert!(
                loaded.get(name).unwrap().bytes(&Role::Data).unwrap() == &noise(1000, i + 1),
                "{name}"
            );
        }
        assert!(requests <= 40, "{requests} requests");
        assert!(read <= 40 * (64 << 10), "{read}");
    }
}

#[cfg(feature = "quic")]
#[test]
fn scattered_small_tensors_are_one_request_over_quic() {
    let dir = tempfile::tempdir().unwrap();
    for zstd in [false, true] {
        let (bytes, names) = scattered(zstd);
        let path = dir.path().join("set.zt");
        std::fs::write(&path, bytes).unwrap();
        let served = served::Served::new([&path]);
        let file = served.open("set.zt").unwrap();
        served.settle(1);
        let before = served.seen.lock().unwrap().len();
        let loaded = file.load(names.iter().map(String::as_str), &LoadOptions::new()).unwrap();
        for (i, name) in (1u64..).step_by(2).zip(&names) {
            assert!(
                loaded.get(name).unwrap().bytes(&Role::Data).unwrap() == &noise(1000, i + 1),
                "{name}"
            );
        }
        served.settle(before + 1);
        assert_eq!(served.seen.lock().unwrap().len() - before, 1);
    }
}

/// Returns a package of a model with 20 tensors for its tests, and many files.
fn package(dir: &Path, files: usize) -> Vec<u8> {
    let folder = dir.join("folder");
    std::fs::create_dir_all(folder.join("model")).unwrap();
    std::fs::create_dir_all(folder.join("tensor_data")).unwrap();
    for i in 0..files {
        std::fs::write(folder.join(format!("model/{i:05}.txt")), format!("file {i}\n")).unwrap();
    }
    let mut index = String::new();
    for i in 0..20 {
        let name = format!("t{i}.bin");
        std::fs::write(folder.join("tensor_data").join(&name), noise(200_000, i + 1)).unwrap();
        index += &format!(
            "[[tensor]]\nname = \"t{i}\"\ndtype = \"uint8\"\nshape = [200000]\nfile = \"{name}\"\n"
        );
    }
    std::fs::write(folder.join("tensor_data/index.toml"), index).unwrap();
    let text = "spec_version = 1\n[runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"=1\"\n\
                runner_compat_version = 1\n";
    std::fs::write(folder.join("carton.toml"), text).unwrap();
    let target = dir.join("p.carton");
    Packer::from_folder(&folder, SymlinkPolicy::Inside, FileSelection::Usual)
        .unwrap()
        .write(&target, false)
        .unwrap();
    std::fs::read(target).unwrap()
}

#[test]
fn a_package_opens_and_gives_a_tensor_in_few_requests() {
    let dir = tempfile::tempdir().unwrap();
    let served = Counted::new(package(dir.path(), 2000));
    let (file, opened, _) = served.count(|| served.open_as("p.carton"));
    let (bytes, read, _) = served.count(|| file.tensor("t7").unwrap().bytes(&Role::Data).unwrap());
    assert!(bytes == noise(200_000, 8));
    assert!(opened <= 3 && opened + read <= 4, "{opened} to open, {read} to read");
}

/// Returns the indices of a batch out of `count` records, in no order.
fn batch(count: u64) -> Vec<u64> {
    (0..256).map(|at| (at * 7_919 + 13) * 104_729 % count).collect()
}

/// Reads a training batch: the records, and the heap entries of one member.
fn read_batch(file: &File, places: &[u64]) -> Vec<String> {
    let records = file.tensor("set").unwrap().records().unwrap();
    let text = records.accessor("text").unwrap();
    let all = records.at(places.to_vec()).with_parts([text.clone()]);
    all.map(|record| record.unwrap().string(&text).unwrap().unwrap().into_owned()).collect()
}

fn texts(places: &[u64]) -> Vec<String> {
    places.iter().map(|at| records_files::value(*at)["text"].as_str().unwrap().into()).collect()
}

#[test]
fn a_batch_of_records_by_chance_is_a_set_of_requests() {
    const COUNT: u64 = 10_000;
    let places = batch(COUNT);
    for options in [WriteOptions::new(), WriteOptions::new().with_zstd(3)] {
        let written = records_files::write(&records_files::dataset(COUNT), &options);
        let served = Counted::new(std::fs::read(written.path()).unwrap());
        let file = served.open();
        let (found, requests, read) = served.count(|| read_batch(&file, &places));
        assert_eq!(found, texts(&places));
        assert!(requests <= 8, "{requests} requests");
        assert!(read <= served.len, "{read} of {}", served.len);
    }
    // Records far from each other are separate requests, all at once.
    let pad = serde_json::json!({"type": "array", "TypeDef:Array": true, "minItems": 32768, "maxItems": 32768,
        "items": {"type": "integer", "TypeDef:Uint8": true}});
    let kind = serde_json::json!({"type": "object", "TypeDef:Struct": ["pad"], "required": ["pad"],
        "properties": {"pad": pad}});
    let bytes = noise(2_000 << 15, 5);
    let parts = vec![("data", DType::U8, bytes.clone())];
    let made = records_files::made("records", &kind.to_string(), 2_000, parts);
    let written = records_files::write(&made, &WriteOptions::new());
    let served = Counted::new(std::fs::read(written.path()).unwrap());
    let file = served.open();
    let records = file.tensor("set").unwrap().records().unwrap();
    let places: Vec<u64> = (0..64).map(|at| at * 977 % 2_000).collect();
    let (found, requests, read) = served.count_meeting(16, || {
        let all = records.at(places.clone());
        all.map(|record| record.unwrap().bytes().to_vec()).collect::<Vec<_>>()
    });
    for (at, found) in places.iter().zip(&found) {
        let start = *at as usize * 32_768;
        assert!(bytes[start..start + 32_768] == found[..], "{at}");
    }
    assert!(requests <= 64, "{requests} requests");
    assert!(read <= served.len / 8, "{read} of {}", served.len);
}

#[test]
fn runs_of_a_blob_by_chance_are_a_set_of_requests() {
    const COUNT: u64 = 10_000;
    let text = |at: u64| format!("{at}").repeat(1 + (at % 90) as usize).into_bytes();
    let all: Vec<Vec<u8>> = (0..COUNT).map(text).collect();
    let runs: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let written =
        records_files::write(&records_files::blob("utf-8", &runs, 1), &WriteOptions::new());
    let served = Counted::new(std::fs::read(written.path()).unwrap());
    let file = served.open();
    let blob = file.tensor("set").unwrap().blob().unwrap();
    let mut places = batch(COUNT);
    places.push(0);
    let (found, requests, read) =
        served.count(|| blob.at(places.clone()).map(Result::unwrap).collect::<Vec<_>>());
    assert!(places.iter().zip(&found).all(|(at, found)| *found == text(*at)));
    assert!(requests <= 8, "{requests} requests");
    assert!(read <= served.len, "{read} of {}", served.len);
    // The error about a missing one comes in its turn.
    let found: Vec<_> = blob.at(vec![1, COUNT, 2]).collect();
    assert_eq!(found[1].as_ref().unwrap_err().code(), "records/index");
    assert_eq!(found[2].as_ref().unwrap()[..], text(2));
}

#[cfg(feature = "quic")]
#[test]
fn a_batch_of_records_by_chance_is_two_requests_over_quic() {
    const COUNT: u64 = 10_000;
    let (places, dir) = (batch(COUNT), tempfile::tempdir().unwrap());
    let path = dir.path().join("set.zt");
    for (options, bytes, most) in [
        // The bytes of records, and their texts.
        (WriteOptions::new(), 256 * 600, 2),
        // Tables of frames, and frames of 1 MiB, all of which contain some of the records.
        (WriteOptions::new().with_zstd(3), u64::MAX, 4),
    ] {
        let written = records_files::write(&records_files::dataset(COUNT), &options);
        std::fs::copy(written.path(), &path).unwrap();
        let served = served::Served::new([&path]);
        let file = served.open("set.zt").unwrap();
        served.settle(1);
        let sent = served.sent();
        let before = served.seen.lock().unwrap().len();
        assert_eq!(read_batch(&file, &places), texts(&places));
        served.settle(before + 2);
        let requests = served.seen.lock().unwrap().len() - before;
        assert!(requests <= most, "{requests} requests");
        assert!(served.sent() - sent <= bytes, "{} bytes", served.sent() - sent);
    }
}
