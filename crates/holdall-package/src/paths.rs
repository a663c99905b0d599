//! Paths in a package: portable, and never outside of the package.

use crate::rules::*;
use crate::{CARTON_TOML, LINKS_NAME, MANIFEST_NAME, TENSOR_DATA, TENSOR_INDEX};
use holdall_collections::sort;
use holdall_core::error::{Error, Escape as _, Result};
use unicode_normalization::UnicodeNormalization as _;

/// Maximum length of a path in bytes: all systems can open it, unless the package itself is in a deeply
/// nested folder.
pub const LONGEST: usize = 1024;
/// Maximum length of one part of a path in bytes: the limit of file systems for a name.
const LONGEST_PART: usize = 255;

/// Checks one path.
///
/// # Errors
/// Returns [`PATH`].
pub fn check(path: &str) -> Result<()> {
    match is_usual(path.as_bytes()) {
        true => Ok(()),
        false => check_closely(path),
    }
}

/// Returns `true` if a path is valid by a quick check: ASCII without backslashes, each part longer than two bytes
/// and without a colon as its second byte, and not too long.
fn is_usual(path: &[u8]) -> bool {
    let is_odd = |&byte: &u8| byte.wrapping_sub(0x20) >= 0x5f || byte == b'\\';
    // Visits all bytes without an early exit, which is vectorized.
    if path.len() > LONGEST || path.iter().fold(false, |odd, byte| odd | is_odd(byte)) {
        return false;
    }
    let mut start = 0;
    for end in memchr::memchr_iter(b'/', path).chain([path.len()]) {
        match path.get(start..end) {
            Some(part @ [_, second, _, ..]) if *second != b':' && part.len() <= LONGEST_PART => {}
            _ => return false,
        }
        start = end.saturating_add(1);
    }
    true
}

