//! Files served over QUIC, opened in place.
#![cfg(feature = "quic")]
#![allow(clippy::single_range_in_vec_init)] // One range is meant, not its numbers.

use crate::served::{self, Served, options};
use holdall::TensorRecords as _;
use holdall::serve::{Entry, FileCatalog, FileId, Files, ServerLimits, Tokens, Tree, file};
use holdall::{
    Algorithm, Bytes, Convert, DType, Error, File, LoadOptions, OpenOptions, Role, TensorSpec,
    WriteOptions, Writer,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept")
}

/// Adds every file below a folder, by its name there.
fn files(folder: &Path, name: &str, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{name}/{}", entry.file_name().to_str().unwrap());
        match entry.path().is_dir() {
            true => files(&entry.path(), &name, all),
            false => all.push(name),
        }
    }
}

/// Returns all contents of a file as text.
fn contents(file: &File) -> Vec<String> {
    let mut all = vec![format!("{} {} {:?}", file.format(), file.version(), file.attributes())];
    for tensor in file.tensors() {
        let info = tensor.info();
        all.push(format!("{} {:?} {:?}", info.name(), info.shape(), info.attributes()));
        for component in info.components() {
            let bytes = tensor.bytes(&component.role).map(|b| b.to_vec());
            all.push(format!("{:?}", bytes.map_err(|e| e.code())));
        }
    }
    all
}

#[test]
fn every_file_of_every_format_is_the_same_over_quic() {
    let mut names = Vec::new();
    files(&corpus(), "accept", &mut names);
    let served = Served::new([corpus()]);
    let (mut opened, mut unasked) = (0, 0);
    for name in names.iter().filter(|name| !name.ends_with(".json")) {
        let local = holdall::open(corpus().join(name.strip_prefix("accept/").unwrap()));
        let Ok(local) = local else { continue };
        let before = served.seen.lock().unwrap().len();
        let remote = served.open(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let asked = served.seen.lock().unwrap().len() - before;
        unasked += usize::from(asked <= 1);
        assert_eq!(contents(&remote), contents(&local), "{name}");
        opened += 1;
    }
    assert!(opened > 100, "{opened}");
    // The prefetched index was enough to open all except models in several files.
    assert!(opened - unasked < 8, "{unasked} of {opened}");
}

/// Returns bytes without repetitions.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64 ^ seed;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Writes a model of `count` tensors of `len` bytes each, with digests.
fn model(path: &Path, count: usize, len: usize) {
    let options = WriteOptions::new().with_digest(Some(Algorithm::Sha256));
    let mut writer = Writer::create(path, &options).unwrap();
    for at in 0..count {
        let bytes = noise(len, at as u64 + 1);
        let spec = TensorSpec::dense(format!("layers.{at}"), DType::U8, [len as u64]);
        writer.add(spec, &[&bytes]).unwrap();
    }
    writer.finish().unwrap();
}

fn bytes_of(file: &File, at: usize) -> Result<Bytes, Error> {
    file.tensor(&format!("layers.{at}")).unwrap().bytes(&Role::Data)
}

#[test]
fn a_file_is_opened_and_a_tensor_read_in_a_round_trip_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    model(&path, 8, 300_000);
    let served = Served::new([&path]);
    let file = served.open("model.zt").unwrap();
    assert_eq!(file.len(), 8);
    let index = served.sent();
    assert!(index < 140_000, "the ends of the file, not all of it: {index}");
    assert_eq!(bytes_of(&file, 3).unwrap(), noise(300_000, 4));
    served.settle(2);
    assert_eq!(served.sent() - index, 300_000, "one request, of the tensor's bytes alone");
    assert_eq!(file.load_all().unwrap().len(), 8);
}

