//! The commands in the documents print what the documents show.
//!
//! Every block fenced as `console` is run; a document's blocks run in order in one folder. `HOLDALL_BLESS=1 cargo test
//! -p holdall-cli --test cli docs::` writes the actual output into the documents.

use crate::command;
use std::path::{Path, PathBuf};

/// A line that matches any number of lines of output.
const ANY: &str = "…";

#[test]
fn the_readme_shows_the_commands_output() {
    check("README.md");
}

#[test]
fn the_guide_shows_the_commands_output() {
    check("docs/guide.md");
}

#[test]
fn the_command_page_shows_the_commands_output() {
    check("docs/cli.md");
}

#[test]
fn the_sampling_page_shows_the_commands_output() {
    check("docs/sampling.md");
}

#[test]
fn the_llama_cpp_page_shows_the_commands_output() {
    check("docs/llama-cpp.md");
}

/// Areas of rules about calls of the library and the command, rather than about files or network protocols: they are
/// described in the guide, in the page of the command, and in the library's documentation.
const ABOUT_CALLS: [&str; 14] = [
    "build", "convert", "edit", "extract", "file", "input", "io", "output", "records", "select",
    "usage", "view", "work", "write",
];

#[test]
fn the_specification_names_every_rule() {
    let mut spec = String::new();
    for entry in std::fs::read_dir(root().join("docs/spec")).unwrap() {
        let path = entry.unwrap().path();
        // That page only refers to the other documents.
        if !path.ends_with("coverage.md") {
            spec.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    let rules = command::holdall(["rules", "--json"]).ends_with(0).json();
    let codes = rules.as_array().unwrap().iter().map(|rule| rule["code"].as_str().unwrap());
    let missing: Vec<&str> = codes.filter(|code| !spec.contains(&format!("`{code}`"))).collect();
    let area = |code: &str| code.split('/').next().unwrap().to_owned();
    let unspoken: Vec<&&str> =
        missing.iter().filter(|code| !ABOUT_CALLS.contains(&&*area(code))).collect();
    assert!(unspoken.is_empty(), "docs/spec does not speak of {unspoken:?}");
    for excused in ABOUT_CALLS {
        assert!(missing.iter().any(|code| area(code) == excused), "{excused} needs no excuse");
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the commands of a document and compares their output with the document, or writes it into the document.
#[track_caller]
fn check(document: &str) {
    let path = root().join(document);
    let Ok(text) = std::fs::read_to_string(&path) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut files: Vec<String> = [
        "examples/tiny.zt",
        "examples/tiny2.json",
        "corpus/reject/ztensor/index.overlap.in-part.zt",
        "corpus/reject/pytorch/pytorch.global.system.pt",
    ]
    .map(str::to_owned)
    .to_vec();
    let folders = ["examples/photos", "examples/photos/files", "examples/xor"];
    for photos in folders.into_iter().chain([
        "examples/xor/model",
        "examples/xor/tensor_data",
        "corpus/recipes/llama3-bpe",
        "corpus/updates/versions/base",
        "corpus/updates/versions/updates/weight_v000001",
        "corpus/updates/versions/updates/weight_v000002",
        "corpus/updates/versions/updates/weight_v000003",
        "corpus/updates/versions/updates/weight_v000004",
    ]) {
        for entry in std::fs::read_dir(root().join(photos)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                files.push(format!("{photos}/{}", entry.file_name().to_str().unwrap()));
            }
        }
    }
    for file in &files {
        let there = folder.path().join(file);
        std::fs::create_dir_all(there.parent().unwrap()).unwrap();
        std::fs::copy(root().join(file), there).unwrap();
    }

    let mut shell = Shell { folder: folder.path(), status: 0 };
    let mut written = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        push(&mut written, line);
        if line != "```console" {
            continue;
        }
        while let Some(line) = lines.next_if(|line| *line != "```") {
            push(&mut written, line);
            let Some(typed) = line.strip_prefix("$ ") else {
                panic!("{document}: a console block starts with `$ `, not `{line}`");
            };
            let mut expected = Vec::new();
            while let Some(line) = lines.next_if(|line| *line != "```" && !line.starts_with("$ ")) {
                expected.push(line);
            }
            let printed = shell.run(typed);
            let found: Vec<&str> = printed.lines().map(str::trim_end).collect();
            if std::env::var_os("HOLDALL_BLESS").is_some() && !expected.contains(&ANY) {
                found.iter().for_each(|line| push(&mut written, line));
                continue;
            }
            expected.iter().for_each(|line| push(&mut written, line));
            assert!(
                fits(&expected, &found),
                "{document}: `{typed}` prints\n{}\nand not\n{}",
                found.join("\n"),
                expected.join("\n")
            );
        }
    }
    if written != text {
        std::fs::write(path, written).unwrap();
    }
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Whether `found` matches the expected lines, where [`ANY`] matches any number of lines.
fn fits(expected: &[&str], found: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((&ANY, rest)) => (0..=found.len()).any(|skipped| fits(rest, &found[skipped..])),
        Some((first, rest)) => {
            found.split_first().is_some_and(|(line, left)| line == first && fits(rest, left))
        }
    }
}

/// The subset of a shell that the documents use.
struct Shell<'a> {
    folder: &'a Path,
    status: i32,
}

impl Shell<'_> {
    /// Returns the output of a command: standard output, then standard error.
    fn run(&mut self, typed: &str) -> String {
        let words = words(typed);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["holdall", ref args @ ..] => {
                let ran = command::command(args).current_dir(self.folder).output().unwrap();
                self.status = ran.status.code().unwrap_or(-1);
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                text(&ran.stdout) + &text(&ran.stderr)
            }
            ["cp", from, to] => {
                std::fs::copy(self.folder.join(from), self.folder.join(to)).unwrap();
                String::new()
            }
            ["echo", "$?"] => format!("{}\n", self.status),
            _ => panic!("the docs use a command that this test does not know: {typed}"),
        }
    }
}

/// Splits a command into words, some of them in single quotes.
fn words(typed: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in typed.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}
