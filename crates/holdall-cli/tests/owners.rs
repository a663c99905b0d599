//! The owner and permissions of a rewritten file.
//!
//! Changing a file's owner requires privileges: without them, these tests do nothing. The part that needs no
//! privileges, the permission bits, is tested in its own module.
#![cfg(unix)]

use crate::command;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

const NOBODY: u32 = 65534;
const GROUP: u32 = 54321;

/// Creates a file with another owner, in a folder that everybody may write to. Returns `None` if the process lacks the
/// privileges.
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
    // The test program may be in a folder that other users cannot access.
    let Ok(out) = command.uid(NOBODY).gid(NOBODY).output() else { return };
    assert!(out.status.success(), "{out:?}");
    assert_eq!(access(&path), (NOBODY, NOBODY, 0o604));
}
