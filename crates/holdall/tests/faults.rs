//! Files in which one tensor cannot be read: the behaviour of each operation.

use crate::make::{bytes_of, dense, f32s, part};
use holdall::convert::{Convert, convert};
use holdall::verify::{Reason, Verdict};
use holdall::{
    Attributes, Bytes, Check, DType, DiffOptions, Edit, ErrorKind, Faults, File, LoadOptions,
    OpenOptions, Role, Select, VerifyOptions, WriteOptions, diff, verify,
};
use std::path::Path;

/// Returns a file of `a` and `z`, and between them `bad`, with an invalid description.
fn broken(format: &str, from: &str, to: &str) -> Vec<u8> {
    let sound = |name, x: f32| dense(name, &[4], part(Role::Data, DType::F32, f32s(&[x; 4])));
    let bad = dense("bad", &[8], part(Role::Data, DType::I16, vec![7; 16]));
    let mut bytes = bytes_of(format, &Attributes::new(), &[sound("a", 1.0), bad, sound("z", 2.0)]);
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).expect("it says so");
    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    bytes
}

/// Returns such files, and the code of each error.
fn all() -> Vec<(Vec<u8>, &'static str)> {
    vec![
        (broken("ztensor@1.2.0", "ci16", "cx99"), "ztensor/unknown-dtype"),
        (broken("safetensors", "\"I16\"", "\"X99\""), "safetensors/dtype"),
        (broken("safetensors", "[8]", "[9]"), "index/size"),
    ]
}

fn open(bytes: &[u8]) -> File {
    OpenOptions::new().open_bytes(Bytes::copy_from_slice(bytes), "made").unwrap()
}

fn on_disk(dir: &Path, bytes: &[u8]) -> std::path::PathBuf {
    let path = dir.join("broken");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn the_others_are_read_and_the_broken_one_says_why_not() {
    for (bytes, code) in all() {
        let file = open(&bytes);
        assert_eq!(file.len(), 3, "{code}");
        assert_eq!(file.faults().map(|e| e.code()).collect::<Vec<_>>(), [code]);
        assert_eq!(file.tensor("a").unwrap().bytes(&Role::Data).unwrap(), f32s(&[1.0; 4]));
        let bad = file.tensor("bad").unwrap();
        let is_fault = |e: holdall::Error| {
            let place = (e.code(), e.tensor(), e.source_name());
            assert_eq!(place, (code, Some("bad"), Some("made")), "{e}");
        };
        is_fault(bad.bytes(&Role::Data).unwrap_err());
        is_fault(bad.stored(&Role::Data).unwrap_err());
        is_fault(bad.read_into(&Role::Data, &mut [0; 16]).unwrap_err());
        is_fault(bad.pieces(&Role::Data).err().unwrap());
        is_fault(bad.bytes_range(&Role::Data, 0..2).unwrap_err());
        is_fault(bad.dense().unwrap_err());
        is_fault(bad.to_dense().unwrap_err());
        is_fault(bad.rows(0..1).unwrap_err());
        is_fault(file.load_all().err().unwrap());
        is_fault(file.load(["bad"], &LoadOptions::new()).err().unwrap());
        is_fault(file.load_memory(0..3, &LoadOptions::new()).err().unwrap());
        is_fault(file.plan(["a", "bad"], &LoadOptions::new()).unwrap_err());
        let mut out = [0; 16];
        let buffers = [("bad", Role::Data, &mut out[..])];
        is_fault(file.load_into(buffers, &LoadOptions::new()).unwrap_err());
        is_fault(holdall::stats(&bad, &Default::default()).unwrap_err());

        let loaded = file.load(["a", "z"], &LoadOptions::new()).unwrap();
        assert_eq!(loaded.get("z").unwrap().bytes(&Role::Data).unwrap(), &f32s(&[2.0; 4]));
    }
}

#[test]
fn a_strict_open_refuses_the_file() {
    for (bytes, code) in all() {
        for check in [Check::Fast, Check::All] {
            let options = OpenOptions::new().with_check(check).with_faults(Faults::Refuse);
            let e = options.open_bytes(Bytes::copy_from_slice(&bytes), "made").unwrap_err();
            assert_eq!((e.code(), e.tensor()), (code, Some("bad")), "{e}");
        }
    }
}

#[test]
fn such_a_file_is_not_sound() {
    for (bytes, code) in all() {
        let report = verify(&open(&bytes), &VerifyOptions::new()).unwrap();
        assert!(!report.is_sound(), "{code}");
        assert_eq!(report.tensors, 3);
        // A tensor that this version does not know may be sound; a contradictory one is not.
        match report.verdict() {
            Verdict::Bad => {
                let found = report.findings.iter().map(|e| (e.code(), e.tensor()));
                assert_eq!(found.collect::<Vec<_>>(), [(code, Some("bad"))]);
            }
            _ => {
                assert_eq!(report.unverified_for(Reason::Unsupported), 1);
                let why = |u: &holdall::verify::Unverified| u.message.contains(code);
                assert!(report.unverified.iter().any(why), "{:?}", report.unverified);
            }
        }
        let others =
            VerifyOptions::new().with_select(Select::new(&[] as &[&str], &["bad"]).unwrap());
        assert!(verify(&open(&bytes), &others).unwrap().is_sound());
    }
}

#[test]
fn a_conversion_takes_it_when_the_broken_tensor_is_left_out() {
    for (bytes, code) in all() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out.zt");
        let e = convert(&open(&bytes), &target, &Convert::new(WriteOptions::new())).unwrap_err();
        assert_eq!((e.code(), e.tensor()), (code, Some("bad")), "{e}");
        assert!(e.remedies().contains(&holdall::Remedy::LeaveOut), "{e}");
        assert!(!target.exists());

        let select = Select::new(&[] as &[&str], &["bad"]).unwrap();
        let options = Convert::new(WriteOptions::new()).with_select(select);
        convert(&open(&bytes), &target, &options).unwrap();
        let written = holdall::open(&target).unwrap();
        assert_eq!(written.names().collect::<Vec<_>>(), ["a", "z"]);
        assert!(verify(&written, &VerifyOptions::new()).unwrap().is_sound());
    }
}

#[test]
fn an_incomplete_comparison_is_reported() {
    for (bytes, code) in all() {
        let found = diff(&open(&bytes), &open(&bytes), &DiffOptions::new()).unwrap();
        let changed: Vec<_> = found.changed.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(changed, ["bad"]);
        assert_eq!(found.changed[0].incomparable.as_ref().unwrap().code(), code);
    }
}

#[test]
fn an_edit_changes_nothing_until_the_broken_tensor_is_taken_out() {
    for (bytes, code) in all() {
        let dir = tempfile::tempdir().unwrap();
        let path = on_disk(dir.path(), &bytes);
        let mut edit = Edit::open(&path).unwrap();
        edit.rename("a", "b").unwrap();
        let e = edit.commit().unwrap_err();
        assert_eq!((e.code(), e.kind() == ErrorKind::Io), (code, false), "{e}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert_eq!(holdall::compact(&path, WriteOptions::new()).unwrap_err().code(), code);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);

        let mut edit = Edit::open(&path).unwrap();
        edit.remove("bad").unwrap();
        edit.commit().unwrap();
        let file = holdall::open(&path).unwrap();
        assert_eq!((file.len(), file.faults().count()), (2, 0));
        assert_eq!(file.tensor("z").unwrap().bytes(&Role::Data).unwrap(), f32s(&[2.0; 4]));
    }
}
