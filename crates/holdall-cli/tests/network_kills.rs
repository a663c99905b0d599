//! A server, or a client of it, that is killed at some instant: the other goes on or ends with an error, and files are whole or
//! absent.
#![cfg(all(unix, feature = "quic"))]

mod command;
mod serving;

use command::{command, holdall};
use holdall::http::{Hosts, Patience, Policy, Schemes};
use holdall::{Convert, DType, ErrorKind, OpenOptions, TensorSpec, WriteOptions, Writer, convert};
use serving::Serving;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const KILLS: u64 = 6;

/// A file of some tensors, 12 MB.
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

/// Where the server has the file, over each protocol.
fn addresses(serving: &Serving) -> [String; 2] {
    let name = "model.safetensors";
    [serving.url(name), format!("http://{}/{name}", serving.address())]
}

/// Some instant of so long, each number another.
fn instant(number: u64, whole: Duration) -> Duration {
    let part = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    whole.mul_f64(1.1 * part as f64 / (1u64 << 24) as f64)
}

fn is_same(a: &Path, b: &Path) -> bool {
    holdall([Path::new("diff"), a, b]).status == 0
}

/// Nothing but these is in a folder.
fn is_only(folder: &Path, expected: &[&Path]) -> bool {
    let all = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| !expected.contains(&path.as_path())).count() == 0
}

#[test]
fn a_server_that_is_killed_leaves_files_of_its_clients_whole_or_absent() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (path, target) = (model(from.path()), to.path().join("copy.zt"));
    let mut patience = Patience::default();
    (patience.connect, patience.stall) = (Duration::from_secs(1), Duration::from_secs(1));
    (patience.tries, patience.pause) = (2, Duration::from_millis(1));
    let policy = Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo);
    let options = OpenOptions::new().with_policy(policy.with_patience(patience));
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
            // It may be done by now.
            let _ = child.kill();
            child.wait().unwrap();
            assert!(!target.exists() || is_same(&path, &target), "{number} of {address}");
        }
        // What kills left is gone with the next that is written there.
        let _ = std::fs::remove_file(&target);
        for _ in 0..2 {
            holdall(args.iter().chain(&allow).chain(&["--force"])).ends_with(0);
        }
        assert!(is_same(&path, &target) && is_only(to.path(), &[&target]));
    }
    serving.signal("-TERM");
    assert_eq!(serving.ended().0, 0);
}