fn check_closely(path: &str) -> Result<()> {
    let broken = |what: &str| Err(PATH.broken(format!("path `{}` {what}", path.escaped())));
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
            long if long.len() > LONGEST_PART => {
                let len = long.len();
                return broken(&format!("has a part of {len} bytes, at most {LONGEST_PART}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns `true` if the path is in the folder of tensors.
pub fn is_in_tensor_data(path: &str) -> bool {
    path.strip_prefix(TENSOR_DATA).is_some_and(|rest| rest.starts_with('/'))
}

/// Paths that every package has or may get. No other path may collide with them, even if they do not exist.
const RESERVED: [&str; 5] = [CARTON_TOML, MANIFEST_NAME, LINKS_NAME, TENSOR_INDEX, MODEL];
/// The model's folder, in an unpacked package.
const MODEL: &str = "model/";

/// Two files or folders of a package that are one on systems that ignore case or Unicode form: their paths,
/// up to the part where they differ.
pub type ConflictingPaths = (String, String);

/// Finds the paths of a package, or of their folders, that are one on some systems. The names of the
/// package's texts and of the model's folder are included.
///
/// # Errors
/// Returns [`COLLISION`] if a file has the same path as a folder or another file.
pub(super) fn check_apart(paths: &[&str]) -> Result<Vec<ConflictingPaths>> {
    if are_usual(paths) {
        return Ok(Vec::new());
    }
    let missing = RESERVED.into_iter().filter(|name| !paths.contains(name));
    check_paths_alone(paths.iter().copied().chain(missing))
}

/// Returns `true` if no two of these paths can collide, nor one with a reserved path, by a quick check: they
/// are sorted, each is its own key except for slashes, and no file has the path of a folder.
fn are_usual(paths: &[&str]) -> bool {
    let is_key = |path: &str| {
        !path.bytes().fold(false, |odd, byte| odd | !byte.is_ascii() | byte.is_ascii_uppercase())
    };
    let is_own = |path: &str| RESERVED.iter().any(|own| own.eq_ignore_ascii_case(path));
    let is_usual = |path: &&str| RESERVED.contains(path) || (is_key(path) && !is_own(path));
    let rises = paths.iter().zip(paths.iter().skip(1)).all(|(a, b)| a < b);
    if !rises || !paths.iter().all(is_usual) {
        return false;
    }
    let is_file = |path: &str| paths.binary_search(&path).is_ok();
    let mut last = "";
    for path in paths.iter().chain(&RESERVED) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        if folder == last {
            continue;
        }
        last = folder;
        let mut next = Some(folder);
        while let Some(folder) = next {
            if is_file(folder) || is_own(folder) {
                return false;
            }
            next = folder.rsplit_once('/').map(|(outer, _)| outer);
        }
    }
    true
}

/// The same as [`check_apart`] for these paths alone, without reserved ones. The path of a folder ends in a
/// slash.
///
/// # Errors
/// Returns [`COLLISION`].
pub(super) fn check_paths_alone<'a>(
    paths: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<ConflictingPaths>> {
    let mut text = Vec::new();
    let mut ends = Vec::new();
    for path in paths {
        push_key(path, &mut text);
        ends.push((text.len(), path));
    }
    let mut keys: Vec<(&[u8], &str)> = Vec::with_capacity(ends.len());
    let mut start = 0;
    for (end, path) in ends {
        keys.push((text.get(start..end).unwrap_or_default(), path));
        start = end;
    }
    // Paths are sorted, and their keys mostly are then, too.
    sort(&mut keys);
    // All keys that start with the same parts are adjacent, because nothing sorts before NUL.
    let mut twins = Vec::new();
    for (a, b) in keys.iter().zip(keys.iter().skip(1)) {
        if !differ_where_keys_do(a, b) {
            twins.extend(neighbours(a, b)?);
        }
    }
    if !twins.is_empty() {
        check_places(keys.iter().map(|(_, path)| *path))?;
    }
    Ok(twins)
}

/// Checks that no file has the path of a folder or another file, by the bytes of their paths: paths that
/// conflict only in case can separate such pairs in the order of keys.
fn check_places<'a>(paths: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut all: Vec<(String, &str)> = paths.map(|path| (path.replace('/', "\0"), path)).collect();
    sort(&mut all);
    for (a, b) in all.iter().zip(all.iter().skip(1)) {
        match b.0.strip_prefix(&a.0).map(str::as_bytes) {
            Some([]) => return Err(collision(a.1, b.1, "are one")),
            // A folder's entry has nothing after its slash, and the folder's contents follow it.
            Some([0, ..]) if !a.0.ends_with('\0') => return Err(file_and_folder(a.1, b.1)),
            _ => {}
        }
    }
    Ok(())
}

/// Returns `true` if two ASCII paths are equal up to where their keys first differ: they have the same parts
/// there, and do not collide in the next part.
fn differ_where_keys_do(a: &(&[u8], &str), b: &(&[u8], &str)) -> bool {
    let same = a.0.iter().zip(b.0).take_while(|(a, b)| a == b).count();
    let is_inside = same < a.0.len().min(b.0.len());
    // The key of an ASCII path has one byte for each of its bytes.
    is_inside && a.1.is_ascii() && b.1.is_ascii() && a.1.get(..same) == b.1.get(..same)
}

/// Compares two paths by their keys, part by part: where the keys are equal, the paths must be.
fn neighbours(a: &(&[u8], &str), b: &(&[u8], &str)) -> Result<Option<ConflictingPaths>> {
    fn parts<'k>(key: &(&'k [u8], &str)) -> impl Iterator<Item = &'k [u8]> + use<'k> {
        key.0.split(|byte| *byte == 0)
    }
    let keys = parts(a).zip(parts(b));
    let names = a.1.split('/').zip(b.1.split('/'));
    for (at, ((key_a, key_b), (name_a, name_b))) in keys.zip(names).enumerate() {
        if key_a != key_b {
            return Ok(None);
        }
        if name_a != name_b {
            let upto = |path: &str| {
                let parts: Vec<&str> = path.split('/').take(at.saturating_add(1)).collect();
                parts.join("/")
            };
            return Ok(Some((upto(a.1), upto(b.1))));
        }
    }
    match parts(a).count() == parts(b).count() {
        true => Err(collision(a.1, b.1, "are one")),
        false => Err(file_and_folder(a.1, b.1)),
    }
}

#[cold]
fn file_and_folder(a: &str, b: &str) -> Error {
    collision(a, b, "cannot both be: one is a file and a folder")
}

/// Returns the message about two conflicting paths.
pub(super) fn conflict_message((a, b): &ConflictingPaths) -> String {
    let what = "are one on systems that ignore case or Unicode form";
    format!("{} and {} {what}", quoted(a), quoted(b))
}

