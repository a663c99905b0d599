//! Checking a dataset that is read by position takes less memory than its bytes.
#![cfg(target_os = "linux")]

use holdall::records::Build;
use holdall::{Io, OpenOptions, VerifyOptions, WriteOptions, verify};
use serde_json::json;
use std::process::Command;

const CHILD: &str = "HOLDALL_VERIFY_MEMORY_CHILD";
const COUNT: u64 = 24_000;
/// Memory that the check may take, including the program, in KiB; texts take 92 MiB.
const MAX_KIB: u64 = 64 << 10;

#[test]
fn datasets_that_are_not_mapped_are_checked_in_little_memory() {
    if let Some(path) = std::env::var_os(CHILD) {
        let file = OpenOptions::new().with_io(Io::Read).open(path).unwrap();
        let report = verify(&file, &VerifyOptions::new()).unwrap();
        assert!(report.is_sound(), "{:?}", report.findings);
        assert_eq!(report.records, 1);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("texts.zt");
    let mut build = Build::create(&path, &WriteOptions::new()).unwrap();
    let kind = json!({
        "type": "object",
        "TypeDef:Struct": ["id", "text"],
        "required": ["id", "text"],
        "properties": {
            "id": { "type": "integer", "TypeDef:Uint32": true },
            "text": { "type": "string", "TypeDef:String": true },
        },
    });
    let mut set = build.dataset_with_schema("set", &kind).unwrap();
    let text = "0123456789abcdef".repeat(250);
    for id in 0..COUNT {
        set.value(&json!({ "id": id, "text": text })).unwrap();
    }
    build.add(set).unwrap();
    build.finish().unwrap();
    let status = Command::new("sh")
        .args(["-c", &format!("ulimit -d {MAX_KIB} && exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "datasets_that_are_not_mapped_are_checked_in_little_memory"])
        .env(CHILD, &path)
        .env("MALLOC_ARENA_MAX", "1")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
