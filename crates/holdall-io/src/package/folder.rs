//! Unpacked folders: their files and texts.

use super::rules::LINK_OUT;
use crate::error::{NOT_REGULAR, io};
use holdall_core::{Error, Limits, Result};
use holdall_package::{
    CARTON_TOML, FoundPath, LINKS_NAME, MANIFEST_NAME, TENSOR_INDEX, Texts,
    rules::{PATH, TOO_MANY_FILES},
};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The greatest depth of nested folders. (Followed symbolic links may form a cycle.)
const MAX_DEPTH: u32 = 64;

/// How symbolic links in a folder are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Links are kept as links of the package.
    Kept,
    /// Links are followed if their target is in the folder; others are an error.
    Inside,
    /// All links are followed.
    Followed,
}

/// Returns the files in the folder `root` and its subfolders, in no particular order.
pub fn files(root: &Path, links: Links, limits: &Limits) -> Result<Vec<FoundPath<'static>>> {
    files_except(root, links, limits, &mut |_, _| false)
}

/// Returns the files in the folder `root` and its subfolders, except those for which `leaves_out` returns `true`. It is
/// called with the path of each file and folder (which ends with `/`) below `root`, and with the target of symbolic
/// links.
pub fn files_except(
    root: &Path,
    links: Links,
    limits: &Limits,
    leaves_out: &mut dyn FnMut(&str, Option<&Path>) -> bool,
) -> Result<Vec<FoundPath<'static>>> {
    let mut out = Vec::new();
    let whole = root.canonicalize().map_err(|e| failed(e, "opening", root))?;
    let mut folders = vec![(root.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        let entries = folder.read_dir().map_err(|e| failed(e, "listing", &folder))?;
        for entry in entries {
            let entry = entry.map_err(|e| failed(e, "listing", &folder))?;
            let from = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                return Err(PATH.broken("a file name is not UTF-8").in_source(from.display()));
            };
            let path = format!("{prefix}{name}");
            let mut meta = from.symlink_metadata().map_err(|e| failed(e, "opening", &from))?;
            let is_folder = match meta.is_symlink() {
                true => from.is_dir(),
                false => meta.is_dir(),
            };
            let shown = if is_folder { format!("{path}/") } else { path.clone() };
            let leads_to = meta.is_symlink().then(|| from.read_link().unwrap_or_default());
            if leaves_out(&shown, leads_to.as_deref()) {
                continue;
            }
            let is_followed = meta.is_symlink() && links != Links::Kept;
            if is_followed {
                let to = from.canonicalize().map_err(|e| failed(e, "opening", &from))?;
                if links == Links::Inside && !to.starts_with(&whole) {
                    let e = LINK_OUT.broken("the symbolic link leads out of the folder");
                    return Err(e.in_source(from.display()));
                }
                meta = from.metadata().map_err(|e| failed(e, "opening", &from))?;
            }
            if meta.is_dir() {
                if depth >= MAX_DEPTH {
                    let message = format!("folders are nested more than {MAX_DEPTH} deep");
                    return Err(PATH.broken(message).in_source(from.display()));
                }
                folders.push((from, format!("{path}/"), depth + 1));
                continue;
            }
            if !meta.is_file() && !meta.is_symlink() {
                let e = NOT_REGULAR.broken("this is a pipe or a device, not a regular file");
                return Err(e.in_source(from.display()));
            }
            let text = leads_to.as_deref().map(Path::to_str);
            if text == Some(None) && !is_followed {
                let e = PATH.broken("the target of a symbolic link is not UTF-8");
                return Err(e.in_source(from.display()));
            }
            let target = text.flatten().map(|to| to.replace(std::path::MAIN_SEPARATOR, "/"));
            out.push(FoundPath { path: path.into(), len: meta.len(), target, index: out.len() });
            if out.len() as u64 > limits.files {
                let message = format!("more than {} files", limits.files);
                return Err(TOO_MANY_FILES.broken(message));
            }
        }
    }
    Ok(out)
}

/// Returns the files of an unpacked package, and its texts.
pub fn read(root: &Path, limits: &Limits) -> Result<(Vec<FoundPath<'static>>, Texts)> {
    let found = files(root, Links::Kept, limits)?;
    let text = |name: &str| match found.iter().find(|file| file.path == name) {
        Some(file) if file.target.is_none() => self::text(&root.join(name), limits).map(Some),
        Some(_) => {
            let rule = &holdall_package::rules::SYMLINK;
            Err(rule.broken(format!("`{name}` is a link")))
        }
        None => Ok(None),
    };
    let texts = Texts {
        description: text(CARTON_TOML)?,
        manifest: text(MANIFEST_NAME)?,
        links: text(LINKS_NAME)?,
        tensors: text(TENSOR_INDEX)?,
        are_unpacked: true,
    };
    Ok((found, texts))
}

/// Reads a text that describes the package.
pub fn text(path: &Path, limits: &Limits) -> Result<bytes::Bytes> {
    let file = File::open(path).map_err(|e| failed(e, "opening", path))?;
    let mut out = Vec::new();
    let most = limits.text_len;
    file.take(most.saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|e| failed(e, "reading", path))?;
    if out.len() as u64 > most {
        let rule = &holdall_core::wire::toml::LEN;
        let message = format!("it has more than {most} bytes");
        return Err(rule.broken(message).in_source(path.display()));
    }
    Ok(out.into())
}

#[cold]
fn failed(e: std::io::Error, what: &str, path: &Path) -> Error {
    io(e, what).in_source(path.display())
}
