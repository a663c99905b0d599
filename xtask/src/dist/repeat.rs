//! The command built a second time, elsewhere: its bytes must not depend on the folder or on what was built there before.

use super::commands::arguments;
use super::targets::Target;
use super::{Release, bytes, sha256, tools};
use crate::command::{Outcome, cargo, program, root, target};
use crate::js::{PAGE, VIEWER};
use std::path::Path;

/// Builds the command for a target in a fresh clone, and fails unless it has the bytes of `first`.
pub(super) fn repeat(release: &Release, of: &Target, first: &Path) -> Outcome {
    let clone = target().join("dist-again/another folder");
    let _ = std::fs::remove_dir_all(&clone);
    let [from, to] = [root(), clone.as_path()].map(|path| path.display().to_string());
    program("git").args(["clone", "--quiet", "--no-local", &from, &to]).run()?;
    for name in PAGE.map(|name| format!("{VIEWER}/{name}.gz")) {
        std::fs::copy(root().join(&name), clone.join(&name)).map_err(|e| format!("{name}: {e}"))?;
    }
    let python = tools::python()?;
    let built = clone.join("target");
    let run = cargo(arguments(release, of)).within(&clone);
    tools::environment(release, of, run, &clone)?
        .env("PATH", tools::path(&python)?)
        .env("CARGO_TARGET_DIR", &built)
        .run()?;
    let second = built.join(of.triple).join(release.profile()).join(of.command());
    let [one, other] = [first, &second].map(|path| bytes(path).map(|bytes| sha256(&bytes)));
    let (one, other) = (one?, other?);
    match one == other {
        true => {
            eprintln!("{}: twice the same bytes, {one}", of.triple);
            Ok(())
        }
        false => Err(format!("{} and {} differ", first.display(), second.display())),
    }
}
