//! A conversion or an edit that is killed at any instant leaves the old file or the new one, whole.

use holdall::{DType, Role, TensorSpec, WriteOptions, Writer};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Tries of each kind.
const TRIES: u32 = 24;

fn bytes_of(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn write(path: &Path, tensors: &[(&str, &[u8])]) {
    let options = WriteOptions::new().with_overwrite(true);
    let mut writer = Writer::create(path, &options).unwrap();
    let spec = |name: &str, bytes: &[u8]| TensorSpec::dense(name, DType::U8, [bytes.len() as u64]);
    let specs: Vec<_> = tensors.iter().map(|(name, bytes)| spec(name, bytes)).collect();
    writer.declare(&specs).unwrap();
    for (spec, (_, bytes)) in specs.into_iter().zip(tensors) {
        writer.add(spec, &[bytes]).unwrap();
    }
    writer.finish().unwrap();
}

/// Runs the command whole once to learn how long it takes, then again and again, killed a little later
/// each time; `begin` restores what it works on, `check` looks at what a kill left and says whether
/// that was the new file.
fn kill_at_every_instant(args: &[&str], begin: impl Fn(), check: impl Fn() -> bool) {
    let run = || {
        Command::new(env!("CARGO_BIN_EXE_holdall"))
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    begin();
    let start = Instant::now();
    assert!(run().wait().unwrap().success());
    let whole = start.elapsed();
    assert!(check());
    for attempt in 0..TRIES {
        begin();
        let mut child = run();
        std::thread::sleep(Duration::min(whole, Duration::from_secs(2)) * attempt / TRIES);
        child.kill().unwrap();
        child.wait().unwrap();
        check();
    }
}

/// Whether the file holds these tensors and no others, every byte and digest right.
fn holds(path: &Path, tensors: &[(&str, &[u8])]) -> bool {
    let file = holdall::open(path).unwrap();
    let loaded = file.load_all().unwrap();
    file.len() == tensors.len()
        && tensors.iter().all(|(name, bytes)| {
            loaded.get(name).is_some_and(|t| *t.bytes(&Role::Data).unwrap() == **bytes)
        })
}

#[test]
fn a_killed_conversion_leaves_the_old_file_or_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (dir.path().join("source.zt"), dir.path().join("target.zt"));
    let (old, new) = (bytes_of(100_000, 1), bytes_of(24 << 20, 2));
    let (old, new) = ([("old", &old[..])], [("new", &new[..])]);
    write(&source, &new);
    for encoding in ["raw", "zstd:1"] {
        let args = ["convert", "--force", "--encoding", encoding];
        let paths = [source.to_str().unwrap(), target.to_str().unwrap()];
        kill_at_every_instant(
            &[&args[..], &paths].concat(),
            || write(&target, &old),
            || {
                let is_new = holds(&target, &new);
                assert!(is_new || holds(&target, &old));
                is_new
            },
        );
    }
}

#[test]
fn a_killed_edit_leaves_the_old_file_or_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("file.zt"), dir.path().join("other.zt"));
    let added = bytes_of(6 << 20, 3);
    write(&other, &[("added", &added)]);
    // Above 1 MiB an edit is made in place where the system can, below it writes a new file.
    for len in [3 << 20, 500_000] {
        let kept = bytes_of(len, len as u64);
        let old = [("kept", &kept[..])];
        let new = [("kept", &kept[..]), ("added", &added[..])];
        kill_at_every_instant(
            &["edit", file.to_str().unwrap(), "append", other.to_str().unwrap()],
            || write(&file, &old),
            || {
                let is_new = holds(&file, &new);
                assert!(is_new || holds(&file, &old));
                is_new
            },
        );
    }
}
