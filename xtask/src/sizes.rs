//! Limits on the length of source files.

use crate::command::{Outcome, program, root};
use std::path::Path;

/// Files with at least this many lines are listed.
const LISTED: usize = 400;
/// The maximum number of lines of a file, except for tests.
const MAX: usize = 800;

/// `cargo xtask sizes`.
pub(crate) fn sizes(_args: &[String]) -> Outcome {
    let listed = program("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .args(["*.rs", "*.py", "*.js", "*.mjs", "*.ts", "*.tsx"])
        .output()?;
    let mut long = Vec::new();
    for path in listed.lines() {
        // A file that is deleted but not committed is still listed.
        let Ok(text) = std::fs::read_to_string(root().join(path)) else { continue };
        let lines = text.lines().count();
        if lines > LISTED {
            long.push((lines, path));
        }
    }
    long.sort_by(|a, b| b.cmp(a));
    let mut refused = 0;
    for (lines, path) in long {
        let is_test = Path::new(path).components().any(|c| c.as_os_str() == "tests");
        let is_refused = lines > MAX && !is_test;
        refused += usize::from(is_refused);
        println!("{lines:>6}  {path}{}", if is_refused { "  (split it)" } else { "" });
    }
    match refused {
        0 => Ok(()),
        n => Err(format!("{n} files have more than {MAX} lines")),
    }
}
