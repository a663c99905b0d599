//! Builds the tests in the copy of the repository.

use super::switch::Tree;
use crate::command::{cargo, target};
use crate::json::{field, items, number, text};
use holdall::Value;
use std::path::PathBuf;

/// The packages whose tests are run, in this order, with their test programs. `library` reads and writes files of every
/// format with the public API.
const PROGRAMS: [(&str, &str); 5] = [
    ("holdall-core", "core"),
    ("holdall-core", "holdall_core"),
    ("holdall-io", "holdall_io"),
    ("holdall-formats", "formats"),
    ("holdall", "library"),
];

/// The test programs to build.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    /// The first, which needs the fewest crates.
    First,
    All,
}
/// The features with which the library reads from servers and stores, and into columns.
const FEATURES: &str = "holdall/aio,holdall/derive,holdall/quic,holdall/stores,holdall/tables";

/// A test program, and the folder in which it runs.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) folder: PathBuf,
}

/// The outcome of a build.
pub(super) enum Built {
    Programs(Vec<Program>),
    /// The files and lines of errors.
    Errors(Vec<(String, usize)>),
}

/// Builds the tests.
pub(super) fn tests(tree: &Tree, amount: Amount) -> Result<Built, String> {
    let (kinds, programs): (&[&str], _) = match amount {
        Amount::First => (&["--test", "core"], &PROGRAMS[..1]),
        Amount::All => {
            (&["--lib", "--test", "core", "--test", "formats", "--test", "library"], &PROGRAMS[..])
        }
    };
    // Always all packages, since the features depend on them.
    let mut packages: Vec<&str> = PROGRAMS.iter().map(|(package, _)| *package).collect();
    packages.dedup();
    let out = cargo(["test", "--no-run", "--quiet", "--no-fail-fast", "--message-format=json"])
        .args(packages.iter().flat_map(|package| ["--package", *package]))
        .args(["--features", FEATURES, "--config", "profile.dev.opt-level=1"])
        .args(kinds)
        .env("CARGO_TARGET_DIR", target())
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .within(&tree.folder)
        .any_output()?;
    // A key of rustc's messages looks like one of our own notation for values that JSON lacks.
    let out = out.replace(r#""$message_type":"diagnostic","#, "");
    let messages = out.lines().map(|line| Value::from_json(line, 64).map_err(|e| e.to_string()));
    let messages = messages.collect::<Result<Vec<Value>, _>>()?;
    let mut errors: Vec<(String, usize)> = messages.iter().flat_map(places).collect();
    errors.sort();
    errors.dedup();
    let find = |(package, name): &(&str, &str)| {
        let path = messages.iter().find_map(|m| executable(m, name))?;
        Some(Program { path, folder: tree.folder.join("crates").join(package) })
    };
    match programs.iter().map(find).collect::<Option<Vec<_>>>() {
        Some(programs) if errors.is_empty() => Ok(Built::Programs(programs)),
        _ if errors.is_empty() => Err("the tests cannot be built, and no line is why".to_owned()),
        _ => Ok(Built::Errors(errors)),
    }
}

/// Returns the path of the test program of that name, if the message is about it.
fn executable(message: &Value, name: &str) -> Option<PathBuf> {
    let own = text(field(message, "target")?, "name")?;
    let path = text(message, "executable")?;
    (own == name).then(|| PathBuf::from(path))
}

/// Returns the files and lines of an error.
fn places(message: &Value) -> Vec<(String, usize)> {
    let Some(error) = field(message, "message") else { return Vec::new() };
    if text(error, "level") != Some("error") {
        return Vec::new();
    }
    let spans = items(field(error, "spans")).unwrap_or_default();
    let primary = spans.iter().filter(|s| field(s, "is_primary") == Some(&Value::Bool(true)));
    primary
        .filter_map(|s| Some((text(s, "file_name")?.to_owned(), number(s, "line_start")?)))
        .collect()
}
