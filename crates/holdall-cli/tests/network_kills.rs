//! A server or a client is killed at a random time: the other continues or fails with an error, and files are complete
//! or absent.
#![cfg(all(unix, feature = "quic"))]

use crate::command::{command, holdall};
use crate::serving::Serving;
use holdall::http::{Hosts, Policy, Schemes, Timeouts};
use holdall::{Convert, DType, ErrorKind, OpenOptions, TensorSpec, WriteOptions, Writer, convert};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const KILLS: u64 = 6;

/// Writes a file of several tensors, 12 MB.
fn model(folder: &Path) -> PathBuf {
    let path = folder.join("model.safetensors");
    let mut writer = Writer::create(&path, &WriteOptions::new()).unwrap();
    let all: Vec<TensorSpec> =
        (0..12).map(|i| TensorSpec::dense(format!("w{i}"), DType::U8, [(1 << 20) + i])).collect();
    writer.declare(&all).unwrap();
    for (number, spec) in all.into_iter().enumerate() {
        let len = spec.shape[0] as usize;
        let bytes: Vec<u8> = (0..len).map(|at| ((at * (number + 31)) >> 3) as u8).collect();
        writer.add(spec, &[&bytes]).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// Returns the addresses of the file, one per protocol.
fn addresses(serving: &Serving) -> [String; 2] {
    let name = "model.safetensors";
    [serving.url(name), format!("http://{}/{name}", serving.address())]
}

/// Returns a time within `whole` that depends on `number`.
fn instant(number: u64, whole: Duration) -> Duration {
    let part = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    whole.mul_f64(1.1 * part as f64 / (1u64 << 24) as f64)
}

fn is_same(a: &Path, b: &Path) -> bool {
    holdall([Path::new("diff"), a, b]).status == 0
}

/// Returns whether the folder contains only these files.
fn is_only(folder: &Path, expected: &[&Path]) -> bool {
    let all = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| !expected.contains(&path.as_path())).count() == 0
}

#[test]
fn a_server_that_is_killed_leaves_files_of_its_clients_whole_or_absent() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (path, target) = (model(from.path()), to.path().join("copy.zt"));
    let mut timeouts = Timeouts::default();
    (timeouts.connect, timeouts.stall) = (Duration::from_secs(1), Duration::from_secs(1));
    (timeouts.tries, timeouts.pause) = (2, Duration::from_millis(1));
    let policy = Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo);
    let options = OpenOptions::new().with_policy(policy.with_timeouts(timeouts));
    let copy = |address: &str| {
        let file = options.open(address)?;
        convert(&file, &target, &Convert::new(WriteOptions::new())).map(drop)
    };
    for which in 0..2 {
        let serving = Serving::new(&[path.to_str().unwrap()]);
        let begun = Instant::now();
        copy(&addresses(&serving)[which]).unwrap();
        let whole = begun.elapsed();
        assert!(is_same(&path, &target));
        std::fs::remove_file(&target).unwrap();
        drop(serving);
        for number in 0..KILLS {
            let serving = Serving::new(&[path.to_str().unwrap()]);
            let address = addresses(&serving)[which].clone();
            let begun = Instant::now();
            let done = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(instant(number, whole));
                    serving.signal("-KILL");
                });
                copy(&address)
            });
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
            match done {
                Ok(()) => {
                    assert!(is_same(&path, &target));
                    std::fs::remove_file(&target).unwrap();
                }
                Err(e) => assert_eq!(e.kind(), ErrorKind::Io, "{e}"),
            }
            assert!(is_only(to.path(), &[]), "{number} of {address}");
        }
    }
}

#[test]
fn a_client_that_is_killed_is_no_harm_to_the_server_or_to_files() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (path, target) = (model(from.path()), to.path().join("copy.zt"));
    let serving = Serving::new(&[path.to_str().unwrap()]);
    for address in addresses(&serving) {
        let args = ["convert", &address, target.to_str().unwrap()];
        let allow = ["--allow", "private-hosts", "--allow", "http", "--no-sync"];
        let _ = std::fs::remove_file(&target);
        let begun = Instant::now();
        holdall(args.iter().chain(&allow)).ends_with(0);
        let whole = begun.elapsed();
        for number in 0..KILLS {
            let _ = std::fs::remove_file(&target);
            let mut command = command(args.iter().chain(&allow));
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(instant(number, whole));
            // It may have finished already.
            let _ = child.kill();
            child.wait().unwrap();
            assert!(!target.exists() || is_same(&path, &target), "{number} of {address}");
        }
        // Files left by kills are removed by the next write to the folder.
        let _ = std::fs::remove_file(&target);
        for _ in 0..2 {
            holdall(args.iter().chain(&allow).chain(&["--force"])).ends_with(0);
        }
        assert!(is_same(&path, &target) && is_only(to.path(), &[&target]));
    }
    serving.signal("-TERM");
    assert_eq!(serving.ended().0, 0);
}

/// A process killed while it fills a cache leaves complete blocks only, and the next process uses them.
#[test]
fn a_client_that_is_killed_leaves_its_cache_sound() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = model(from.path());
    let bytes = std::fs::read(&path).unwrap();
    let serving = Serving::new(&[path.to_str().unwrap()]);
    let [_, address] = addresses(&serving);
    let cache = to.path().join("cache");
    let cache_option = format!("--cache={}", cache.display());
    let args = ["diff", path.to_str().unwrap(), &address, &cache_option];
    let args = || args.iter().chain(&["--allow", "private-hosts", "--allow", "http", "-q"]);
    let begun = Instant::now();
    holdall(args()).ends_with(0);
    let (whole, of_all) = (begun.elapsed(), blocks(&cache, &bytes));
    // Everything the command reads: the whole file, except what was already received when it was opened.
    assert!(of_all > bytes.len() / BLOCK / 2, "{of_all}");
    let mut has_some = false;
    for number in 0..2 * KILLS {
        // Every second process continues with the cache of the one before.
        if number % 2 == 0 {
            std::fs::remove_dir_all(&cache).unwrap();
        }
        let mut command = command(args());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(instant(number, whole));
        let _ = child.kill();
        child.wait().unwrap();
        std::fs::create_dir_all(&cache).unwrap();
        let kept = blocks(&cache, &bytes);
        has_some |= 0 < kept && kept < of_all;
    }
    assert!(has_some, "each was killed before the first block or after the last");
    holdall(args()).ends_with(0);
    assert_eq!(blocks(&cache, &bytes), of_all);
}

/// The block length of a cache, in bytes.
const BLOCK: usize = 512 << 10;

/// Returns the number of blocks of a file in a cache. Panics if a block is incomplete: it must be bytes of the file and
/// their checksum.
fn blocks(cache: &Path, file: &[u8]) -> usize {
    let folders = cache.join("holdall-blocks").read_dir().into_iter().flatten().flatten();
    let folders = folders.filter(|folder| folder.path().is_dir());
    let entries = folders.flat_map(|folder| folder.path().read_dir().unwrap().flatten());
    let mut count = 0;
    for entry in entries {
        let name = entry.file_name().into_string().unwrap();
        // A temporary file that was not renamed is removed after an hour.
        let Ok(number) = name.parse::<usize>() else {
            assert!(name.starts_with('.'), "{name}");
            continue;
        };
        let own = &file[number * BLOCK..file.len().min((number + 1) * BLOCK)];
        let found = std::fs::read(entry.path()).unwrap();
        assert!(found.len() == own.len() + 4 && found.starts_with(own), "block {number}");
        count += 1;
    }
    count
}