#[test]
fn a_server_that_ends_and_comes_back_is_asked_for_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    model(&path, 4, 1_000_000);
    let mut served = Served::new([&path]);
    let file = served.open("model.zt").unwrap();
    assert_eq!(bytes_of(&file, 0).unwrap(), noise(1_000_000, 1));
    served.restart();
    assert_eq!(bytes_of(&file, 1).unwrap(), noise(1_000_000, 2));
    // While it is being read.
    let reader = std::thread::spawn(move || {
        let all = (0..24)
            .map(|n| bytes_of(&file, n % 4).map(|b| b == noise(1_000_000, n as u64 % 4 + 1)));
        all.collect::<Result<Vec<bool>, Error>>()
    });
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(60));
        served.restart();
    }
    let same = reader.join().unwrap().unwrap();
    assert!(same.len() == 24 && same.iter().all(|same| *same));
}

/// Writes a folder with a model of that many files; returns the name of its index on the server of that
/// folder.
fn shards(folder: &Path, count: usize) -> (PathBuf, String) {
    let (whole, parts) = (folder.join("whole.zt"), folder.join("parts"));
    model(&whole, count, 1 << 20);
    let split = Convert::new(WriteOptions::new()).with_max_shard_tensors(1);
    holdall::convert(&holdall::open(&whole).unwrap(), &parts, &split).unwrap();
    let names = std::fs::read_dir(&parts).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names = names.filter_map(|name| name.into_string().ok());
    let index = names.find(|name| name.ends_with(".index.json")).unwrap();
    (parts, format!("parts/{index}"))
}

#[test]
fn all_files_of_a_server_share_one_connection() {
    const SHARDS: usize = 12;
    let folder = tempfile::tempdir().unwrap();
    let (parts, index) = shards(folder.path(), SHARDS);
    let mut served = Served::new([&parts]);
    let local = holdall::open(&parts).unwrap();
    let file = served.open(&index).unwrap();
    assert!(contents(&file) == contents(&local));
    let opened =
        served.seen.lock().unwrap().iter().filter(|(name, ..)| name.contains("-of-")).count();
    assert!(opened >= SHARDS, "{opened}");
    assert_eq!(served.taken(), 1);
    // The connection is lost: all files are opened again over a new one.
    assert_eq!(bytes_of(&file, 0).unwrap(), bytes_of(&local, 0).unwrap());
    served.restart();
    assert_eq!(served.taken(), 0);
    let all = file.load_all().unwrap();
    for (at, tensor) in local.tensors().enumerate() {
        let bytes = all.get(tensor.name()).unwrap().bytes(&Role::Data).unwrap();
        assert_eq!(*bytes, bytes_of(&local, at).unwrap());
    }
    assert_eq!(served.taken(), 1);
}

#[test]
fn a_server_that_allows_few_files_is_asked_over_more_connections() {
    let folder = tempfile::tempdir().unwrap();
    let (parts, index) = shards(folder.path(), 7);
    let mut limits = ServerLimits::default();
    limits.files = 3;
    let catalog = Arc::new(Files::new([&parts]).unwrap());
    let served = Served::start(catalog, Tokens::default(), limits);
    let local = holdall::open(&parts).unwrap();
    let file = served.open(&index).unwrap();
    assert!(contents(&file) == contents(&local));
    // Seven files, three per connection.
    assert_eq!(served.taken(), 3);
    // After they are closed, as many can be opened again.
    drop(file);
    assert!(contents(&served.open(&index).unwrap()) == contents(&local));
}

#[test]
fn other_tokens_and_other_trust_have_connections_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    model(&path, 2, 1000);
    let catalog = Arc::new(Files::new([&path]).unwrap());
    let tokens = Tokens::new(vec!["one".into(), "two".into()]).unwrap();
    let served = Served::start(catalog, tokens, ServerLimits::default());
    let open = |token: &str| {
        options().open(served.url("model.zt").replace("://", &format!("://{token}@")))
    };
    let _first = open("one").unwrap();
    let _again = open("one").unwrap();
    assert_eq!(served.taken(), 1);
    let _other = open("two").unwrap();
    assert_eq!(served.taken(), 2);
    // Another client's connection does not admit a client without a token.
    assert_eq!(open("three").map(drop).unwrap_err().code(), "net/token");
    assert_eq!(served.open("model.zt").map(drop).unwrap_err().code(), "net/token");
    // Nor one that expects another certificate.
    let pin = served.identity.pin().unwrap();
    let wrong = served.url("model.zt").replace(&pin, &"ab".repeat(32));
    let wrong = wrong.replace("://", "://one@");
    assert_eq!(options().open(wrong).map(drop).unwrap_err().code(), "net/certificate");
}

