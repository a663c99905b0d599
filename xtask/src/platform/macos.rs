//! macOS: built and linked, not run.

use super::{has_target, zigbuild};
use crate::command::{Outcome, target};

/// `cargo xtask platform macos`.
pub(super) fn macos() -> Outcome {
    for triple in ["aarch64-apple-darwin", "x86_64-apple-darwin"] {
        if !has_target(triple) {
            continue;
        }
        let Some(build) = zigbuild() else { return Ok(()) };
        build.args(["--locked", "--target", triple, "--package", "holdall-cli"]).run()?;
        let command = target().join(triple).join("debug/holdall");
        eprintln!("{}: linked, not run", command.display());
    }
    Ok(())
}
