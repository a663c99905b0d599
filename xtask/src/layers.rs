//! The rules of layering: dependencies that only point down, and pure crates that do not access
//! the system.

use crate::command::{Outcome, cargo, root};
use crate::derived::families;
use crate::json::{field, items, text};
use crate::tokens::{Token, tokens};
use holdall::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Crates without I/O, clock, environment or threads.
const PURE: [&str; 8] = [
    "holdall-collections",
    "holdall-error",
    "holdall-json",
    "holdall-schema",
    "holdall-core",
    "holdall-package",
    "holdall-models",
    "holdall-formats",
];

/// Modules of the standard library that pure crates do not use, including glob imports and aliases. Types, functions and
/// macros are refused by Clippy (`crates/clippy.toml`).
const FORBIDDEN: [&str; 9] = ["env", "fs", "net", "os", "process", "thread", "time", "*", "self"];

/// The folder of the formats, and the files that each of them has. Formats that can be written
/// also have `encode.rs`.
const FORMATS: &str = "crates/holdall-formats/src";
const FILES: [&str; 4] = ["mod.rs", "detect.rs", "decode.rs", "rules.rs"];
/// Formats whose rules are in `holdall-package`, with the semantics of packages.
const RULES_ELSEWHERE: [&str; 1] = ["carton"];

