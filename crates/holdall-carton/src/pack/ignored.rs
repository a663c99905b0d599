//! Files of a folder that are not packed: files of version control, editors and caches, secrets, and files
//! that match the author's ignore file.
//!
//! The rules are those of `.gitignore`: each line is a pattern, and the last matching one decides; a leading
//! `!` keeps matching files; a pattern with a trailing `/` matches only folders, and one with another `/`
//! matches paths from the packed folder. `*` and `?` match characters of a name, `**` any folders. Everything
//! in an excluded folder is excluded.

use holdall_core::Result;
use holdall_io::error::io;
use std::path::Path;

/// The name of the ignore file. It is not packed.
pub const IGNORE_FILE: &str = ".holdallignore";

/// The default patterns, which come before the lines of the ignore file.
const USUAL: &str = "\
.holdallignore
.env
.env.*
.git
.hg
.svn
.venv
.cache
.tox
.nox
.mypy_cache
.pytest_cache
.ruff_cache
.ipynb_checkpoints
__pycache__
*.pyc
.DS_Store
Thumbs.db
";

/// The rules for one folder, in their order.
pub(super) struct Ignored(Vec<Rule>);

struct Rule {
    /// The parts of the pattern. A pattern for files in any folder begins with `**`.
    parts: Vec<String>,
    is_folder: bool,
    keeps: bool,
}

impl Ignored {
    /// Returns the default rules and those of the ignore file of `root`, if it has one.
    ///
    /// # Errors
    /// Returns an `Io` error.
    pub(super) fn from_folder(root: &Path) -> Result<Ignored> {
        let path = root.join(IGNORE_FILE);
        let own = match std::fs::read_to_string(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(|e| io(e, "reading").in_source(path.display()))?,
        };
        Ok(Ignored::parse(&[USUAL, &own].concat()))
    }

    fn parse(text: &str) -> Ignored {
        Ignored(text.lines().filter_map(Rule::parse).collect())
    }

    /// Returns `true` if the file or folder at this path is excluded. The path of a folder ends in `/`. Its
    /// parent folders must have been checked before.
    pub(super) fn is_left_out(&self, path: &str) -> bool {
        let is_folder = path.ends_with('/');
        let parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
        let fits = |rule: &&Rule| (is_folder || !rule.is_folder) && fit(&rule.parts, &parts);
        self.0.iter().rev().find(fits).is_some_and(|rule| !rule.keeps)
    }
}

impl Rule {
    fn parse(line: &str) -> Option<Rule> {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (keeps, line) = match line.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let line = line.strip_prefix('\\').unwrap_or(line);
        let (is_folder, line) = match line.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let is_rooted = line.contains('/');
        let line = line.strip_prefix('/').unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        let mut parts: Vec<String> = line.split('/').map(str::to_owned).collect();
        if !is_rooted {
            parts.insert(0, "**".to_owned());
        }
        Some(Rule { parts, is_folder, keeps })
    }
}

/// Returns `true` if the parts of a path match those of a pattern.
fn fit(pattern: &[String], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], _) => path.is_empty(),
        ([any, rest @ ..], _) if any == "**" => {
            // At the end, `**` matches the contents of a folder, not the folder.
            (rest.is_empty() && !path.is_empty())
                || (!rest.is_empty() && (0..path.len()).any(|at| fit(rest, &path[at..])))
        }
        ([first, rest @ ..], [name, inner @ ..]) => {
            let (first, name): (Vec<char>, Vec<char>) =
                (first.chars().collect(), name.chars().collect());
            is_name(&first, &name) && fit(rest, inner)
        }
        _ => false,
    }
}

/// Returns `true` if a name matches a pattern. Backtracks only to the last `*`, so that it takes at most the
/// product of both lengths.
fn is_name(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut back = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                back = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match &mut back {
                Some((star, from)) => {
                    *from += 1;
                    (p, n) = (*star + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_gitignore() {
        let cases = [
            ("a", "a", true),
            ("a", "x/a", true),
            ("a", "x/a/", true),
            ("a/", "a", false),
            ("a/", "x/a/", true),
            ("/a", "x/a", false),
            ("/a", "a", true),
            ("x/a", "x/a", true),
            ("x/a", "y/x/a", false),
            ("**/x/a", "y/x/a", true),
            ("x/**", "x/a/b", true),
            ("x/**", "x/", false),
            ("x/**/b", "x/b", true),
            ("x/**/b", "x/y/z/b", true),
            ("*.tmp", "x/y.tmp", true),
            ("*.tmp", "x/y.tmp.z", false),
            ("a?c*", "abcdef", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("# a", "# a", false),
            ("\\#a", "#a", true),
            ("", "a", false),
            ("*\n!keep", "keep", false),
            ("*\n!keep", "other", true),
            ("!keep\n*", "keep", true),
        ];
        for (rules, path, expected) in cases {
            assert_eq!(Ignored::parse(rules).is_left_out(path), expected, "{rules:?} {path}");
        }
    }

    #[test]
    fn secrets_and_caches_are_left_out_unless_they_are_kept() {
        let usual = Ignored::parse(USUAL);
        for path in
            [".env", "model/.env", ".git/", "model/.git/", ".venv/", "x/__pycache__/", ".env.local"]
        {
            assert!(usual.is_left_out(path), "{path}");
        }
        for path in ["carton.toml", "model/env", "model/.gitattributes", "model/cache/", "git/"] {
            assert!(!usual.is_left_out(path), "{path}");
        }
        assert!(!Ignored::parse(&[USUAL, "!.env\n"].concat()).is_left_out("model/.env"));
    }
}
