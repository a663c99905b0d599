//! Paths of a package: the same on every system, and never out of it.

use super::rules::*;
use crate::error::{Error, Result};
use unicode_normalization::UnicodeNormalization as _;

/// Bytes of the longest path.
pub(super) const LONGEST: usize = 4096;

/// Checks one path.
///
/// # Errors
/// [`PATH`].
pub fn check(path: &str) -> Result<()> {
    let broken = |what: &str| {
        // Long ones are shown in part.
        let shown: String = path.chars().take(200).collect();
        Err(PATH.broken(format!("path `{}` {what}", shown.escape_debug())))
    };
    if path.is_empty() {
        return broken("is empty");
    }
    if path.len() > LONGEST {
        return broken(&format!("has {} bytes, at most {LONGEST}", path.len()));
    }
    if path.starts_with('/') {
        return broken("is absolute");
    }
    if path.contains('\\') {
        return broken("has a backslash");
    }
    if path.contains(char::is_control) {
        return broken("has a control character");
    }
    for part in path.split('/') {
        match part.as_bytes() {
            [] => return broken("has an empty part"),
            b"." | b".." => return broken("has `.` or `..` among its parts"),
            [letter, b':', ..] if letter.is_ascii_alphabetic() => return broken("names a drive"),
            _ => {}
        }
    }
    Ok(())
}

/// Checks every path of a package, and that no two of them meet on any system.
///
/// # Errors
/// [`PATH`], [`COLLISION`].
pub fn check_all<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut keys: Vec<(String, &str)> = Vec::new();
    for path in paths {
        check(path)?;
        keys.push((key(path), path));
    }
    keys.sort_unstable();
    // Below a folder come the keys that start with it and a NUL, right behind it: nothing sorts between.
    for (a, b) in keys.iter().zip(keys.iter().skip(1)) {
        if let Some(rest) = b.0.strip_prefix(a.0.as_str()) {
            if rest.is_empty() {
                return Err(collision(
                    a.1,
                    b.1,
                    "are one on systems that ignore case or Unicode form",
                ));
            }
            if rest.starts_with('\0') {
                return Err(collision(a.1, b.1, "cannot both be: one is a file and a folder"));
            }
        }
    }
    Ok(())
}

/// What a path is on a system that ignores case and the form of Unicode, with NUL for `/`, so that it
/// sorts before every character that a path may have.
fn key(path: &str) -> String {
    let part = |c: char| if c == '/' { '\0' } else { c };
    if path.is_ascii() {
        return path.to_ascii_lowercase().chars().map(part).collect();
    }
    // Upper case first: some letters have one upper case and two lower.
    let folded = path.nfd().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.nfc().map(part).collect()
}

#[cold]
fn collision(a: &str, b: &str, what: &str) -> Error {
    COLLISION.broken(format!("`{}` and `{}` {what}", a.escape_debug(), b.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_out_of_the_package_are_refused() {
        for path in ["a", "model/a b.bin", "..a/b..", "\u{e9}/\u{5c64}", "sha256:0/x", "a.b/c=d"] {
            assert!(check(path).is_ok(), "{path}");
        }
        let long = "a".repeat(4097);
        let bad = [
            "", "/a", "a//b", "a/", ".", "..", "a/../b", "./a", "a\\b", "C:a", "a/c:b", "a\0",
            "a\nb", "\u{85}", &long,
        ];
        for path in bad {
            assert_eq!(check(path).map_err(|e| e.code()), Err("carton/path"), "{path:?}");
        }
    }

    #[test]
    fn paths_that_meet_are_refused() {
        let code = |paths: &[&str]| check_all(paths.iter().copied()).err().map(|e| e.code());
        let meet = [
            ["a/B", "a/b"],
            ["caf\u{e9}", "cafe\u{301}"],
            ["\u{df}", "SS"],
            ["\u{212a}", "k"],
            ["a", "a/b"],
            ["A/b/c", "a/B"],
        ];
        for pair in meet {
            assert_eq!(code(&pair), Some("carton/collision"), "{pair:?}");
            let around = [pair[1], "a-b/x", "a0", "b", pair[0], "a!"];
            assert_eq!(code(&around), Some("carton/collision"), "{pair:?}");
        }
        assert_eq!(code(&["a/b", "A/c", "ab", "a-b", "a.b"]), None);
    }
}