/// `cargo xtask layers`.
pub(crate) fn layers(_args: &[String]) -> Outcome {
    let architecture = root().join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&architecture);
    let text = text.map_err(|e| format!("{}: {e}", architecture.display()))?;
    let mut wrong = arrows(&drawing(&text)?, &dependencies()?);
    wrong.extend(folders()?);
    for name in PURE {
        for path in sources(&root().join("crates").join(name).join("src"))? {
            let shown = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            let text = std::fs::read_to_string(&path);
            let text = text.map_err(|e| format!("{}: {e}", path.display()))?;
            wrong.extend(impure(&text).into_iter().map(|(line, what)| {
                format!("{shown}:{line}: `{what}` in a crate without I/O, clock, environment and threads")
            }));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

/// Returns an error for each format whose folder lacks a required file.
fn folders() -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    for family in families(root())? {
        let folder = root().join(FORMATS).join(&family);
        let constant = std::fs::read_to_string(folder.join("mod.rs")).unwrap_or_default();
        let writes = constant.contains("\n    encode: ").then_some("encode.rs");
        let rules_elsewhere = RULES_ELSEWHERE.contains(&&*family);
        for name in FILES.into_iter().chain(writes) {
            let is_elsewhere = rules_elsewhere && name == "rules.rs";
            if !is_elsewhere && !folder.join(name).is_file() {
                wrong.push(format!("{FORMATS}/{family} has no `{name}`, which every format has"));
            }
        }
    }
    Ok(wrong)
}

/// Returns the crates in the drawing of ARCHITECTURE.md, from the top down.
fn drawing(text: &str) -> Result<Vec<String>, String> {
    let after = text.split_once("## Crates").map(|(_, after)| after);
    let block = after.and_then(|a| a.split("```").nth(1)).unwrap_or_default();
    let names = block.lines().filter_map(|l| l.split_whitespace().next());
    let names: Vec<String> =
        names.filter(|n| n.starts_with("holdall")).map(str::to_owned).collect();
    match names.is_empty() {
        true => Err("ARCHITECTURE.md has no drawing of the crates under `## Crates`".to_owned()),
        false => Ok(names),
    }
}

/// Returns the dependencies between the crates of the workspace, except for tests.
fn dependencies() -> Result<BTreeMap<String, Vec<String>>, String> {
    let json = cargo(["metadata", "--no-deps", "--format-version", "1", "--offline"]).output()?;
    let odd = |what: &str| format!("`cargo metadata` printed no {what}");
    let value = Value::from_json(&json, 64).map_err(|e| e.to_string())?;
    let packages = items(field(&value, "packages")).ok_or_else(|| odd("packages"))?;
    let mut all = BTreeMap::new();
    for package in packages {
        let text = |v: &Value, key: &str| text(v, key).map(str::to_owned);
        let name = text(package, "name").ok_or_else(|| odd("name of a package"))?;
        let own = items(field(package, "dependencies")).ok_or_else(|| odd("dependencies"))?;
        let used = own.iter().filter(|d| text(d, "kind").as_deref() != Some("dev"));
        let used = used.filter(|d| text(d, "path").is_some()).filter_map(|d| text(d, "name"));
        all.insert(name, used.collect());
    }
    Ok(all)
}

/// Returns errors for dependencies that point up in the drawing, and for crates that are not in
/// it.
fn arrows(drawn: &[String], uses: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let place = |name: &str| drawn.iter().position(|d| d == name);
    let mut wrong = Vec::new();
    for name in drawn.iter().filter(|name| !uses.contains_key(*name)) {
        wrong.push(format!("ARCHITECTURE.md draws `{name}`, which is not in the workspace"));
    }
    let tools = ["holdall-fuzz", "xtask"];
    for (name, used) in uses.iter().filter(|(name, _)| !tools.contains(&name.as_str())) {
        let Some(own) = place(name) else {
            wrong.push(format!("ARCHITECTURE.md does not draw the crate `{name}`"));
            continue;
        };
        for other in used.iter().filter(|other| place(other).is_none_or(|at| at <= own)) {
            wrong.push(format!(
                "`{name}` depends on `{other}`, which is not below it in ARCHITECTURE.md"
            ));
        }
    }
    wrong
}

/// Returns every Rust file in a folder.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let shown = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut all = Vec::new();
    for entry in folder.read_dir().map_err(shown)? {
        let path = entry.map_err(shown)?.path();
        if path.is_dir() {
            all.extend(sources(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// Returns the forbidden uses in a file of a pure crate: lines and paths. Every path into the
/// standard library starts with `std`, so an alias for the whole of it, which would hide further
/// uses, is refused too.
fn impure(text: &str) -> Vec<(usize, String)> {
    let tokens = tokens(text);
    let word = |at: usize| tokens.get(at).map_or("", |t| t.text);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", word);
        match token.text {
            "std" if before == "." => {}
            "std" if word(at + 1) == "::" => found.extend(modules(&tokens, at + 2)),
            "std" if word(at + 1) == "as" || before == "crate" => {
                found.push((token.line, "std under another name".to_owned()));
            }
            _ => {}
        }
    }
    found
}

/// Returns the forbidden modules in a path or a group after `std::`.
fn modules(tokens: &[Token<'_>], start: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut depth, mut is_first) = (0usize, true);
    let tokens = tokens.get(start..).unwrap_or_default();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "::" => {}
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "," => is_first = depth == 1,
            name => {
                if is_first && FORBIDDEN.contains(&name) {
                    found.push((token.line, format!("std::{name}")));
                }
                is_first = false;
            }
        }
        let goes_on = token.text == "::" || tokens.get(at + 1).is_some_and(|t| t.text == "::");
        if depth == 0 && !goes_on {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_touches_the_system_is_found() {
        for (text, wanted) in [
            ("use std::fs;", "std::fs"),
            ("use std::fs::File;", "std::fs"),
            ("let x = ::std::fs::read(\"a\");", "std::fs"),
            ("use std::{fmt, net::TcpStream};", "std::net"),
            ("use std::{collections::{BTreeMap, BTreeSet}, time::Instant};", "std::time"),
            ("use std::{fmt::{self, Write}, thread as t};", "std::thread"),
            ("fn f() { std :: env :: var(\"HOME\"); }", "std::env"),
            ("use std::\n    process::Command;", "std::process"),
            ("use std::*;", "std::*"),
            ("use std as s;", "std under another name"),
            ("extern crate std as s;", "std under another name"),
            ("use std::{self as s};", "std::self"),
        ] {
            let found: Vec<String> = impure(text).into_iter().map(|(_, what)| what).collect();
            assert_eq!(found, [wanted], "{text}");
        }
    }

    #[test]
    fn the_rest_is_let_be() {
        for text in [
            "use std::io::{self, Error, ErrorKind}; use std::{fmt::Write as _, ops::Range};",
            "// std::fs::read\n/* use std::net; /* std::time */ std::env */ fn f() {}",
            "//! `std::fs`\nfn f() -> &'static str { \"std::fs\" }",
            "let x = r#\"std::time \" std::env\"#; let c = '\"'; let d = '\\''; use core::fmt;",
            "fn f<'a>(x: &'a str) -> std::result::Result<&'a str, std::io::Error> { Ok(x) }",
            "use std::collections::{BTreeMap, BTreeSet}; let x = HashMap::default(); mod time {} use self::time; x.std.fs();",
        ] {
            assert_eq!(impure(text), [], "{text}");
        }
    }

    #[test]
    fn lines_are_told() {
        assert_eq!(impure("a\n\"b\nc\"\nuse std::fs;"), [(4, "std::fs".to_owned())]);
    }

    #[test]
    fn arrows_point_down() {
        let text = "## Crates\n\n```text\nholdall-top  uses\n   │\nholdall-low   is used\n```\n";
        let drawn = drawing(text).unwrap();
        assert_eq!(drawn, ["holdall-top", "holdall-low"]);
        let uses = |pairs: &[(&str, &[&str])]| {
            let owned = |all: &[&str]| all.iter().map(|s| (*s).to_owned()).collect();
            pairs.iter().map(|(k, v)| ((*k).to_owned(), owned(v))).collect()
        };
        let sound: BTreeMap<_, _> = uses(&[
            ("holdall-top", &["holdall-low"]),
            ("holdall-low", &[]),
            ("xtask", &["holdall-top"]),
        ]);
        assert_eq!(arrows(&drawn, &sound), [""; 0]);
        let up = uses(&[("holdall-top", &[]), ("holdall-low", &["holdall-top"])]);
        assert_eq!(arrows(&drawn, &up).len(), 1);
        let other = uses(&[("holdall-top", &[]), ("holdall-other", &[])]);
        assert_eq!(arrows(&drawn, &other).len(), 2);
    }
}
