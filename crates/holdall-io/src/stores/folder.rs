//! Uploading folders to an object store: the file by which the model is opened is uploaded last.

use super::upload::{Upload, temporary};
use super::{Address, Stores, open::Store};
use crate::error::{EXISTS, SHARDS_TARGET, io};
use crate::http::{Client, HttpRequest, Policy, retrying};
use crate::temporary::Temporary;
use holdall_core::{Error, Limits, Result};
use holdall_formats::FORMATS;
use holdall_formats::Format;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A model of several files that will be uploaded to an object store. Any writer fills a local temporary folder, and
/// [`StagedFolder::publish`] uploads it. Dropping it before that leaves no traces.
///
/// In a store, a folder cannot appear in one step. The file by which a model is opened (the index, or the first part)
/// is therefore uploaded after all others, so that a reader finds either the complete model or none. If a model is
/// replaced, that file is removed first.
#[derive(Debug)]
pub struct StagedFolder {
    /// The address, whose key is empty or ends with a slash.
    address: Address,
    stores: Stores,
    policy: Policy,
    overwrite: bool,
    path: PathBuf,
    /// Removed on drop.
    _folder: Temporary,
}

impl Stores {
    /// Starts a folder that will be uploaded to an address such as `s3://bucket/model/`.
    ///
    /// # Errors
    /// Returns a `Misuse` error if there are objects below the address and `overwrite` is not set; errors of the store.
    pub fn stage_folder(
        &self,
        text: &str,
        policy: &Policy,
        overwrite: bool,
    ) -> Result<StagedFolder> {
        let mut address = Address::parse(text).map_err(|e| e.in_source(super::redacted(text)))?;
        if !address.is_folder() {
            address.key.push('/');
        }
        let shown = address.to_string();
        let begin = || {
            self.store(&address, policy)?.check_writable()?;
            if !overwrite && self.has_any(&address, policy)? {
                return Err(SHARDS_TARGET.broken("there are objects below this address"));
            }
            let folder = temporary()?;
            // The writer creates the folder `model` in it.
            let (path, policy) = (folder.path().join("model"), policy.clone());
            let (address, stores) = (address.clone(), self.clone());
            Ok(StagedFolder { address, stores, policy, overwrite, path, _folder: folder })
        };
        begin().map_err(|e: Error| e.in_source(shown))
    }
}

impl StagedFolder {
    /// Returns the path at which the folder is to be created.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Uploads the files of the folder. If that fails, removes those that were uploaded.
    ///
    /// # Errors
    /// Returns a `Misuse` error if an object exists and may not be replaced; errors of the store; an `Io` error.
    pub fn publish(self) -> Result<()> {
        let name = self.address.to_string();
        let run = || {
            let names = files(&self.path)?;
            let store = self.stores.store(&self.address, &self.policy)?;
            let old = match self.overwrite {
                true => self.old()?,
                false => Vec::new(),
            };
            // From here on no model can be opened until the new one is complete.
            let (first, then): (Vec<_>, Vec<_>) = old.iter().partition(|name| opens(name));
            first.iter().try_for_each(|name| self.remove(&store, name))?;
            for (at, name) in names.iter().enumerate() {
                if let Err(e) = self.upload(&store, name) {
                    // Errors of removing are ignored, because the first error matters more. The file whose upload
                    // failed is removed too, because only its response may be lost, unless the object belongs to a
                    // concurrent writer.
                    let end = at + usize::from(e.code() != EXISTS.code);
                    names[..end].iter().rev().for_each(|name| drop(self.remove(&store, name)));
                    return Err(e);
                }
            }
            let is_left = |name: &&&String| is_part(name) && !names.contains(name);
            then.iter().filter(is_left).try_for_each(|name| self.remove(&store, name))
        };
        run().map_err(|e| e.in_source(name))
    }

    /// Returns the names of the objects directly in the folder, an index first.
    fn old(&self) -> Result<Vec<String>> {
        let key = &self.address.key;
        let all = self.stores.below(&self.address, key, &self.policy, &Limits::default())?;
        let own = all.into_iter().filter_map(|(all, _)| Some(all.strip_prefix(key)?.to_owned()));
        let mut own: Vec<String> =
            own.filter(|name| !name.is_empty() && !name.contains('/')).collect();
        own.sort_by_key(|name| (!is_index(name), name.clone()));
        Ok(own)
    }

