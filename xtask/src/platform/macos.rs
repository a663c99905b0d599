//! macOS: built and linked, not run.

use super::{has_target, zigbuild, zigbuilt};
use crate::command::{Outcome, root};

/// Descriptions of the system's frameworks that the command uses, which the linker reads in place of an SDK.
const FRAMEWORKS: &str = "xtask/src/platform/frameworks";

/// `cargo xtask platform macos`.
pub(super) fn macos() -> Outcome {
    for triple in ["aarch64-apple-darwin", "x86_64-apple-darwin"] {
        if !has_target(triple) {
            continue;
        }
        let Some(build) = zigbuild("rustc", triple) else { return Ok(()) };
        let frameworks = root().join(FRAMEWORKS);
        build.args(["--", "-C", &format!("link-arg=-F{}", frameworks.display())]).run()?;
        eprintln!("{}: linked, not run", zigbuilt(triple).display());
    }
    Ok(())
}
