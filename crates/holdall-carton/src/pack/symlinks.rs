//! Symbolic links of a folder that stay links in the package.

use super::parts::{FileToPack, Source};
use holdall_core::Result;
use holdall_core::error::Escape as _;
use holdall_io::error::io;
use holdall_package::paths::LONGEST;
use holdall_package::rules::SYMLINK;
use holdall_package::symlinks::{MAX_STEPS, link_text, target_path};
use holdall_package::{FoundPath, TENSOR_INDEX};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Returns the symbolic links among the files of the folder `root` that a package can contain, by their
/// paths, with their texts in the package: those that lead to another of the files in the same top-level
/// folder of the package.
pub(super) fn kept_links(
    root: &Path,
    below: &str,
    found: &[FoundPath<'_>],
) -> Result<BTreeMap<String, String>> {
    let links: Vec<(&str, &str)> =
        found.iter().filter_map(|file| Some((&*file.path, file.target.as_deref()?))).collect();
    if links.is_empty() {
        return Ok(BTreeMap::new());
    }
    let whole = root.canonicalize().map_err(|e| io(e, "opening").in_source(root.display()))?;
    let paths: HashSet<&str> = found.iter().map(|file| &*file.path).collect();
    let text = |path: &str, to: &str| {
        let named = root.join(path).parent()?.join(to);
        // Resolved like the system does, with links to folders on the path.
        let found = named.parent()?.canonicalize().ok()?.join(named.file_name()?);
        let inside = found.strip_prefix(&whole).ok()?.to_str()?;
        let inside = inside.replace(std::path::MAIN_SEPARATOR, "/");
        let link = format!("{below}{path}");
        let can_be =
            Path::new(to).is_relative() && link != TENSOR_INDEX && paths.contains(inside.as_str());
        let text = link_text(&link, &format!("{below}{inside}"))?;
        (can_be && text.len() <= LONGEST).then_some(text)
    };
    let kept = links.into_iter().filter_map(|(path, to)| Some((path.to_owned(), text(path, to)?)));
    Ok(kept.collect())
}

/// Returns the path of the file that the symbolic link at `link` finally leads to.
///
/// # Errors
/// Returns `carton/symlink` if it leads to none of the files.
pub(super) fn end_of_link<'a>(
    files: &'a BTreeMap<String, FileToPack>,
    link: &'a str,
) -> Result<&'a str> {
    let mut at = link;
    for _ in 0..files.len().min(MAX_STEPS + 1) {
        let Some((path, part)) = files.get_key_value(at) else { break };
        let Source::Link { text, .. } = &part.source else { return Ok(path) };
        let next = target_path(path, text).ok().and_then(|next| files.get_key_value(&next));
        let Some((next, _)) = next else { break };
        at = next;
    }
    Err(SYMLINK.broken(format!("`{}` leads to no file of the package", link.escaped())))
}
