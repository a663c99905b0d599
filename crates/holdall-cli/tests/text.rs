//! Text output for people, and lines for scripts.

use crate::command::{accept, command, holdall};
use std::io::Read as _;
use std::process::Stdio;

#[test]
fn a_pipe_gets_no_colours_unless_it_asks() {
    let path = accept("ztensor/v1.2-sparse.zt");
    assert!(!holdall(["inspect", &path]).ends_with(0).out.contains('\u{1b}'));
    let found = holdall(["inspect", &path, "--color", "always"]).ends_with(0);
    assert!(found.out.contains("\u{1b}["));
    let found = holdall(["inspect", "no-such-file"]);
    assert!(found.err.starts_with("error: no-such-file: "), "{found:?}");
    let found = holdall(["inspect", "no-such-file", "--color=always"]);
    assert!(found.err.starts_with("\u{1b}["), "{found:?}");
}

#[test]
fn the_listing_describes_the_file() {
    let found = holdall(["inspect", &accept("ztensor/v1.2-append.zt")]).ends_with(0);
    for text in [
        "zTensor 1.2.0",
        "2.54 kB (2535 bytes)",
        "5, 2127 parameters",
        "a = kept",
        "q0               i32    [64, 32]  1.28 kB  quantized_group  raw       -\n",
        "aaa_sorts_first  i32    [2]          17 B  dense            zstd      sha256:cc13ac69…\n",
        "5 tensors, 1.43 kB",
        "mapped",
    ] {
        assert!(found.out.contains(text), "`{text}` is not in\n{}", found.out);
    }
    assert!(found.out.lines().all(|l| !l.ends_with(' ')), "{}", found.out);
    let found = holdall(["ls", &accept("ztensor/v1.2-append.zt"), "--io", "read"]).ends_with(0);
    assert!(found.out.contains("read by position"), "{}", found.out);
}

#[test]
fn plain_lines_have_eight_fields() {
    let found = holdall(["inspect", "--plain", &accept("ztensor/v1.2-append.zt")]).ends_with(0);
    let lines: Vec<&str> = found.out.lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[1], "first\tf32\t[3]\t12\tdense\traw\t-\t64");
    assert!(lines.iter().all(|l| l.split('\t').count() == 8), "{lines:?}");
    let sha = "sha256:cc13ac69";
    assert!(lines[0].contains(sha) && lines[0].split('\t').nth(6).unwrap().len() == 71);
}

#[test]
fn help_and_version_are_data() {
    let found = holdall(["--version"]).ends_with(0);
    assert!(found.out.starts_with("holdall ") && found.err.is_empty());
    let found = holdall(["--help"]).ends_with(0);
    assert!(found.out.contains("inspect") && found.err.is_empty());
    for command in ["inspect", "rules", "formats", "completions", "man"] {
        let found = holdall([command, "--help"]).ends_with(0);
        assert!(found.out.contains(&format!("Usage: holdall {command}")), "{found:?}");
    }
}

#[test]
fn completions_and_manual_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let found = holdall(["completions", shell]).ends_with(0);
        assert!(found.out.contains("inspect"), "{shell}");
    }
    assert!(holdall(["man"]).ends_with(0).out.contains("holdall\\-inspect"));
    let dir = tempfile::tempdir().unwrap();
    holdall(["man", "--dir", dir.path().to_str().unwrap()]).ends_with(0);
    assert!(dir.path().join("holdall-inspect.1").exists());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    // More than a pipe's capacity.
    let paths: Vec<String> = std::iter::repeat_n(accept("ztensor/v1.2-sparse.zt"), 200).collect();
    let args = ["inspect".to_owned(), "--json".to_owned()].into_iter().chain(paths);
    let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 10]).unwrap();
    drop(out);
    let done = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stderr), "");
    assert_eq!(done.status.code(), Some(0));
}