    fn upload(&self, store: &Arc<dyn Store>, name: &str) -> Result<()> {
        let failed = |e| io(e, "reading the file to upload");
        let file = File::open(self.path.join(name)).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let client = Client::new(&self.policy).with_service(store.clone());
        let url = store.url(&format!("{}{name}", self.address.key))?;
        store.upload(&Upload { client, url, file, len, overwrite: self.overwrite })
    }

    fn remove(&self, store: &Arc<dyn Store>, name: &str) -> Result<()> {
        let client = Client::new(&self.policy).with_service(store.clone());
        let url = store.url(&format!("{}{name}", self.address.key))?;
        let request = HttpRequest::new("DELETE", url, b"");
        retrying(&self.policy.timeouts, || {
            let mut answer = client.send(&request)?;
            match answer.status {
                200..=299 | 404 => Ok(()),
                _ => Err(answer.refused()),
            }
        })
    }
}

/// Returns the names of the files in a folder without subfolders, sorted, with the one by which the model is opened
/// last.
fn files(folder: &Path) -> Result<Vec<String>> {
    let failed = |e| io(e, "reading the folder to upload");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        match (entry.file_name().into_string(), entry.file_type().map_err(failed)?.is_file()) {
            (Ok(name), true) => all.push(name),
            (name, _) => {
                let name = name.unwrap_or_else(|name| name.to_string_lossy().into_owned());
                let e = format!("`{}` is not a file that can be uploaded", name.escape_debug());
                return Err(SHARDS_TARGET.broken(e));
            }
        }
    }
    let has_index = all.iter().any(|name| is_index(name));
    let is_last = |name: &str| if has_index { is_index(name) } else { opens(name) };
    all.sort_by_key(|name| (is_last(name), name.clone()));
    Ok(all)
}

/// Returns `true` if a model can be opened by a file of this name: its index, its first part, or its only file.
fn opens(name: &str) -> bool {
    is_index(name) || is_part(name) && (name.contains("-00001-of-") || !name.contains("-of-"))
}

fn is_index(name: &str) -> bool {
    is_part(name) && name.ends_with(".index.json")
}

/// Returns `true` if the name has the form of the files of a model: `model-00001-of-00002.gguf`, `model.safetensors`,
/// or the index.
fn is_part(name: &str) -> bool {
    let own = name.strip_suffix(".index.json").unwrap_or(name);
    let Some((stem, extension)) = own.rsplit_once('.') else { return false };
    let five = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    let numbers = || stem.strip_prefix("model-").and_then(|part| part.split_once("-of-"));
    let has_shards =
        |format: &Format| format.shards.is_some() && format.extensions.contains(&extension);
    FORMATS.iter().any(|format| has_shards(format))
        && (stem == "model" || numbers().is_some_and(|(n, count)| five(n) && five(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_opens_a_model_is_uploaded_last() {
        let folder = tempfile::tempdir().unwrap();
        let select = |names: &[&str]| {
            for name in names {
                std::fs::write(folder.path().join(name), b"").unwrap();
            }
            let all = files(folder.path()).unwrap();
            names.iter().for_each(|name| std::fs::remove_file(folder.path().join(name)).unwrap());
            all
        };
        let shards =
            ["model-00002-of-00003.gguf", "model-00003-of-00003.gguf", "model-00001-of-00003.gguf"];
        assert_eq!(select(&["model-00001-of-00003.gguf", shards[0], shards[1]]), shards);
        let index = "model.safetensors.index.json";
        let first = "model-00001-of-00002.safetensors";
        assert_eq!(select(&[index, "x", first, "zz"]), [first, "x", "zz", index]);
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        assert_eq!(files(folder.path()).unwrap_err().code(), "shards/target");
        for (name, is) in [
            ("model-00001-of-00003.safetensors", true),
            ("model.safetensors.index.json", true),
            ("model.gguf", true),
            ("model-1-of-3.gguf", false),
            ("other.safetensors", false),
            ("model", false),
            ("models.gguf", false),
            ("model.py", false),
            ("model.json", false),
            ("model.onnx", false),
            ("model-00001-of-00002.txt", false),
        ] {
            assert_eq!(is_part(name), is, "{name}");
        }
    }
}
