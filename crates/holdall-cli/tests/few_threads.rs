//! If the system cannot start more threads, the main thread does all the work.
#![cfg(target_os = "linux")]

use crate::command::{self, Ran, command};
use std::path::Path;

/// Runs `holdall` where every new thread requests more memory than the address space has, so that no thread can start.
fn alone(args: &[&str]) -> Ran {
    let out = command(args).env("RUST_MIN_STACK", (1_u64 << 60).to_string()).output().unwrap();
    Ran {
        status: out.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&out.stdout).into_owned(),
        err: String::from_utf8_lossy(&out.stderr).into_owned(),
        raw: out.stdout,
    }
}

/// Writes a safetensors file of 3 tensors, 20 MiB together: more than one piece of a writer, and enough frames for
/// several threads.
fn big(path: &Path) {
    const LEN: usize = 7 << 20;
    let entry = |at: usize| {
        let (from, to) = (at * LEN, (at + 1) * LEN);
        format!("\"t{at}\":{{\"dtype\":\"U8\",\"shape\":[{LEN}],\"data_offsets\":[{from},{to}]}}")
    };
    let mut header = format!("{{{},{},{}}}", entry(0), entry(1), entry(2));
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..3 * LEN as u64).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 13) as u8 & 15));
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn everything_is_done_where_no_thread_starts() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (from, raw, packed, with) =
        (at("a.safetensors"), at("raw.zt"), at("packed.zt"), at("with.zt"));
    big(Path::new(&from));
    alone(&["convert", &from, &raw, "--threads", "4"]).ends_with(0);
    alone(&["convert", &from, &packed, "--threads", "4", "--encoding", "zstd"]).ends_with(0);
    command::holdall(["convert", &from, &with, "--encoding", "zstd"]).ends_with(0);
    // The output is the same as with threads.
    assert!(std::fs::read(&packed).unwrap() == std::fs::read(&with).unwrap());
    for file in [&raw, &packed] {
        alone(&["verify", file, "--threads", "4"]).ends_with(0);
        let args = ["inspect", "--json", "--digests", file.as_str(), "--threads", "4"];
        let (without, with) = (alone(&args).ends_with(0), command::holdall(args).ends_with(0));
        assert_eq!(without.out, with.out);
        alone(&["inspect", "--stats", file, "--threads", "4"]).ends_with(0);
    }
    alone(&["diff", &raw, &packed, "--threads", "4"]).ends_with(0);
}
