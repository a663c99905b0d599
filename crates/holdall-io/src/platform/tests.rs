//! One suite for every system: it says what differs by the functions' own answers, not by conditions on the system.

use super::*;
use std::io::{Read as _, Write as _};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn bytes_are_read_and_written_at_offsets() {
    let dir = folder();
    let path = dir.path().join("a");
    std::fs::write(&path, [0; 10]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    write_all_at(&file, b"abc", 4).unwrap();
    // Past the end, too: the bytes between are zeros.
    write_all_at(&file, b"z", 12).unwrap();
    let mut out = [1; 9];
    read_exact_at(&file, &mut out, 4).unwrap();
    assert_eq!(&out, b"abc\0\0\0\0\0z");
    assert_eq!(read_at(&file, &mut out, 12).unwrap(), 1);
    assert_eq!(read_at(&file, &mut out, 13).unwrap(), 0);
    let e = read_exact_at(&file, &mut out, 5).unwrap_err();
    assert_eq!(e.kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(std::fs::read(&path).unwrap(), b"\0\0\0\0abc\0\0\0\0\0z");
}

#[test]
fn pages_are_powers_of_two() {
    assert!(page_size().is_power_of_two() && page_size() >= 4096, "{}", page_size());
}

#[test]
fn a_file_is_opened_alone_once_and_read_by_others() {
    let dir = folder();
    let path = dir.path().join("a");
    std::fs::write(&path, "old").unwrap();
    let reader = File::open(&path).unwrap();
    let first = open_alone(&path).unwrap().unwrap();
    assert!(open_alone(&path).unwrap().is_none());
    let mut out = [0; 3];
    read_exact_at(&reader, &mut out, 0).unwrap();
    assert_eq!(&out, b"old");
    // Whoever opens it now can read it.
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    drop(first);
    assert!(open_alone(&path).unwrap().is_some());
    assert!(open_alone(&dir.path().join("none")).is_err());
}

#[test]
fn a_closed_file_is_replaced_and_an_open_one_if_the_system_can() {
    let dir = folder();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    for name in ["from", "to"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    rename_over(&from, &to).unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), b"from");
    std::fs::write(&from, "again").unwrap();
    // A mapping holds a file more firmly than a handle.
    let file = File::open(&to).unwrap();
    let source = crate::source::FileSource::from_file(file, &to).unwrap();
    let map = crate::source::MapSource::new(source).unwrap();
    match rename_over(&from, &to) {
        Ok(()) => assert_eq!(std::fs::read(&to).unwrap(), b"again"),
        Err(e) => assert!(!REPLACES_OPEN_FILES && is_in_use(&e), "{e}"),
    }
    drop(map);
    if from.exists() {
        rename_over(&from, &to).unwrap();
    }
    assert_eq!(std::fs::read(&to).unwrap(), b"again");
}

#[test]
fn temporary_files_in_use_are_not_stale() {
    let dir = folder();
    let mut builder = tempfile::Builder::new();
    let file = temporary_file(&mut builder, dir.path()).unwrap().unwrap();
    let kind = || std::fs::symlink_metadata(file.path()).unwrap().file_type();
    assert!(hold_stale(file.path(), kind()).is_none());
    file.as_file().write_all(b"bytes").unwrap();
    let target = dir.path().join("a");
    std::fs::write(&target, "old").unwrap();
    replace_file(file, &target).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), b"bytes");
    assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    // A file that no process holds is stale.
    let kind = std::fs::symlink_metadata(&target).unwrap().file_type();
    let stale = hold_stale(&target, kind).unwrap();
    std::fs::remove_file(&target).unwrap();
    drop(stale);
    assert!(!target.exists());
}

