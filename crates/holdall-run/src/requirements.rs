//! What a package requires: the platform, the version of the framework and of the folder `model`.

use crate::rules::{COMPAT, VERSION};
use holdall::carton::Description;
use holdall::{Error, Result};
use semver::VersionReq;

/// Whether the folder `model` is of a version that the runner knows, where it says which those are.
pub(crate) fn check_compat(
    description: &Description,
    runner: &str,
    known: Option<&[u64]>,
) -> Result<()> {
    let compat = description.runner.compat_version;
    if compat == 0 {
        // The author of a folder does not say, and means the runner's own.
        return Ok(());
    }
    match known.filter(|known| !known.contains(&compat)) {
        None => Ok(()),
        Some(known) => Err(COMPAT.broken(format!(
            "`runner_compat_version` is {compat}, the runner `{runner}` knows {known:?}"
        ))),
    }
}

/// A framework of the wrong version.
pub(crate) fn version(runner: &str, requirement: &VersionReq, has: &str) -> Error {
    VERSION.broken(format!("the package requires `{requirement}`, the runner `{runner}` has {has}"))
}

/// The target triple of this build, as `required_platforms` names it.
pub fn platform() -> String {
    let arch = std::env::consts::ARCH;
    match std::env::consts::OS {
        "linux" if cfg!(target_env = "musl") => format!("{arch}-unknown-linux-musl"),
        "linux" => format!("{arch}-unknown-linux-gnu"),
        "macos" => format!("{arch}-apple-darwin"),
        "windows" => format!("{arch}-pc-windows-msvc"),
        os => format!("{arch}-unknown-{os}"),
    }
}
