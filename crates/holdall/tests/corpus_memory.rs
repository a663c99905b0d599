//! No refused file makes this process reserve much memory, touched or not: the test measures the address
//! space.
#![cfg(target_os = "linux")]

mod corpus_files;

use corpus_files::{error_of, files};
use holdall::Io;
use std::process::Command;

/// Maximum address space in KiB that all files of `corpus/reject`, one after the other, may add to the
/// initial state. Each of them is below 64 KiB.
const MAX_KIB: u64 = 64 << 10;

const CHILD: &str = "HOLDALL_CORPUS_MEMORY_CHILD";

#[test]
fn refused_files_take_little_memory() {
    if std::env::var_os(CHILD).is_some() {
        return measure();
    }
    // In a separate process, in which no other test allocates memory, and in which the C library does not
    // reserve 64 MiB for each thread.
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "refused_files_take_little_memory", "--nocapture"])
        .env(CHILD, "1")
        .env("MALLOC_ARENA_MAX", "1")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

fn measure() {
    let reject = files("reject");
    // Creates threads and other one-time state.
    for path in reject.iter().take(20).chain(&files("accept")) {
        error_of(path, Io::Map);
        error_of(path, Io::Read);
    }
    let before = peak_kib();
    for path in reject {
        for io in [Io::Map, Io::Read, Io::Direct] {
            error_of(&path, io);
            let after = peak_kib();
            assert!(after - before <= MAX_KIB, "{} takes {} KiB", path.display(), after - before);
        }
    }
}

/// Returns the maximum address space of this process so far, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmPeak:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
