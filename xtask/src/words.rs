//! Counts overused idioms in text for people: doc comments, messages, help, guides.

use crate::command::{Outcome, program, root};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The file with the maximum number of uses of each idiom.
const ALLOWED: &str = "xtask/words.txt";

/// Names that do not say what an item is.
const NAMES: [&str; 22] = [
    "fn of",
    "fn place",
    "fn told",
    "fn said",
    "fn what",
    "fn which",
    "fn came",
    "struct Part",
    "struct Place",
    "enum Part",
    "enum Place",
    "struct Told",
    "struct Said",
    "struct Of",
    "enum Of",
    "enum What",
    "enum How",
    "let of",
    "let place",
    "let said",
    "let told",
    "fn placed",
];

/// Idioms that make sentences hard to understand. Each is matched as whole words,
/// case-insensitively.
const IDIOMS: [&str; 31] = [
    "what is",
    "so many",
    "told",
    "nobody",
    "somebody",
    "is none",
    "are none",
    "which there is",
    "beside",
    "behind",
    "where there is",
    "where there are",
    "at hand",
    "who asks",
    "says of itself",
    "is asked for",
    "it is there",
    "that is there",
    "of its own accord",
    "on the way",
    "on its way",
    "stands for",
    "what it takes",
    "all that there is",
    "given again",
    "is no valid",
    "kind of place",
    "memory of its own",
    "passed over",
    "row by row",
    "one there is",
];

/// Prints each idiom with its count and fails where a count has grown. `--write` lowers the counts in
/// `xtask/words.txt` to today's; `--list IDIOM` prints the lines.
pub(crate) fn words(args: &[String]) -> Outcome {
    let files = files()?;
    let texts = texts(&files);
    if let [option, idiom] = args
        && option == "--list"
    {
        for (path, number, line) in &texts {
            if occurrences(line, idiom) > 0 {
                println!("{path}:{number}: {line}");
            }
        }
        return Ok(());
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for idiom in IDIOMS {
        let count = texts.iter().map(|(_, _, line)| occurrences(line, idiom)).sum();
        counts.insert(idiom, count);
    }
    for name in NAMES {
        counts.insert(name, definitions(name, &files));
    }
    let allowed = allowed()?;
    let mut grown = Vec::new();
    let mut written = String::new();
    for (idiom, count) in &counts {
        let most = allowed.get(*idiom).copied().unwrap_or(0);
        println!("{count:>5} of {most:>5}  {idiom}");
        if *count > most {
            grown.push(format!("`{idiom}` is used {count} times, {most} are allowed"));
        }
        let kept = allowed.get(*idiom).map_or(*count, |most| *count.min(most));
        writeln!(written, "{kept:>5}  {idiom}").map_err(|e| e.to_string())?;
    }
    if args.first().is_some_and(|a| a == "--write") {
        std::fs::write(root().join(ALLOWED), written).map_err(|e| e.to_string())?;
        return Ok(());
    }
    match grown.as_slice() {
        [] => Ok(()),
        _ => Err(format!(
            "{}; write what a reader without the glossary understands (CONTRIBUTING.md, Words); \
             `cargo xtask words --list IDIOM` shows the lines",
            grown.join("; ")
        )),
    }
}

fn allowed() -> Result<BTreeMap<String, usize>, String> {
    let text = std::fs::read_to_string(root().join(ALLOWED)).unwrap_or_default();
    text.lines()
        .map(|line| {
            let (count, idiom) = line.trim_start().split_once("  ").ok_or_else(|| {
                format!("{ALLOWED}: expected a count and an idiom, found `{line}`")
            })?;
            let count = count.parse().map_err(|e| format!("{ALLOWED}: `{count}`: {e}"))?;
            Ok((idiom.to_owned(), count))
        })
        .collect()
}

/// Returns the paths and texts of the files that are checked.
fn files() -> Result<Vec<(String, String)>, String> {
    let listed = program("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .args(["*.rs", "*.py", "*.pyi", "*.mjs", "*.ts", "*.tsx", "*.md"])
        .output()?;
    // The list of idioms itself, and files with text by other authors.
    let is_read = |path: &&str| {
        *path != "xtask/src/words.rs" && !path.starts_with("corpus/") && *path != "CHANGELOG.md"
    };
    // A file that is deleted but not committed is still listed.
    let read = |path: &str| {
        std::fs::read_to_string(root().join(path)).ok().map(|text| (path.to_owned(), text))
    };
    Ok(listed.lines().filter(is_read).filter_map(read).collect())
}

/// Returns lines of prose with their files and line numbers: comments and strings in code, all
/// lines of pages.
fn texts(files: &[(String, String)]) -> Vec<(&str, usize, String)> {
    let mut out = Vec::new();
    for (path, text) in files {
        let is_page = path.ends_with(".md");
        for (number, line) in text.lines().enumerate() {
            let read = if is_page { line.to_owned() } else { prose(line) };
            if !read.trim().is_empty() {
                out.push((path.as_str(), number + 1, read));
            }
        }
    }
    out
}

/// Returns the prose in a line of code: the comment, or else the strings in double quotes.
fn prose(line: &str) -> String {
    let trimmed = line.trim_start();
    if ["//", "#", "/*", "*"].iter().any(|mark| trimmed.starts_with(mark)) {
        return trimmed.to_owned();
    }
    line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ")
}

/// Returns the number of occurrences of `idiom` in `line`, as whole words.
fn occurrences(line: &str, idiom: &str) -> usize {
    whole_words(&line.to_lowercase(), idiom)
}

/// Returns the number of occurrences of `words` in `line`, as whole words in the same case.
fn whole_words(line: &str, words: &str) -> usize {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(words)
        .filter(|(at, _)| {
            let (before, after) = (line.get(..*at), line.get(at + words.len()..));
            !is_word(before.and_then(|s| s.chars().next_back()))
                && !is_word(after.and_then(|s| s.chars().next()))
        })
        .count()
}

/// Returns the number of definitions of items with that name in the crates.
fn definitions(name: &str, files: &[(String, String)]) -> usize {
    files
        .iter()
        .filter(|(path, _)| path.starts_with("crates/") && path.ends_with(".rs"))
        .flat_map(|(_, text)| text.lines())
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| whole_words(line, name))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::{occurrences, prose};

    #[test]
    fn idioms_are_whole_words() {
        assert_eq!(occurrences("What is told is what is.", "what is"), 2);
        assert_eq!(occurrences("retold, besides", "told"), 0);
        assert_eq!(occurrences("besides", "beside"), 0);
    }

    #[test]
    fn code_is_not_prose() {
        assert_eq!(prose("    let told = 1;"), "");
        assert_eq!(prose("    /// Told."), "/// Told.");
        assert_eq!(prose(r#"    Err("told", x, "twice")"#), "told twice");
    }
}