/// Appends the path's form on a system that ignores case and Unicode form, with NUL for `/`, so that it sorts
/// before every character that a path may have.
fn push_key(path: &str, out: &mut Vec<u8>) {
    if path.is_ascii() {
        let start = out.len();
        out.extend_from_slice(path.as_bytes());
        let key = out.get_mut(start..).unwrap_or_default();
        key.make_ascii_lowercase();
        key.iter_mut().for_each(|b| *b = if *b == b'/' { 0 } else { *b });
        return;
    }
    // Via upper case, since some letters have one upper-case form and two lower-case ones, or an upper-case
    // form of several letters. Lower case first, since a letter without lower-case variants in upper case
    // (U+1E9E) may have one.
    let lower = path.nfd().flat_map(char::to_lowercase);
    let folded = lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    let part = |c: char| if c == '/' { '\0' } else { c };
    for c in folded.nfc().map(part) {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Returns the error for two paths, with all non-ASCII characters as numbers, since they may look the same.
#[cold]
pub fn collision(a: &str, b: &str, what: &str) -> Error {
    COLLISION.broken(format!("{} and {} {what}", quoted(a), quoted(b)))
}

fn quoted(path: &str) -> String {
    let is_own = RESERVED.iter().any(|own| own.trim_end_matches('/') == path.trim_end_matches('/'));
    let own = if is_own { " (a package's own)" } else { "" };
    format!("`{}`{own}", path.escape_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_all(paths: &[&str]) -> Result<Vec<ConflictingPaths>> {
        paths.iter().try_for_each(|path| check(path))?;
        check_apart(paths)
    }

    /// Returns `None`, the code of the error, or `twins`.
    fn found(paths: &[&str]) -> Option<&'static str> {
        match check_all(paths) {
            Ok(twins) => (!twins.is_empty()).then_some("twins"),
            Err(e) => Some(e.code()),
        }
    }

    #[test]
    fn paths_out_of_the_package_are_refused() {
        for path in ["a", "model/a b.bin", "..a/b..", "\u{e9}/\u{5c64}", "sha256:0/x", "a.b/c=d"] {
            assert!(check(path).is_ok(), "{path}");
        }
        let part = "a".repeat(255);
        assert!(check(&part).is_ok() && check(&format!("model/{part}/{part}")).is_ok());
        let longest = format!("{part}/{part}/{part}/{}/a", &part[1..]);
        assert!(check(&longest).is_ok() && longest.len() == 1024);
        let long = format!("{longest}a");
        let long_part = format!("model/{}", "\u{e9}".repeat(128));
        let plain_part = format!("model/{part}a/x");
        let bad = [
            "",
            "/a",
            "a//b",
            "a/",
            ".",
            "..",
            "a/../b",
            "./a",
            "a\\b",
            "C:a",
            "a/c:b",
            "a\0",
            "a\nb",
            "\u{85}",
            &long,
            &long_part,
            &plain_part,
        ];
        for path in bad {
            assert_eq!(check(path).map_err(|e| e.code()), Err("carton/path"), "{path:?}");
        }
    }

    /// Returns all texts of up to 4 of these characters.
    fn short(chars: &[char]) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut last = 0..1;
        for _ in 0..4 {
            for text in all.get(last.clone()).unwrap_or_default().to_vec() {
                all.extend(chars.iter().map(|c| format!("{text}{c}")));
            }
            last = last.end..all.len();
        }
        all
    }

    #[test]
    fn the_quick_check_accepts_only_valid_paths() {
        for path in short(&['a', '.', '/', ':', '\\', '\u{1f}', '\u{7f}', '\u{e9}']) {
            assert!(!is_usual(path.as_bytes()) || check_closely(&path).is_ok(), "{path:?}");
        }
        let paths: Vec<String> = short(&['a', 'A', '-', '/', '\u{e9}']);
        let paths: Vec<_> = paths.iter().filter(|path| check(path).is_ok()).collect();
        let key = |path: &str| {
            let mut key = Vec::new();
            push_key(path, &mut key);
            key
        };
        let keys: Vec<_> = paths.iter().map(|path| key(path)).collect();
        for (a, key_a) in paths.iter().zip(&keys) {
            for (b, key_b) in paths.iter().zip(&keys) {
                let (a, b) = ((&key_a[..], a.as_str()), (&key_b[..], b.as_str()));
                let apart = matches!(neighbours(&a, &b), Ok(None));
                assert!(!differ_where_keys_do(&a, &b) || apart, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_quick_distinction_is_confirmed_by_the_full_check() {
        let own = ["carton.toml", "MANIFEST", "LINKS", "tensor_data", "model"];
        let own =
            own.iter().flat_map(|own| [own.to_string(), own.to_lowercase(), format!("{own}/x")]);
        let index = ["tensor_data/index.toml", "tensor_data/index.toml/x", "links/x", "manifest/x"];
        let mut paths = short(&['a', 'A', '-', '/']);
        paths.extend(own.chain(index.map(str::to_owned)));
        paths.retain(|path| path.len() != 4 && check(path).is_ok());
        paths.sort();
        paths.dedup();
        let (mut usual, mut sets) = (0, 0);
        for (i, a) in paths.iter().enumerate() {
            for (j, b) in paths.iter().enumerate().skip(i + 1) {
                for c in paths.iter().skip(j + 1) {
                    let set = [a.as_str(), b, c];
                    let missing = RESERVED.into_iter().filter(|name| !set.contains(name));
                    sets += 1;
                    if are_usual(&set) {
                        let apart = check_paths_alone(set.into_iter().chain(missing));
                        assert!(apart.is_ok_and(|twins| twins.is_empty()), "{set:?}");
                        usual += 1;
                    }
                }
            }
        }
        assert!(usual > 0 && usual < sets, "{usual} of {sets}");
        assert!(are_usual(&["MANIFEST", "carton.toml", "model/a.b", "model/a/b", "tensor_data/x"]));
    }

    #[test]
    fn paths_that_meet_are_found() {
        let refused = ["carton/collision"; 2];
        for pair in [["a", "a/b"], ["a/b", "a/b"]] {
            let around = [pair[1], "a-b/x", "a0", pair[0], "a!"];
            assert_eq!([found(&pair), found(&around)], refused.map(Some), "{pair:?}");
        }
        // Also if a conflicting path is between them.
        assert_eq!(found(&["m/A", "m/a/b", "m/A/c"]), Some("carton/collision"));
        assert_eq!(found(&["m/A", "m/a/b", "m/a/c"]), Some("twins"));
        let meet = [
            ["a/B", "a/b"],
            ["caf\u{e9}", "cafe\u{301}"],
            ["\u{df}", "SS"],
            ["\u{212a}", "k"],
            ["A/b/c", "a/B"],
            ["\u{1e9e}", "\u{df}"],
            ["\u{1e9e}", "ss"],
            ["\u{3c3}", "\u{3c2}"],
            ["model/A/x", "model/a/y"],
            ["Model/a", "model/b"],
            ["caf\u{e9}/a", "cafe\u{301}/b"],
        ];
        for pair in meet {
            assert_eq!(found(&pair), Some("twins"), "{pair:?}");
            let around = [pair[1], "a-b/x", "a0", "b", pair[0], "a!"];
            assert_eq!(found(&around), Some("twins"), "{pair:?}");
        }
        assert_eq!(found(&["a/b", "a/c", "ab", "a-b", "a.b", "a/d/b", "a/d-e"]), None);
        let twins = check_all(&["model/A/x", "model/a/y"]).expect("twins");
        assert_eq!(twins, [("model/A".to_owned(), "model/a".to_owned())]);
    }

    #[test]
    fn the_names_of_texts_are_reserved() {
        for path in ["LINKS/x", "MANIFEST/x"] {
            assert_eq!(found(&[path]), Some("carton/collision"), "{path}");
        }
        for path in ["links", "Manifest", "Carton.toml/x", "Tensor_data/x"] {
            assert_eq!(found(&[path]), Some("twins"), "{path}");
        }
        assert_eq!(found(&["LINKS", "MANIFEST", "model/links", "tensor_data/x"]), None);
        assert_eq!(found(&["LINKS", "LINKS"]), Some("carton/collision"));
    }

    #[test]
    fn the_folder_of_the_model_is_a_folder() {
        let e = check_all(&["model"]).map_err(|e| e.to_string()).expect_err("a file");
        assert!(e.contains("`model/` (a package's own)"), "{e}");
        for path in ["Model", "Model/x"] {
            let twins = check_all(&[path]).expect(path);
            let message = twins.first().map(conflict_message).unwrap_or_default();
            assert!(message.contains("`model` (a package's own)"), "{twins:?}");
        }
        assert_eq!(found(&["model/model", "misc/model", "models", "mode"]), None);
    }

    #[test]
    fn colliding_paths_are_distinguishable_in_messages() {
        let twins = check_all(&["caf\u{e9}", "cafe\u{301}"]).expect("twins");
        let message = twins.first().map(conflict_message).unwrap_or_default();
        assert!(
            message.contains("`cafe\\u{301}`") && message.contains("`caf\\u{e9}`"),
            "{message}"
        );
    }
}
