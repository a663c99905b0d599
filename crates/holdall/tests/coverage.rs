//! `docs/spec/coverage.md` is correct: each demand of the published documents has a proof or says `later`,
//! and everything that proofs name exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(root().join(path)).ok()
}

/// Returns the page, split at the headings of its documents: first the text before them.
fn page() -> Vec<String> {
    let text = read("docs/spec/coverage.md").unwrap();
    text.split("\n## ").map(str::to_owned).collect()
}

/// Returns the cells of the rows of a table, without its header.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with('|'));
    let cells = |line| {
        let inside: &str = line;
        inside.trim_matches('|').split('|').map(str::trim).collect()
    };
    lines.skip(2).map(cells).collect()
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn is_later(proof: &str) -> bool {
    proof.strip_prefix("later: ").is_some_and(|missing| !missing.is_empty())
}

/// Returns `true` if the demand is met in another way than the document says.
fn is_deviation(proof: &str) -> bool {
    proof.strip_prefix("deviation: ").is_some_and(|why| !why.is_empty())
}

/// Returns the codes of rules, and of warnings, which the specification lists in tables.
fn codes() -> BTreeSet<String> {
    let mut pages = vec![read("docs/rules.md").unwrap()];
    for entry in std::fs::read_dir(root().join("docs/spec")).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("coverage.md") {
            pages.push(std::fs::read_to_string(path).unwrap());
        }
    }
    let listed = pages.iter().flat_map(|page| page.lines()).filter_map(|line| {
        let (code, _) = line.strip_prefix("| `")?.split_once("` |")?;
        code.contains('/').then(|| code.to_owned())
    });
    listed.chain(holdall::rules().map(|rule| rule.code.to_owned())).collect()
}

fn is_code(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.split_once('/').is_some_and(|(area, what)| {
        [area, what].iter().all(|part| !part.is_empty() && part.chars().all(is_word))
    })
}

/// Returns `true` if `file` has a test with that name that is run.
fn has_test(file: &str, name: &str) -> bool {
    let Some(text) = read(file) else { return false };
    if file.ends_with(".py") {
        return name.starts_with("test_") && text.contains(&format!("def {name}("));
    }
    if file.ends_with(".ts") || file.ends_with(".tsx") {
        return ['\'', '"'].iter().any(|q| text.contains(&format!("\ntest({q}{name}{q}, ")));
    }
    let Some(at) = text.find(&format!("fn {name}(")) else { return false };
    let attributes = text[..at].rsplit_once("#[test]").map(|(_, between)| between);
    attributes.is_some_and(|between| !between.contains("fn ") && !between.contains("#[ignore"))
}

/// Returns `true` if there is a file with that path, in which `*` matches any characters of the name.
fn has_file(path: &str) -> bool {
    let Some((start, end)) = path.split_once('*') else { return root().join(path).is_file() };
    let (folder, start) = start.rsplit_once('/').unwrap();
    let Ok(entries) = std::fs::read_dir(root().join(folder)) else { return false };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.into_iter().any(|name| {
        name.strip_prefix(start).is_some_and(|rest| rest.len() > end.len() && rest.ends_with(end))
    })
}

fn is_there(proof: &str) -> bool {
    match (proof.split_once("::"), proof.split_once('#')) {
        (Some((file, name)), _) => has_test(file, name),
        (None, Some((file, name))) => {
            read(file).is_some_and(|text| text.contains(&format!("\"name\": \"{name}\"")))
        }
        (None, None) => proof.starts_with("corpus/") && has_file(proof),
    }
}

#[test]
fn every_row_has_an_existing_proof_or_says_later() {
    let codes = codes();
    let mut wrong = Vec::new();
    let page = page();
    assert_eq!(page.len(), 1 + 5, "a section for each of five documents");
    for document in &page[1..] {
        let rows = rows(document);
        assert!(rows.len() > 30, "{document}");
        for row in rows {
            // The last cell says how a user does it, which `coverage.rs` of the command tests.
            let [section, demand, place, proof, ..] = row[..] else {
                wrong.push(format!("not four cells: {row:?}"));
                continue;
            };
            if section.is_empty() || demand.is_empty() {
                wrong.push(format!("of no section, or without a demand: {row:?}"));
            }
            let unknown = quoted(place).filter(|text| is_code(text) && !codes.contains(*text));
            wrong.extend(unknown.map(|code| format!("{demand}: there is no rule `{code}`")));
            // A missing demand may be described in any words; a proof must name something.
            let is_named = |text: &&str| {
                !is_later(proof) || text.starts_with("corpus/") || text.starts_with("crates/")
            };
            let missing = quoted(proof).filter(is_named).filter(|text| !is_there(text));
            wrong.extend(missing.map(|proof| format!("{demand}: there is no {proof}")));
            if !is_later(proof) && (quoted(proof).next().is_none() || place.is_empty()) {
                wrong.push(format!("{demand}: neither a place with a proof, nor what is missing"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} things:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn rows_are_counted_at_the_top() {
    let page = page();
    let count = |document: &String| {
        let rows = rows(document);
        let of = |is: fn(&str) -> bool| rows.iter().filter(|row| is(row[3])).count();
        let (later, other) = (of(is_later), of(is_deviation));
        [rows.len(), rows.len() - later - other, other, later]
    };
    let title = |document: &String| document.lines().next().unwrap().to_owned();
    let mut wanted: BTreeMap<String, [usize; 4]> =
        page[1..].iter().map(|document| (title(document), count(document))).collect();
    let all = wanted.values().fold([0; 4], |sum, n| std::array::from_fn(|i| sum[i] + n[i]));
    wanted.insert("all".to_owned(), all);
    let stated: BTreeMap<String, [usize; 4]> = rows(&page[0])
        .iter()
        .map(|row| {
            (row[0].to_owned(), std::array::from_fn(|i| row[i + 1].parse().unwrap_or(usize::MAX)))
        })
        .collect();
    assert_eq!(stated, wanted);
}
