//! Whom a rewritten file belongs to, and who may read it.
//!
//! Giving files away takes privileges: without them there is nothing to see here, and the part that
//! needs none, which bits are left, is tested where it is.
#![cfg(unix)]

use crate::command;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

const NOBODY: u32 = 65534;
const GROUP: u32 = 54321;

/// A file that belongs to somebody else, in a folder that everybody may write; none where that takes
/// privileges that are not there.
fn file_of(owner: u32, group: u32, mode: u32, folder: &Path) -> Option<PathBuf> {
    let path = folder.join("a.zt");
    std::fs::copy(command::accept("ztensor/v1.2-dense_all.zt"), &path).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    chown(&path, Some(owner), Some(group)).ok()?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    Some(path)
}

fn access(path: &Path) -> (u32, u32, u32) {
    let meta = path.metadata().unwrap();
    (meta.uid(), meta.gid(), meta.mode() & 0o7777)
}

#[test]
fn a_rewrite_keeps_owner_and_group() {
    let dir = tempfile::tempdir().unwrap();
    let Some(path) = file_of(NOBODY, GROUP, 0o640, dir.path()) else { return };
    let inode = path.metadata().unwrap().ino();
    command::holdall(["convert", path.to_str().unwrap(), path.to_str().unwrap(), "--force"])
        .ends_with(0);
    assert_ne!(path.metadata().unwrap().ino(), inode);
    assert_eq!(access(&path), (NOBODY, GROUP, 0o640));
}

#[test]
fn a_group_that_cannot_be_kept_leaves_no_bits_to_another() {
    let dir = tempfile::tempdir().unwrap();
    let Some(path) = file_of(NOBODY, GROUP, 0o664, dir.path()) else { return };
    let from = path.to_str().unwrap();
    let mut command = command::command(["convert", from, from, "--force"]);
    // Some tests run from where nobody else can.
    let Ok(out) = command.uid(NOBODY).gid(NOBODY).output() else { return };
    assert!(out.status.success(), "{out:?}");
    assert_eq!(access(&path), (NOBODY, NOBODY, 0o604));
}
