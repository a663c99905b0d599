//! All that must pass before a change lands.

use crate::command::{Outcome, cargo};
use crate::{check, docs, fuzz, interop, sizes};

/// `cargo xtask test`: the quick checks first, the tests last.
pub(crate) fn all(_args: &[String]) -> Outcome {
    sizes::sizes(&[])?;
    docs::write(&["--check".to_owned()])?;
    check::check(&[])?;
    check::features(&[])?;
    hostile_as_released()?;
    fuzz::smoke(&[])?;
    interop::interop(&[])?;
    cargo(["test", "--workspace"]).run()
}

/// What hostile bytes do must be the same where arithmetic is not checked for overflow.
fn hostile_as_released() -> Outcome {
    cargo(["test", "--profile", "hostile", "--package", "holdall-core"]).run()?;
    cargo(["test", "--profile", "hostile", "--package", "holdall"])
        .args(["--test", "corpus*", "--test", "truncate", "--test", "windowed"])
        .run()
}
