//! Which file systems are on a network or in another process, where mapping is many times slower than reading.
#![allow(dead_code)] // Each system needs one of them.

/// Returns `true` if a number of Linux's statfs(2) is that of such a file system: NFS, SMB, SMB2, CIFS, FUSE, Ceph,
/// Lustre, GPFS, 9P, AFS, BeeGFS.
pub(super) fn is_remote_number(number: u32) -> bool {
    const REMOTE: [u32; 11] = [
        0x6969,
        0x517b,
        0xfe53_4d42,
        0xff53_4d42,
        0x6573_5546,
        0x00c3_6400,
        0x0bd0_0bd0,
        0x4750_4653,
        0x0102_1997,
        0x5346_414f,
        0x1983_0326,
    ];
    REMOTE.contains(&number)
}

/// Returns `true` if macOS's statfs(2) describes such a file system: its name, and whether it is marked as local
/// (`MNT_LOCAL`). File systems in user space are marked as local.
pub(super) fn is_remote_name(name: &str, is_marked_local: bool) -> bool {
    let in_user_space = ["macfuse", "osxfuse", "fuse", "lifs", "fskit"];
    !is_marked_local || in_user_space.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns `true` if a full path of Windows leads to another machine: `\\server\share\…` or `\\?\UNC\server\…`. A drive
/// letter of a share has such a path once it is resolved.
pub(super) fn is_remote_path(path: &str) -> bool {
    let path = path.replace('/', r"\");
    match path.strip_prefix(r"\\?\") {
        Some(rest) => rest.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(r"UNC\")),
        None => path.starts_with(r"\\") && !path.starts_with(r"\\.\"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_on_every_system() {
        for (number, is_remote) in [(0x6969, true), (0x6573_5546, true), (0xef53, false)] {
            assert_eq!(is_remote_number(number), is_remote, "{number:#x}");
        }
        for (name, is_local, is_remote) in [
            ("apfs", true, false),
            ("hfs", true, false),
            ("nfs", false, true),
            ("smbfs", false, true),
            ("macfuse", true, true),
        ] {
            assert_eq!(is_remote_name(name, is_local), is_remote, "{name}");
        }
        for (path, is_remote) in [
            (r"C:\models\a.zt", false),
            (r"\\?\C:\models\a.zt", false),
            (r"\\server\share\a.zt", true),
            (r"//server/share/a.zt", true),
            (r"\\?\UNC\server\share\a.zt", true),
            (r"\\?\unc\server\share\a.zt", true),
            (r"\\.\pipe\a", false),
            (r"\models\a.zt", false),
            ("", false),
        ] {
            assert_eq!(is_remote_path(path), is_remote, "{path}");
        }
    }
}
