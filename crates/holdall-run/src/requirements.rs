//! The requirements of a package: platform, framework version, and version of the folder `model`.

use crate::rules::{COMPAT, VERSION};
use holdall::carton::Description;
use holdall::{Error, Result};
use semver::VersionReq;

/// Checks that the runner knows the version of the folder `model`. `known` is `None` if the runner does not say which
/// ones it knows.
pub(crate) fn check_compat(
    description: &Description,
    runner: &str,
    known: Option<&[u64]>,
) -> Result<()> {
    let compat = description.runner.compat_version;
    if compat == 0 {
        // No version is given in a folder, which means the runner's latest.
        return Ok(());
    }
    match known.filter(|known| !known.contains(&compat)) {
        None => Ok(()),
        Some(known) => Err(COMPAT.broken(format!(
            "`runner_compat_version` is {compat}, the runner `{runner}` supports {known:?}"
        ))),
    }
}

/// Returns the error for a framework of the wrong version.
pub(crate) fn version(runner: &str, requirement: &VersionReq, has: &str) -> Error {
    VERSION.broken(format!("the package requires `{requirement}`, the runner `{runner}` has {has}"))
}

/// Returns the target triple of this build, as in `required_platforms`.
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