#[test]
fn a_file_that_changes_is_an_error_and_never_other_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    model(&path, 4, 100_000);
    let mut served = Served::new([&path]);
    let file = served.open("model.zt").unwrap();
    // Another file of the same length in its place: a client that has the old one open can still read it.
    let other = folder.path().join("other.zt");
    model(&other, 4, 100_000);
    std::fs::rename(&other, &path).unwrap();
    assert_eq!(bytes_of(&file, 0).unwrap(), noise(100_000, 1));
    // After the connection is lost, only the new file exists.
    served.restart();
    assert_eq!(bytes_of(&file, 1).unwrap_err().code(), "net/changed");
    // The same file, overwritten.
    let file = served.open("model.zt").unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[70_000] ^= 1;
    std::thread::sleep(Duration::from_millis(20));
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(bytes_of(&file, 2).unwrap_err().code(), "net/changed");
}

#[test]
fn unknown_clients_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    model(&path, 1, 10);
    let tokens = Tokens::new(vec!["s@cret".into()]).unwrap();
    let files = Arc::new(Files::new([&path]).unwrap());
    let served = Served::start(files, tokens, ServerLimits::default());
    let with =
        |token: &str| served.url("model.zt").replace("holdall://", &format!("holdall://{token}"));
    for token in ["", "wrong@"] {
        let e = options().open(with(token)).unwrap_err();
        assert_eq!(e.code(), "net/token");
        assert!(!e.to_string().contains("wrong"), "{e}");
    }
    let file = options().open(with("s%40cret@")).unwrap();
    assert!(!file.name().contains("cret"), "{}", file.name());
    // Another certificate, or one that is not trusted.
    let pin = served.identity.pin().unwrap();
    let other = with("s%40cret@").replace(&pin, &"0".repeat(64));
    assert_eq!(options().open(other).unwrap_err().code(), "net/certificate");
    let none = with("s%40cret@").replace(&format!("#sha256={pin}"), "");
    assert_eq!(options().open(none).unwrap_err().code(), "net/certificate");
    // The address of a stranger may not lead to loopback.
    let e = OpenOptions::new().open(with("s%40cret@")).unwrap_err();
    assert_eq!(e.code(), "http/private-host");
    // No server is listening.
    let mut policy = served::policy();
    policy.timeouts.tries = 1;
    policy.timeouts.connect = Duration::from_millis(200);
    let nobody = format!("holdall://127.0.0.1:9/x#sha256={pin}");
    let e = OpenOptions::new().with_policy(policy).open(nobody).unwrap_err();
    assert_eq!(e.code(), "net/failed");
}

#[test]
fn a_name_never_leads_out() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("in");
    std::fs::create_dir_all(inside.join("deep")).unwrap();
    model(&folder.path().join("out.zt"), 1, 10);
    model(&inside.join("deep/model.zt"), 1, 10);
    model(&inside.join(".hidden.zt"), 1, 10);
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink("../out.zt", inside.join("link.zt")).unwrap();
        symlink("..", inside.join("up")).unwrap();
        symlink("deep", inside.join("same")).unwrap();
        symlink(".hidden.zt", inside.join("shown.zt")).unwrap();
    }
    let served = Served::new([&inside]);
    assert_eq!(served.open("in/deep/model.zt").unwrap().len(), 1);
    #[cfg(unix)]
    assert_eq!(served.open("in/same/model.zt").unwrap().len(), 1);
    for name in [
        "in",
        "in/",
        "in/deep",
        "in/../out.zt",
        "in/%2e%2e/out.zt",
        "in/deep/../../out.zt",
        "in/..%2fout.zt",
        "in/deep%2f..%2f..%2fout.zt",
        "in/./deep/model.zt",
        "in//deep/model.zt",
        "/in/deep/model.zt",
        "in/link.zt",
        "in/up/out.zt",
        "in/.hidden.zt",
        "in/shown.zt",
        "in/deep/model.zt%00",
        "in\\deep\\model.zt",
        "../in/deep/model.zt",
        "etc/passwd",
    ] {
        let e = served.open(name).unwrap_err();
        assert_eq!(e.code(), "net/no-file", "{name}");
    }
    let names: Vec<String> =
        Files::new([&inside]).unwrap().list().unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["in/deep/model.zt"]);
    for wrong in [vec![inside.join("none")], vec![], vec![inside.join(".hidden.zt")]] {
        assert_eq!(Files::new(wrong).unwrap_err().code(), "net/serve");
    }
    let twice = [inside.join("deep/model.zt"), inside.join("deep/model.zt")];
    assert_eq!(Files::new(twice).unwrap_err().code(), "net/serve");
}

