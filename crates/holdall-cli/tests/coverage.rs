//! Every command in `docs/spec/coverage.md`, which shows how to do what each specification requires, prints what that
//! page says.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The specifications that the page has rows for.
const DOCUMENTS: [&str; 4] = ["zTensor 0.1", "zTensor 1.0", "zTensor 1.2", "Carton 1"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A row: the requirement, the command, and its expected output.
struct Case {
    demand: String,
    command: String,
    prints: String,
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
            assert!(command.contains("holdall ") && !prints.trim().is_empty(), "{line}");
            out.push(Case {
                demand: demand.to_owned(),
                command: command.to_owned(),
                prints: prints.to_owned(),
            });
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
fn every_command_prints_what_the_page_says() {
    let cases = cases();
    assert!(cases.len() > 200, "{}", cases.len());
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
