//! All that differs between operating systems in how files, folders and mappings are used. No other module of this
//! crate, and none of the crates that use it for files, has conditions on the system.
//!
//! Each system has a module with the same functions: `linux`, `macos`, `windows` and, for all others, `portable`.
//! `unix` has the functions that Unix systems share. What a system cannot do is a function that says so (`None`,
//! `false`, an `Unsupported` error), after which the caller takes the way that works everywhere. What can be decided
//! from text and numbers alone is in `names` and `remote`, which are built and tested on every system.
//!
//! Sizes and alignments in written files are constants of their formats and do not depend on the system: output is the
//! same everywhere.

#[cfg(not(target_os = "linux"))]
mod absent;
mod names;
mod remote;
#[cfg(unix)]
mod unix;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;

#[cfg(all(unix, not(any(target_os = "linux", target_os = "macos"))))]
mod portable;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "macos"))))]
use portable as system;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;

#[cfg(test)]
mod tests;

pub use system::*;

use std::fs::File;
use std::path::Path;

/// The file system's identity of a file, which distinguishes it from every other file of this machine.
pub type FileId = (u64, u64);

/// The result of locking a folder that is being filled.
pub enum HeldFolder {
    /// The lock, or `None` if the file system has no locks.
    Held(Option<File>),
    /// Another process removed the folder as stale.
    Gone,
}

/// The result of a read that must not wait for the disk.
pub enum CachedRead {
    /// The number of bytes that were read.
    Read(usize),
    /// The bytes are not in memory.
    Waits,
    /// The system or the file system cannot tell.
    Unsupported,
}

/// Returns the fault of the last part of the path as the name of a new file on this system.
pub fn invalid_name(path: &Path) -> Option<&'static str> {
    system::NAMES.fault(path.file_name()?.to_str()?)
}

/// Returns `true` if the last part of the path is the name of a device in every folder of this system.
pub fn is_device(path: &Path) -> bool {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    name.is_some_and(|name| system::NAMES.is_device(name))
}