#[test]
fn folders_in_use_are_not_stale() {
    let dir = folder();
    let (part, target) = (dir.path().join("part"), dir.path().join("target"));
    std::fs::create_dir(&part).unwrap();
    let HeldFolder::Held(Some(lock)) = hold_folder(&part) else { panic!("not held") };
    let kind = std::fs::symlink_metadata(&part).unwrap().file_type();
    assert!(hold_stale(&part, kind).is_none());
    // It can be filled and renamed meanwhile.
    std::fs::create_dir(part.join("deep")).unwrap();
    std::fs::write(part.join("deep/file"), "x").unwrap();
    std::fs::rename(&part, &target).unwrap();
    assert_eq!(std::fs::read(target.join("deep/file")).unwrap(), b"x");
    drop(lock);
    let stale = hold_stale(&target, kind).unwrap();
    std::fs::remove_dir_all(&target).unwrap();
    drop(stale);
    assert!(!target.exists());
    sync_folder(dir.path()).unwrap();
}

#[test]
fn what_a_system_lacks_it_says() {
    let dir = folder();
    let path = dir.path().join("a");
    std::fs::write(&path, vec![7; 3 * 4096]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    // Whatever the answer, no byte changes.
    let _ = set_direct(&file, true);
    let _ = set_direct(&file, false);
    fetch_ahead(&file, 0..4096);
    reserve(&file, 3 * 4096).unwrap();
    let mut out = [0; 5];
    if let CachedRead::Read(n) = read_cached(&file, &mut out, 1) {
        assert_eq!(out[..n], [7; 5][..n]);
    }
    if let Some(direct) = open_direct(&path) {
        let mut out = crate::buffer::Buffer::mapped(4096).unwrap();
        if let Ok(n) = read_at(&direct, out.as_mut(), 4096) {
            assert!(out.as_ref()[..n].iter().all(|byte| *byte == 7));
        }
    }
    if insert_range(&file, 4096, 4096).is_ok() {
        assert_eq!(file.metadata().unwrap().len(), 4 * 4096);
        collapse_range(&file, 4096, 4096).unwrap();
    }
    let mut all = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut all).unwrap();
    assert_eq!(all, vec![7; 3 * 4096]);
    if punch_hole(&file, 4096..2 * 4096).is_ok() {
        read_exact_at(&file, &mut out, 2 * 4096 - 4).unwrap();
        assert_eq!(out, [0, 0, 0, 0, 7]);
    }
    let named = dir.path().join("named");
    match nameless(dir.path()) {
        Some(mut file) => {
            file.write_all(b"x").unwrap();
            link(&file, &named).unwrap();
            assert!(link(&file, &named).is_err());
        }
        None => assert!(link(&file, &named).is_err() && !named.exists()),
    }
}

#[test]
fn two_folders_are_exchanged_or_left() {
    let dir = folder();
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&other).unwrap();
    std::fs::write(one.join("x"), "").unwrap();
    let is_exchanged = exchange(&one, &other);
    assert_eq!((one.join("x").exists(), other.join("x").exists()), (!is_exchanged, is_exchanged));
}

#[test]
fn files_are_distinguished_by_identity() {
    let dir = folder();
    let id = |name: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, "x").unwrap();
        file_id(&path.metadata().unwrap())
    };
    let (one, other) = (id("one"), id("other"));
    assert!(one.is_none() == other.is_none() && (one.is_none() || one != other));
    let file = File::open(dir.path().join("one")).unwrap();
    assert!(is_at(&file, &dir.path().join("one")) && !is_at(&file, &dir.path().join("none")));
    assert!(!is_remote(&file, &dir.path().join("one")) || cfg!(not(windows)));
}

#[test]
fn the_cache_is_in_the_users_folder() {
    let root = dir_root();
    let vars = |name: &str| match name {
        "HOME" | "LOCALAPPDATA" => Some(root.clone().into_os_string()),
        _ => None,
    };
    let found = cache_folder(&vars).unwrap();
    assert!(found.starts_with(&root) && found.to_string_lossy().contains("holdall"), "{found:?}");
    let relative = |_: &str| Some("models".into());
    assert_eq!(cache_folder(&relative), None);
    assert_eq!(cache_folder(&|_| None), None);
}

/// Returns a path that is absolute on this system.
fn dir_root() -> std::path::PathBuf {
    std::env::temp_dir()
}
