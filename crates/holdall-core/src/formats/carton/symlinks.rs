//! Symbolic links of a package: relative ones, to files of the same top folder.

use super::contents::PackedFile;
use super::rules::*;
use super::{TENSOR_INDEX, paths};
use crate::error::{Error, Result};

/// Links on the way to a file: as many as Linux follows.
const MOST_STEPS: usize = 40;

/// Gives every link of `files`, which are in the order of their paths, the path of the file that it leads
/// to at last, and that file's length.
///
/// # Errors
/// [`SYMLINK`].
pub(super) fn resolve(files: &mut [PackedFile]) -> Result<()> {
    let mut resolved = Vec::new();
    for (at, file) in files.iter().enumerate() {
        if file.target.is_none() {
            continue;
        }
        let end = follow(files, file)?;
        if end.sha256 != file.sha256 {
            return Err(broken(file, &format!("and `{}` have different hashes", end.path)));
        }
        resolved.push((at, end.path.clone(), end.len));
    }
    for (at, path, len) in resolved {
        if let Some(file) = files.get_mut(at) {
            (file.target, file.len) = (Some(path), len);
        }
    }
    Ok(())
}

fn follow<'a>(files: &'a [PackedFile], link: &'a PackedFile) -> Result<&'a PackedFile> {
    let mut at = link;
    for _ in 0..MOST_STEPS {
        let Some(target) = &at.target else { return Ok(at) };
        if at.path == TENSOR_INDEX {
            return Err(broken(link, "is a link, which the table of tensors must not be"));
        }
        let Some(path) = path_of(&at.path, target) else {
            let target = target.escape_debug();
            return Err(broken(link, &format!("leads out of its top folder: `{target}`")));
        };
        let found = files.binary_search_by(|file| file.path.cmp(&path)).ok();
        let Some(next) = found.and_then(|found| files.get(found)) else {
            return Err(broken(
                link,
                &format!("leads to `{}`, which is no file", path.escape_debug()),
            ));
        };
        at = next;
    }
    Err(broken(link, "leads round in a loop, or over more than 40 links"))
}

/// The path in the package that `target` names, seen from the link at `link`.
fn path_of(link: &str, target: &str) -> Option<String> {
    let (folder, _) = link.rsplit_once('/')?;
    if target.contains(['\\', '\0']) {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in target.split('/') {
        match part {
            "" => return None,
            "." => {}
            // The top folder itself is not left, not even for a moment.
            ".." if parts.len() < 2 => return None,
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    paths::check(&path).ok().map(|()| path)
}

#[cold]
fn broken(link: &PackedFile, what: &str) -> Error {
    SYMLINK.broken(format!("`{}` {what}", link.path.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_seen_from_the_folder_of_the_link() {
        let to = |target: &str| path_of("model/a/link", target);
        assert_eq!(to("b").as_deref(), Some("model/a/b"));
        assert_eq!(to("./../blobs/x").as_deref(), Some("model/blobs/x"));
        assert_eq!(to("..").as_deref(), Some("model"));
        for out in ["../..", "../../model/x", "/model/x", "", "a//b", "..\\x", "C:x", "a/", "\0"] {
            assert_eq!(to(out), None, "{out:?}");
        }
        assert_eq!(path_of("link", "b"), None);
    }
}