#[test]
fn several_peers_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    model(&path, 6, 400_000);
    let served = Served::new([&path]);
    std::thread::scope(|scope| {
        for peer in 0..8 {
            let served = &served;
            scope.spawn(move || {
                let file = served.open("model.zt").unwrap();
                for at in (0..6).map(|n| (n + peer) % 6) {
                    assert_eq!(bytes_of(&file, at).unwrap(), noise(400_000, at as u64 + 1));
                }
            });
        }
    });
}

#[test]
fn records_are_read_over_quic() {
    let served = Served::new([corpus()]);
    let mut count = 0;
    for name in ["strings", "optional", "union", "inline", "ragged"] {
        let name = format!("metatensor/made-{name}.mt");
        let local = holdall::open(corpus().join(&name)).unwrap();
        let remote = served.open(&format!("accept/{name}")).unwrap();
        for (local, remote) in local.tensors().zip(remote.tensors()) {
            let (Ok(local), Ok(remote)) = (local.records(), remote.records()) else { continue };
            for at in 0..local.len() {
                let value =
                    |records: &holdall::Records| records.record(at).unwrap().to_value().unwrap();
                assert_eq!(value(&remote), value(&local), "{name}");
                count += 1;
            }
        }
    }
    assert!(count > 5, "{count}");
}

#[test]
fn tensors_come_in_the_order_in_which_they_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    model(&path, 12, 1_500_000);
    let served = Served::new([&path]);
    let file = served.open("model.zt").unwrap();
    let names: Vec<String> = (0..12).rev().map(|at| format!("layers.{at}")).collect();
    let order = || names.iter().map(String::as_str);
    let arriving = file.stream(order(), &LoadOptions::new()).unwrap();
    let mut came = Vec::new();
    for arrived in arriving {
        let arrived = arrived.unwrap();
        let at: u64 = arrived.name().strip_prefix("layers.").unwrap().parse().unwrap();
        assert_eq!(*arrived.tensor().bytes(&Role::Data).unwrap(), noise(1_500_000, at + 1));
        came.push(at);
    }
    assert!(came[..4].iter().all(|at| *at >= 6), "the first ones first: {came:?}");
    came.sort_unstable();
    assert_eq!(came, (0..12).collect::<Vec<u64>>());
    // Waits no longer than requested: available tensors are returned at once.
    let mut arriving = file.stream(["layers.3"], &LoadOptions::new()).unwrap();
    assert!(arriving.wait(Duration::from_secs(60)));
    assert_eq!(arriving.next().unwrap().unwrap().name(), "layers.3");
    assert!(arriving.wait(Duration::ZERO) && arriving.next().is_none());
    // Preferred, dropped, and unknown tensors.
    let mut arriving = file.stream(order(), &LoadOptions::new()).unwrap();
    arriving.prefer("layers.0").unwrap();
    let until = arriving.by_ref().take(6).any(|arrived| arrived.unwrap().name() == "layers.0");
    assert!(until, "it does not come last");
    assert_eq!(arriving.prefer("none").unwrap_err().code(), "file/no-tensor");
    drop(arriving);
    assert_eq!(file.stream(["none"], &LoadOptions::new()).unwrap_err().code(), "file/no-tensor");
    // From a local file too, many at a time.
    let many = folder.path().join("many.zt");
    model(&many, 3000, 100);
    let file = holdall::open(&many).unwrap();
    let arriving = file.stream(file.names(), &LoadOptions::new()).unwrap();
    assert_eq!(arriving.map(Result::unwrap).count(), 3000);
}

