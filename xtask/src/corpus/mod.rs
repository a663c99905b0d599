//! The corpus: accepted files, each with the output of `inspect`, and rejected files, each named
//! after the code of its error (`index.bounds.offset-0-1.2.zt` breaks `index/bounds`).
//!
//! Files in `corpus/reject`, and those in `corpus/accept` whose name starts with `made-`, are
//! generated from the tables here and are the same every time. Other accepted files were written
//! by the programs they are named after (see `interop/`) and are kept unchanged.

mod bounds;
mod content;
mod sound;
mod written;
mod zt;

use crate::command::{Outcome, cargo, root};
use crate::tables::TABLES;
use std::collections::BTreeSet;
use std::path::Path;

/// A file of the corpus.
pub(crate) struct Made {
    /// The path below `corpus/`.
    path: String,
    bytes: Vec<u8>,
}

impl Made {
    pub(crate) fn new(path: String, bytes: Vec<u8>) -> Made {
        Made { path, bytes }
    }
}

/// `cargo xtask corpus [--make]`.
pub(crate) fn corpus(args: &[String]) -> Outcome {
    match args {
        [] => {}
        [one] if one == "--make" => make()?,
        _ => return Err("the only option is --make".into()),
    }
    cargo(["test", "--package", "xtask", "corpus"]).run()?;
    let packages = ["--package", "holdall", "--package", "holdall-cli"];
    cargo(["test"]).args(packages).args(["--test", "corpus*"]).run()
}

/// `cargo xtask bless`: writes the output of `inspect` next to every accepted file.
pub(crate) fn bless(_args: &[String]) -> Outcome {
    cargo(["test", "--package", "holdall-cli", "--test", "corpus"]).env("HOLDALL_BLESS", "1").run()
}

/// Writes every generated file, and removes those that are no longer generated.
fn make() -> Outcome {
    let io = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    let corpus = root().join("corpus");
    for stray in strays(&corpus) {
        let path = corpus.join(stray);
        std::fs::remove_file(&path).map_err(|e| io(&path, e))?;
    }
    for made in all() {
        let path = corpus.join(&made.path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| io(folder, e))?;
        }
        std::fs::write(&path, &made.bytes).map_err(|e| io(&path, e))?;
    }
    Ok(())
}

/// Returns every generated file.
fn all() -> Vec<Made> {
    let of_families = TABLES.iter().flat_map(|files| files());
    let mut all: Vec<Made> = of_families.map(|(path, bytes)| Made::new(path, bytes)).collect();
    all.extend(bounds::rejects());
    all.extend(content::rejects());
    all.extend(sound::accepts());
    all.extend(written::accepts());
    all
}

/// Returns files in the corpus whose names mark them as generated, but that no table generates.
fn strays(corpus: &Path) -> Vec<String> {
    let made: BTreeSet<String> = all().into_iter().map(|m| m.path).collect();
    let mut strays = Vec::new();
    for kind in ["accept", "reject"] {
        for folder in corpus.join(kind).read_dir().into_iter().flatten().flatten() {
            for entry in folder.path().read_dir().into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = format!("{kind}/{}/{name}", folder.file_name().to_string_lossy());
                // Those by other writers, or changed from such, have this word in their names.
                let is_refused = kind == "reject" && !name.contains(".golden-");
                let is_ours = is_refused || name.starts_with("made-");
                if is_ours && !made.contains(path.trim_end_matches(".json")) {
                    strays.push(path);
                }
            }
        }
    }
    strays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_holds_what_the_tables_say() {
        let corpus = root().join("corpus");
        let mut paths = BTreeSet::new();
        let remedy = "`cargo xtask corpus --make` writes it";
        for Made { path, bytes } in all() {
            let found = std::fs::read(corpus.join(&path));
            assert!(found.is_ok_and(|found| found == bytes), "{path} is another: {remedy}");
            assert!(bytes.len() <= 64 << 10, "{path} is not small");
            assert!(paths.insert(path.clone()), "{path} comes twice");
        }
        assert_eq!(strays(&corpus), [""; 0], "no table has these: {remedy}");
    }
}
