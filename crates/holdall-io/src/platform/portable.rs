//! Unix systems without a module of their own.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

pub use super::unix::*;

pub use super::absent::*;

/// Returns `false`: file systems are not distinguished.
pub fn is_remote(_: &File, _: &Path) -> bool {
    false
}

/// Returns the system's folder for caches. `env` looks up environment variables, of which those that are not absolute
/// paths are to be ignored.
pub fn cache_folder(env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .map(|caches| caches.join("holdall"))
}