/// Returns the bytes that are sent instead of a range.
type Lie = fn(Range<u64>, Vec<u8>) -> Result<Vec<u8>, Error>;

/// A served file whose bytes are wrong, or do not arrive.
struct Lying {
    bytes: Vec<u8>,
    lie: Lie,
}

impl holdall::serve::ServedFile for Lying {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn id(&self) -> FileId {
        FileId([3; 32])
    }

    fn index(&self) -> Vec<Range<u64>> {
        let len = self.len();
        vec![0..4096, len - 4096..len]
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, Error> {
        let bytes = self.bytes[range.start as usize..range.end as usize].to_vec();
        let is_index = self.index().iter().any(|i| i.start <= range.start && range.end <= i.end);
        if is_index { Ok(bytes.into()) } else { (self.lie)(range, bytes).map(Bytes::from) }
    }

    /// The tree of the correct bytes.
    fn tree(&self) -> Result<Arc<Tree>, Error> {
        let read = |r: Range<u64>| {
            Ok(Bytes::copy_from_slice(&self.bytes[r.start as usize..r.end as usize]))
        };
        Tree::new(self.len(), &read).map(Arc::new)
    }
}

struct SingleFile(Arc<Lying>);

impl FileCatalog for SingleFile {
    fn open(&self, _: &str) -> Result<Arc<dyn holdall::serve::ServedFile>, Error> {
        Ok(Arc::clone(&self.0) as _)
    }

    fn list(&self) -> Result<Vec<Entry>, Error> {
        Ok(Vec::new())
    }
}

#[test]
fn a_server_that_lies_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    // Small enough that the catalog's bytes are sent unchanged.
    model(&path, 2, 400_000);
    let bytes = std::fs::read(&path).unwrap();
    let lies: [(Lie, &str); 4] = [
        (
            |_, mut bytes| {
                bytes[0] ^= 1;
                Ok(bytes)
            },
            "file/digest",
        ),
        (
            |_, mut bytes| {
                bytes.push(0);
                Ok(bytes)
            },
            "net/answer",
        ),
        (
            |_, mut bytes| {
                bytes.pop();
                Ok(bytes)
            },
            "net/answer",
        ),
        (|_, _| Err(holdall::error::IO.broken("the disk is gone")), "net/failed"),
    ];
    for (lie, code) in lies {
        let catalog = SingleFile(Arc::new(Lying { bytes: bytes.clone(), lie }));
        let served = Served::start(Arc::new(catalog), Tokens::default(), ServerLimits::default());
        let file = served.open("x").unwrap();
        assert_eq!(bytes_of(&file, 0).unwrap_err().code(), code);
    }
}

#[test]
fn a_server_that_sends_nothing_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    model(&path, 1, 1_000_000);
    let bytes = std::fs::read(&path).unwrap();
    let lie = |_: Range<u64>, bytes| {
        std::thread::sleep(Duration::from_secs(2));
        Ok(bytes)
    };
    let served = Served::start(
        Arc::new(SingleFile(Arc::new(Lying { bytes, lie }))),
        Tokens::default(),
        ServerLimits::default(),
    );
    let mut policy = served::policy();
    policy.timeouts.stall = Duration::from_millis(300);
    policy.timeouts.tries = 2;
    let file = OpenOptions::new().with_policy(policy).open(served.url("x")).unwrap();
    let began = Instant::now();
    assert_eq!(bytes_of(&file, 0).unwrap_err().code(), "net/failed");
    assert!(began.elapsed() < Duration::from_secs(2));
}

/// Returns an address with the hash of the file at `path`.
fn proven(served: &Served, name: &str, path: &Path) -> String {
    format!("{}&blake3={}", served.url(name), file(path).unwrap().tree().unwrap().root())
}

