//! The list of public items of the crate `holdall`, in the tree, so that changes of the API are
//! visible in reviews.

use crate::check::looks;
use crate::command::{Outcome, cargo, program, root, target};
use crate::interop::skipped;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The workspace of the program that reads rustdoc's JSON.
pub(crate) const MANIFEST: &str = "xtask/public-api/Cargo.toml";
const LIST: &str = "crates/holdall/public-api.txt";

/// `cargo xtask public-api [--write]`.
pub(crate) fn public_api(args: &[String]) -> Outcome {
    let write = match args {
        [] => false,
        [one] if one == "--write" => true,
        _ => return Err("the only option is --write".into()),
    };
    let Some(found) = listed()? else { return Ok(()) };
    let path = root().join(LIST);
    if write {
        return std::fs::write(&path, found).map_err(|e| format!("{LIST}: {e}"));
    }
    let kept = std::fs::read_to_string(&path).map_err(|e| format!("{LIST}: {e}"))?;
    compare(&kept, &found)
}

/// Returns the list for the current code; `None` if the required tools are not available.
fn listed() -> Result<Option<String>, String> {
    if cargo(["fetch", "--quiet", "--locked", "--manifest-path", MANIFEST]).run().is_err() {
        skipped("public items, for the crate `public-api` cannot be had");
        return Ok(None);
    }
    let reader = reader()?;
    let json = json(&reader)?;
    if !program(&reader).args([Path::new("--is-known"), &json]).succeeds() {
        skipped("public items, for the JSON of this toolchain's rustdoc has another version");
        return Ok(None);
    }
    program(&reader).args([&json]).output().map(Some)
}

/// Builds the program that reads rustdoc's JSON, and returns its path.
fn reader() -> Result<PathBuf, String> {
    let folder = target().join("tools");
    cargo(["build", "--quiet", "--locked", "--manifest-path", MANIFEST])
        .env("CARGO_TARGET_DIR", &folder)
        .run()?;
    let name = format!("holdall-public-api{}", std::env::consts::EXE_SUFFIX);
    Ok(folder.join("debug").join(name))
}

/// Runs rustdoc for the crate with all features. The reader replaces rustdoc: see there.
fn json(reader: &Path) -> Result<PathBuf, String> {
    let rustdoc = std::env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    looks("rustdoc")
        .args(["--quiet", "--package", "holdall", "--lib", "--all-features"])
        .args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"])
        .env("HOLDALL_RUSTDOC", rustdoc)
        .env("RUSTDOC", reader)
        .run()?;
    Ok(target().join("looked-at/doc/holdall.json"))
}

/// Compares two lists line by line, independent of the order.
fn compare(kept: &str, found: &str) -> Outcome {
    let (kept, found): (BTreeSet<_>, BTreeSet<_>) =
        (kept.lines().collect(), found.lines().collect());
    if kept == found {
        return Ok(());
    }
    kept.difference(&found).for_each(|line| eprintln!("- {line}"));
    found.difference(&kept).for_each(|line| eprintln!("+ {line}"));
    Err(format!(
        "{LIST} differs from the code: if that is meant, run `cargo xtask public-api --write`"
    ))
}
