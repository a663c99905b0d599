//! Every command in `docs/spec/coverage.md`, which shows how to do what each specification requires, prints what that
//! page says.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The specifications that the page has rows for.
const DOCUMENTS: [&str; 5] =
    ["zTensor 0.1", "zTensor 1.0", "zTensor 1.2", "Metatensor, the concept", "Carton 1"];

/// Pages whose programs a test of another language runs, with that test. A row names one by its heading where no command shows what
/// is demanded, and a line of it.
const PAGES: [(&str, &str); 2] = [
    ("docs/javascript.md", "js/tests/docs.test.ts"),
    ("docs/python.md", "crates/holdall-py/tests/test_docs.py"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A row: the requirement, the command, and its expected output.
struct Case {
    demand: String,
    command: String,
    prints: String,
}

impl Case {
    /// The page and the heading that the row names.
    fn snippet(&self) -> Option<(&str, &str)> {
        self.command.split_once('#').filter(|(page, _)| page.ends_with(".md"))
    }
}

fn cases() -> Vec<Case> {
    let page = std::fs::read_to_string(root().join("docs/spec/coverage.md")).unwrap();
    let mut out = Vec::new();
    for document in page.split("\n## ").skip(1) {
        if !DOCUMENTS.contains(&document.lines().next().unwrap()) {
            continue;
        }
        for line in document.lines().filter(|line| line.starts_with('|')).skip(2) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [_, demand, _, proof, how] = cells[..] else { panic!("not five cells: {line}") };
            if proof.starts_with("later: ") {
                continue;
            }
            let how = how.strip_prefix("formally: ").unwrap_or(how);
            let pair = how.split_once("` → `").unwrap_or_else(|| panic!("no command: {line}"));
            let (command, prints) = (pair.0.strip_prefix('`'), pair.1.strip_suffix('`'));
            let (command, prints) = (command.unwrap_or_default(), prints.unwrap_or_default());
            // An empty command prints nothing and therefore fails; the expected output is not part of the command.
            assert!(!prints.trim().is_empty(), "{line}");
            let case = Case {
                demand: demand.to_owned(),
                command: command.to_owned(),
                prints: prints.to_owned(),
            };
            assert!(command.contains("holdall ") != case.snippet().is_some(), "{line}");
            out.push(case);
        }
    }
    out
}

/// Runs `command` in a shell in the root folder of the repository and returns its output.
fn run(command: &str) -> String {
    let empty = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_holdall")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let ran = Command::new("sh")
        .args(["-c", command])
        .current_dir(root())
        .env("PATH", format!("{}:{path}", binary.display()))
        .env("T", empty.path())
        .env("COLUMNS", "200")
        .env_remove("NO_COLOR")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
}

#[test]
fn every_command_prints_the_documented_output() {
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.snippet().is_none()).collect();
    assert!(cases.len() > 300, "{}", cases.len());
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let printed = run(&case.command);
                    if !printed.contains(&case.prints) {
                        let Case { demand, command, prints } = case;
                        let what = format!("{demand}:\n{command}\nlacks {prints:?} in\n{printed}");
                        wrong.lock().unwrap().push(what);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    // A command that does nothing prints none of the expected outputs.
    let nothing = run("");
    assert!(cases.iter().all(|case| !nothing.contains(&case.prints)));
}

/// The programs below a heading of a page, up to the next heading of any level.
fn programs(page: &str, heading: &str) -> String {
    let (mut is_below, mut is_code, mut out) = (false, false, String::new());
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_code = !is_code && ["ts", "tsx", "python"].contains(&language);
        } else if !is_code && line.starts_with('#') {
            is_below = line.trim_start_matches('#').trim() == heading;
        } else if is_code && is_below {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// A line that checks something: an assertion, or a printed value with its output as a comment.
fn checks(line: &str) -> bool {
    line.starts_with("console.log(")
        && line.split_once(") // ").is_some_and(|(_, out)| !out.is_empty())
        || line.contains("assert ")
        || line.starts_with("jsonschema.validate(")
}

#[test]
fn every_program_that_the_page_names_is_run_and_has_the_line() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let mut wrong = Vec::new();
    for case in cases() {
        let Some((page, heading)) = case.snippet() else { continue };
        let Some((_, test)) = PAGES.iter().find(|(name, _)| *name == page) else {
            wrong.push(format!("{}: nothing runs the programs of {page}", case.demand));
            continue;
        };
        // The test has the name of the page, and so runs it.
        assert!(read(test).contains(page), "{test} does not run {page}");
        let programs = programs(&read(page), heading);
        let Some(at) = programs.lines().position(|line| line.trim() == case.prints) else {
            wrong.push(format!("{}: `{heading}` of {page} lacks {}", case.demand, case.prints));
            continue;
        };
        if !programs.lines().skip(at).any(|line| checks(line.trim())) {
            wrong.push(format!("{}: nothing is checked after {}", case.demand, case.prints));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}
