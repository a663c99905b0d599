//! The licences of others' crates: whether all are permitted, and their texts for those who receive an artifact.

use super::graph::{Crate, Graph, graph};
use super::targets::TARGETS;
use super::tools;
use crate::command::{Outcome, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Fails if a crate in the command or in the Python package, for any target, has no licence that `deny.toml` permits.
pub(super) fn check() -> Outcome {
    let permitted = permitted()?;
    let mut refused = BTreeSet::new();
    for target in &TARGETS {
        for package in ["holdall-cli", "holdall-py"] {
            let crates = graph("Cargo.toml", package, target.triple)?.all.into_keys();
            refused.extend(crates.filter(|one| !is_permitted(&one.licence, &permitted)));
        }
    }
    let refused: Vec<_> = refused
        .iter()
        .map(|one| format!("{} {}: {}", one.name, one.version, one.licence))
        .collect();
    match refused.is_empty() {
        true => Ok(()),
        false => Err(format!("licences that deny.toml does not permit:\n{}", refused.join("\n"))),
    }
}

/// Returns the licences that `deny.toml` permits.
fn permitted() -> Result<Vec<String>, String> {
    let path = root().join("deny.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let list = text.split_once("\nallow = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.ok_or("deny.toml has no list `allow`")?;
    Ok(list.split(',').map(|one| one.trim().trim_matches('"').to_owned()).collect())
}

/// Returns whether an SPDX expression can be met with permitted licences alone. `AND` binds more tightly than `OR`.
fn is_permitted(expression: &str, permitted: &[String]) -> bool {
    let text = expression.replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "+");
    let words: Vec<_> = text.split_whitespace().map(|word| word.replace('+', " WITH ")).collect();
    let mut at = 0;
    let is_met = either(&words, &mut at, permitted);
    is_met && at == words.len()
}

fn either(words: &[String], at: &mut usize, permitted: &[String]) -> bool {
    let mut is_met = all(words, at, permitted);
    while words.get(*at).is_some_and(|word| word == "OR") {
        *at += 1;
        is_met |= all(words, at, permitted);
    }
    is_met
}

fn all(words: &[String], at: &mut usize, permitted: &[String]) -> bool {
    let mut is_met = one(words, at, permitted);
    while words.get(*at).is_some_and(|word| word == "AND") {
        *at += 1;
        is_met &= one(words, at, permitted);
    }
    is_met
}

fn one(words: &[String], at: &mut usize, permitted: &[String]) -> bool {
    let word = words.get(*at).map(String::as_str);
    *at += 1;
    match word {
        Some("(") => {
            let is_met = either(words, at, permitted);
            *at += 1;
            is_met
        }
        Some(word) => permitted.iter().any(|own| own == word),
        None => false,
    }
}

/// Returns a text with the licences of all crates of others in an artifact: each text once, after the crates that have it.
pub(super) fn of_others(graph: &Graph) -> Result<String, String> {
    let mut by_text: BTreeMap<String, Vec<&Crate>> = BTreeMap::new();
    let mut without = Vec::new();
    for one in graph.all.keys().filter(|one| !one.is_own) {
        let texts = texts(one);
        if texts.is_empty() {
            without.push(one);
        }
        texts.into_iter().for_each(|text| by_text.entry(text).or_default().push(one));
    }
    let mut out = "Holdall contains the following works of others, under the licences that follow their names.\n".to_owned();
    let line = |one: &Crate| format!("{} {} ({})\n", one.name, one.version, one.licence);
    let mut blocks: Vec<_> = by_text.into_iter().collect();
    blocks.sort_by(|(_, a), (_, b)| b.len().cmp(&a.len()).then(a.cmp(b)));
    for (text, crates) in blocks {
        let _ = write!(out, "\n{}\n\n", "=".repeat(80));
        crates.into_iter().for_each(|one| out.push_str(&line(one)));
        let _ = write!(out, "\n{text}");
    }
    if !without.is_empty() {
        let _ = write!(out, "\n{}\n\nWithout a text of their own:\n\n", "=".repeat(80));
        without.into_iter().for_each(|one| out.push_str(&line(one)));
    }
    Ok(out)
}

/// Returns the licences and notices in a crate, as they are, but for ends of lines.
fn texts(one: &Crate) -> Vec<String> {
    let folder = source(one);
    let entries = folder.and_then(|folder| folder.read_dir().ok()).into_iter().flatten().flatten();
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let starts = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT"];
        path.is_file() && starts.iter().any(|start| name.starts_with(start))
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(is_licence).collect();
    paths.sort();
    let text = |path: PathBuf| {
        let text = String::from_utf8_lossy(&std::fs::read(path).ok()?).replace('\r', "");
        let lines: Vec<_> = text.trim().lines().map(str::trim_end).collect();
        Some(lines.join("\n") + "\n")
    };
    paths.into_iter().filter_map(text).collect()
}

/// Returns the folder in which cargo has the source of a crate.
fn source(one: &Crate) -> Option<PathBuf> {
    let registries = tools::registry().read_dir().ok()?.flatten();
    let name = format!("{}-{}", one.name, one.version);
    registries.map(|entry| entry.path().join(&name)).find(|path| path.is_dir())
}

#[cfg(test)]
mod tests {
    use super::is_permitted;

    #[test]
    fn expressions_are_met_by_permitted_licences_alone() {
        let own = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for met in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT AND ISC",
            "(GPL-3.0 OR MIT) AND ISC",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-3.0 AND ISC OR MIT",
        ] {
            assert!(is_permitted(met, &own), "{met}");
        }
        for refused in
            ["GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR MIT) AND X", "Apache-2.0", "", "MIT MIT"]
        {
            assert!(!is_permitted(refused, &own), "{refused}");
        }
    }
}
