//! The output of `holdall inspect --json --digests` for every accepted file of the corpus equals `<file>.json` next to
//! it, which is formatted for reading. `cargo xtask bless` writes those files.

mod command;

use command::{command, files};
use std::path::Path;

#[test]
fn corpus_files_match_their_descriptions() {
    let bless = std::env::var_os("HOLDALL_BLESS").is_some();
    let mut differ = Vec::new();
    for path in files("accept") {
        let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap());
        let found = command(["inspect", "--json", "--digests"])
            .arg(name)
            .current_dir(folder)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&found.stderr);
        assert!(found.status.success() && error.is_empty(), "{}: {error}", path.display());
        let text = lay_out(std::str::from_utf8(&found.stdout).unwrap());
        let dump = format!("{}.json", path.display());
        let is_same = std::fs::read(&dump).is_ok_and(|kept| kept == text.as_bytes());
        if bless && !is_same {
            std::fs::write(&dump, text).unwrap();
        } else if !is_same {
            differ.push(dump);
        }
    }
    assert!(
        differ.is_empty(),
        "not as `inspect` says: {differ:#?}\n`cargo xtask bless` writes them"
    );
}

/// Formats the JSON with one line per field of a tensor and per component; numbers stay as written.
fn lay_out(json: &str) -> String {
    const DEEPEST: usize = 4;
    let mut out = String::new();
    let (mut open, mut in_text, mut escaped) = (Vec::new(), false, false);
    let mut chars = json.trim().chars().peekable();
    while let Some(c) = chars.next() {
        if in_text {
            in_text = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            out.push(c);
            continue;
        }
        in_text = c == '"';
        let next = chars.peek().copied().unwrap_or_default();
        if matches!(c, '}' | ']') && open.pop() == Some(true) {
            out.push('\n');
            out.push_str(&" ".repeat(open.len()));
        }
        out.push(c);
        if matches!(c, '{' | '[') {
            // Objects and arrays of objects get line breaks, unless they are empty or deeply nested.
            let breaks = c == '{' || next == '{';
            open.push(breaks && open.len() < DEEPEST && !matches!(next, '}' | ']'));
        }
        if matches!(c, '{' | '[' | ',') && open.last() == Some(&true) {
            out.push('\n');
            out.push_str(&" ".repeat(open.len()));
        } else if matches!(c, ',' | ':') {
            out.push(' ');
        }
    }
    out.push('\n');
    out
}

#[test]
fn corpus_has_a_file_for_every_description() {
    let root = command::corpus().join("accept");
    for folder in root.read_dir().unwrap() {
        for entry in folder.unwrap().path().read_dir().unwrap() {
            let path = entry.unwrap().path();
            let text = path.to_str().unwrap();
            let of = text.strip_suffix(".expect.json").or_else(|| text.strip_suffix(".json"));
            assert!(of.is_none_or(|of| Path::new(of).exists()), "{text} describes nothing");
        }
    }
}

/// In text output too, no content of a file breaks the table or reaches the terminal as a control character.
#[test]
fn corpus_files_can_be_looked_into() {
    for path in files("accept") {
        for args in [&["inspect"][..], &["inspect", "--plain"], &["inspect", "--all"]] {
            let found = command(args).arg(&path).output().unwrap();
            let error = String::from_utf8_lossy(&found.stderr);
            assert!(found.status.success(), "{args:?} {}: {error}", path.display());
            let text = String::from_utf8(found.stdout).expect("text is UTF-8");
            let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
            assert!(!text.contains(is_odd), "{args:?} {}: {text:?}", path.display());
        }
    }
}
