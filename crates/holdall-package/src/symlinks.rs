//! Symbolic links of a package: relative, to files in the same top folder.

use crate::contents::PackedFile;
use crate::rules::*;
use crate::{TENSOR_INDEX, paths};
use holdall_core::error::{Error, Escape as _, Result};

/// Maximum number of links to follow to a file: the limit of Linux.
pub const MAX_STEPS: usize = 40;

/// Sets for every link in `files`, which are sorted by path, the path that it names, the path of the file
/// that it finally leads to, and that file's length.
///
/// # Errors
/// Returns [`SYMLINK`].
pub(super) fn resolve(files: &mut [PackedFile]) -> Result<()> {
    let mut resolved = Vec::new();
    for (at, file) in files.iter().enumerate() {
        if file.target.is_none() {
            continue;
        }
        let end = link_target(files, file)?;
        if end.sha256 != file.sha256 {
            return Err(broken(file, &format!("and `{}` have different hashes", end.path)));
        }
        let text = file.target.as_deref().unwrap_or_default();
        resolved.push((at, target_path(&file.path, text).ok(), end.path.clone(), end.len));
    }
    for (at, next, path, len) in resolved {
        if let Some(file) = files.get_mut(at) {
            (file.next, file.target, file.len) = (next, Some(path), len);
        }
    }
    Ok(())
}

fn link_target<'a>(files: &'a [PackedFile], link: &'a PackedFile) -> Result<&'a PackedFile> {
    let mut at = link;
    for _ in 0..=MAX_STEPS {
        let Some(target) = &at.target else { return Ok(at) };
        if at.path == TENSOR_INDEX {
            return Err(broken(link, "is a link, which the table of tensors must not be"));
        }
        let path = target_path(&at.path, target)
            .map_err(|what| broken(link, &format!("{what}: `{}`", target.escaped())))?;
        let found = files.binary_search_by(|file| file.path.cmp(&path)).ok();
        let Some(next) = found.and_then(|found| files.get(found)) else {
            return Err(broken(
                link,
                &format!("leads to `{}`, which is not a file", path.escaped()),
            ));
        };
        at = next;
    }
    Err(broken(link, "leads round in a loop, or over more than 40 links"))
}

/// Returns the path in the package that the symbolic link at the path `link` with the text `target` names.
///
/// # Errors
/// Returns a description of the error in the text, as the end of a sentence about the link.
pub fn target_path(link: &str, target: &str) -> Result<String, &'static str> {
    let (folder, _) = link.rsplit_once('/').ok_or("is a link, and in no folder")?;
    match target.as_bytes() {
        [] => return Err("leads nowhere: its target is empty"),
        [b'/', ..] => return Err("leads to an absolute path"),
        _ => {}
    }
    if target.contains('\\') {
        return Err("leads to a path with a backslash");
    }
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in target.split('/') {
        match part {
            "" => return Err("leads to a path with an empty part"),
            "." => {}
            // A target that passes through the top level is refused, even if it comes back.
            ".." if parts.len() < 2 => return Err("leads out of its top folder"),
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    paths::check(&path).map(|()| path).map_err(|_| "leads to an invalid path of a package")
}

/// Returns the text of a symbolic link at the path `link` that names `target`: the shortest relative path,
/// with `/` between its parts. Returns `None` if they are not paths of files in the same top folder.
pub fn link_text(link: &str, target: &str) -> Option<String> {
    let is_plain = |path: &str| path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let (folder, _) = link.rsplit_once('/')?;
    if !is_plain(link) || !is_plain(target) {
        return None;
    }
    let from: Vec<&str> = folder.split('/').collect();
    let to: Vec<&str> = target.split('/').collect();
    if to.len() < 2 || from.first() != to.first() {
        return None;
    }
    // The last part of the target is its name, not a folder.
    let folders = to.iter().take(to.len().saturating_sub(1));
    let same = from.iter().zip(folders).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", from.len().saturating_sub(same));
    Some(up.chain(to.iter().skip(same).copied()).collect::<Vec<_>>().join("/"))
}

#[cold]
fn broken(link: &PackedFile, what: &str) -> Error {
    SYMLINK.broken(format!("`{}` {what}", link.path.escaped()))
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_seen_from_the_folder_of_the_link() {
        let to = |target: &str| target_path("model/a/link", target);
        assert_eq!(to("b").as_deref(), Ok("model/a/b"));
        assert_eq!(to("./../blobs/x").as_deref(), Ok("model/blobs/x"));
        assert_eq!(to("..").as_deref(), Ok("model"));
        for (out, what) in [
            ("../..", "top folder"),
            ("../../model/x", "top folder"),
            ("/model/x", "absolute"),
            ("", "empty"),
            ("a//b", "empty part"),
            (".//b", "empty part"),
            ("a/", "empty part"),
            ("..\\x", "backslash"),
            ("C:x", "invalid path"),
            ("\0", "invalid path"),
        ] {
            assert!(to(out).is_err_and(|reason| reason.contains(what)), "{out:?}");
        }
        assert_eq!(target_path("link", "b"), Err("is a link, and in no folder"));
    }

    #[test]
    fn texts_lead_back_to_their_targets() {
        let paths =
            ["model/x", "model/a/x", "model/a/b/x", "model/ab/x", "model/a/y", "model/b/a/x"];
        for link in paths {
            for target in paths {
                let text = link_text(link, target).unwrap_or_default();
                assert_eq!(target_path(link, &text).as_deref(), Ok(target), "{link} {text}");
            }
        }
        assert_eq!(link_text("model/a/b/x", "model/a/y").as_deref(), Some("../y"));
        for (link, target) in
            [("x", "y"), ("model/x", "misc/x"), ("model/x", "model"), ("model/../x", "model/x")]
        {
            assert_eq!(link_text(link, target), None, "{link} {target}");
        }
    }

    #[test]
    fn forty_links_may_follow_each_other() {
        let file = |number: usize, target: Option<usize>| PackedFile {
            path: format!("model/{number:02}"),
            len: Some(1),
            sha256: None,
            target: target.map(|to| format!("{to:02}")),
            next: None,
            found: Some(number),
        };
        for (count, is_fine) in [(1, true), (40, true), (41, false)] {
            let mut files: Vec<PackedFile> =
                (0..count).map(|at| file(at, Some(at + 1))).chain([file(count, None)]).collect();
            let last = format!("model/{count:02}");
            match resolve(&mut files) {
                Ok(()) => assert!(is_fine && files[0].target == Some(last), "{count}"),
                Err(e) => assert!(!is_fine && e.code() == SYMLINK.code, "{count}: {e}"),
            }
        }
    }
}