#[test]
fn every_file_of_every_format_is_the_same_when_it_is_proven() {
    let mut names = Vec::new();
    files(&corpus(), "accept", &mut names);
    let served = Served::new([corpus()]);
    let mut opened = 0;
    // Some files of each format; all of them are read without hashes above.
    for name in names.iter().filter(|name| !name.ends_with(".json")).step_by(7) {
        let path = corpus().join(name.strip_prefix("accept/").unwrap());
        let Ok(local) = holdall::open(&path) else { continue };
        let remote = options().open(proven(&served, name, &path));
        let remote = remote.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(contents(&remote), contents(&local), "{name}");
        opened += 1;
    }
    assert!(opened > 20, "{opened}");
}

#[test]
fn wrong_bytes_are_found_with_their_range_before_they_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    let options_of_file = WriteOptions::new().with_digest(None);
    let mut writer = Writer::create(&path, &options_of_file).unwrap();
    for (name, byte) in [("layers.0", b'a'), ("layers.1", b'b')] {
        let spec = TensorSpec::dense(name, DType::U8, [1_000_000]);
        writer.add(spec, &[&vec![byte; 1_000_000]]).unwrap();
    }
    writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    // One bit of every range that contains the byte in the middle of `b`.
    const WRONG: u64 = 1_500_000;
    let lie = |range: Range<u64>, mut bytes: Vec<u8>| {
        if range.contains(&WRONG) {
            bytes[(WRONG - range.start) as usize] ^= 4;
        }
        Ok(bytes)
    };
    let catalog = SingleFile(Arc::new(Lying { bytes, lie }));
    let served = Served::start(Arc::new(catalog), Tokens::default(), ServerLimits::default());
    // A client without the hash accepts it.
    let believed = bytes_of(&served.open("x").unwrap(), 1).unwrap();
    assert!(believed != vec![b'b'; 1_000_000]);
    let file = options().open(proven(&served, "x", &path)).unwrap();
    assert_eq!(bytes_of(&file, 0).unwrap(), vec![b'a'; 1_000_000]);
    let e = bytes_of(&file, 1).unwrap_err();
    assert_eq!(e.code(), "net/proof");
    let named = e.range().unwrap();
    assert!(named.contains(&WRONG) && named.end - named.start <= 16 << 10, "{e}");
    assert!(e.to_string().contains("are not those that were hashed"), "{e}");
    // Nor is it taken for a transmission error, and requested again. Two files were opened and three tensors
    // read; each request is recorded when its stream has ended, which may be after the answer has arrived.
    const ASKED: usize = 5;
    served.settle(ASKED);
    assert_eq!(served.seen.lock().unwrap().len(), ASKED);
    bytes_of(&file, 1).unwrap_err();
    served.settle(ASKED + 1);
    assert_eq!(served.seen.lock().unwrap().len(), ASKED + 1);
}

#[test]
fn another_file_than_the_hash_is_of_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("model.zt"), folder.path().join("other.zt"));
    model(&path, 2, 100_000);
    model(&other, 3, 100_000);
    let served = Served::new([&path]);
    let e = options().open(proven(&served, "model.zt", &other)).unwrap_err();
    assert_eq!(e.code(), "net/proof");
    assert!(e.range().is_some(), "{e}");
    let empty = folder.path().join("empty.bin");
    std::fs::write(&empty, b"").unwrap();
    let served = Served::new([&empty, &path]);
    let open = |address: &str| holdall::source::QuicSource::open(address, &served::policy());
    open(&proven(&served, "empty.bin", &empty)).unwrap();
    assert_eq!(open(&proven(&served, "empty.bin", &path)).unwrap_err().code(), "net/proof");
}

#[test]
fn a_restarted_server_continues_proofs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    model(&path, 2, 1_000_000);
    let local = holdall::open(&path).unwrap();
    let mut served = Served::new([&path]);
    let file = options().open(proven(&served, "model.zt", &path)).unwrap();
    assert_eq!(bytes_of(&file, 0).unwrap(), bytes_of(&local, 0).unwrap());
    served.restart();
    assert_eq!(bytes_of(&file, 1).unwrap(), bytes_of(&local, 1).unwrap());
}
