//! The crates that an artifact is made of, as `cargo tree` and the lock file name them.

use crate::command::{cargo, root};
use std::collections::{BTreeMap, BTreeSet};

/// A crate, at a version.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: String,
    /// Its licence as an SPDX expression.
    pub(super) licence: String,
    /// Whether it is one of this repository.
    pub(super) is_own: bool,
}

impl Crate {
    /// Returns the package URL.
    pub(super) fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// The crates of an artifact, each with those that it depends on.
pub(super) struct Graph {
    /// The crate of the artifact itself.
    pub(super) top: Crate,
    pub(super) all: BTreeMap<Crate, BTreeSet<Crate>>,
}

/// Returns the crates that are linked into `package` of the workspace at `manifest` for a target, with its default features. Crates
/// that only its build needs are not among them.
pub(super) fn graph(manifest: &str, package: &str, triple: &str) -> Result<Graph, String> {
    let format = ["--prefix", "depth", "--no-dedupe", "--format", "|{p}|{l}"];
    let text = cargo(["tree", "--locked", "--edges", "normal", "--target", triple])
        .args(["--manifest-path", manifest, "--package", package])
        .args(format)
        .output()?;
    let mut all: BTreeMap<Crate, BTreeSet<Crate>> = BTreeMap::new();
    // The crates from the top down to the line before.
    let mut above: Vec<Crate> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (depth, one) = parse(line).ok_or_else(|| format!("cargo tree: {line}"))?;
        above.truncate(depth);
        if let Some(user) = above.last() {
            all.entry(user.clone()).or_default().insert(one.clone());
        }
        all.entry(one.clone()).or_default();
        above.push(one);
    }
    let top = above.into_iter().next().ok_or_else(|| format!("{package}: cargo tree is empty"))?;
    Ok(Graph { top, all })
}

/// Returns the depth and the crate of a line such as `2|half v2.7.1|MIT OR Apache-2.0`.
fn parse(line: &str) -> Option<(usize, Crate)> {
    let mut parts = line.splitn(3, '|');
    let depth = parts.next()?.parse().ok()?;
    let (package, licence) = (parts.next()?, parts.next()?);
    let mut words = package.split(' ');
    let (name, version) = (words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned());
    // Crates of this repository have a path after the version; `(proc-macro)` marks macros.
    let is_own = words.any(|word| word.starts_with('(') && word != "(proc-macro)");
    // The old way to write `OR`.
    let licence = licence.trim().replace(" / ", " OR ").replace('/', " OR ");
    Some((depth, Crate { name, version, licence, is_own }))
}

/// Returns the SHA-256 of each crate of a lock file, by name and version.
pub(super) fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>, String> {
    let path = root().join(lock);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let field = |block: &str, key: &str| {
        let prefix = format!("{key} = \"");
        block.lines().find_map(|l| Some(l.strip_prefix(&prefix)?.trim_end_matches('"').to_owned()))
    };
    let blocks = text.split("[[package]]");
    let one = |block: &str| {
        Some(((field(block, "name")?, field(block, "version")?), field(block, "checksum")?))
    };
    Ok(blocks.filter_map(one).collect())
}
