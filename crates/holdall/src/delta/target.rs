//! Writing the result of a delta: one file, or a folder with the files of the base.

use holdall_core::{Encode, Encoding, Result, TensorSpec};
use holdall_formats::shards::index_text;
use holdall_formats::{Format, Shards};
use holdall_io::error::{SHARDS_TARGET, io};
use holdall_io::items::{self, Item, Sharing};
use holdall_io::sink::{FileSink, FolderSink, Sink as _, check_space};
use holdall_io::{File, FileRole, WriteOptions, Writer};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// A result that is to be written.
pub(super) struct Target {
    path: PathBuf,
    write: WriteOptions,
    encoder: Box<dyn Encode>,
    folder: Option<SourceFolder>,
}

/// The folder of a model in several files, whose division the result gets.
struct SourceFolder {
    format: &'static Format,
    path: PathBuf,
    /// The name of the index.
    index: String,
    /// The names of the files with tensors.
    names: Vec<String>,
    /// The file of each tensor, as an index into `names`.
    of_tensors: HashMap<String, usize>,
}

impl Target {
    /// Creates the target at `path`. It is a folder if the path has no extension, no format is chosen, and the model in `start` has an
    /// index and files of its format.
    ///
    /// # Errors
    /// Returns Misuse if the format is unknown, or if the path exists and is not to be overwritten.
    pub(super) fn new(start: &File, path: &Path, write: WriteOptions) -> Result<Target> {
        let is_folder = write.format().is_none() && path.extension().is_none();
        let folder = SourceFolder::new(start).filter(|_| is_folder);
        let format = match &folder {
            Some(folder) => {
                FolderSink::check(path, write.overwrite, &SHARDS_TARGET)?;
                check_folders(&folder.path, path)?;
                folder.format
            }
            None => write.format_for(path)?,
        };
        let encoder = write.encoder(format)?;
        let write = write.with_format(format);
        Ok(Target { path: path.to_owned(), write, encoder, folder })
    }

    pub(super) fn write(&self) -> &WriteOptions {
        &self.write
    }

    pub(super) fn encoder(&self) -> &dyn Encode {
        &*self.encoder
    }

    /// Writes the tensors; the result appears when it is complete. A folder states `version`, if there is one. Returns the number of
    /// bytes.
    ///
    /// # Errors
    /// Returns the errors of computing a tensor; the rules of the format; Io.
    pub(super) fn finish(self, made: Vec<Item>, version: Option<u64>) -> Result<u64> {
        for made in &made {
            let in_context = |e: holdall_core::Error| e.in_source(self.path.display());
            self.encoder.check_tensor(&made.spec).map_err(in_context)?;
        }
        // How much compressed components take is not known before they are written.
        if self.write.encoding() == Encoding::Raw {
            let own = made.iter().flat_map(|item| &item.spec.components);
            let len = own.map(|c| c.decoded_len).fold(0, u64::saturating_add);
            let others = self.folder.as_ref().map_or(Ok(0), SourceFolder::len_of_others)?;
            check_space(&self.path, len.saturating_add(others))?;
        }
        match self.folder {
            None => write_file(&self.path, made, self.encoder, &self.write, self.write.overwrite),
            Some(folder) => folder.write(&self.path, made, &self.write, version),
        }
    }
}

/// Writes tensors to a file, which appears when it is complete. Returns its length.
pub(super) fn write_file(
    path: &Path,
    made: Vec<Item>,
    encoder: Box<dyn Encode>,
    write: &WriteOptions,
    overwrite: bool,
) -> Result<u64> {
    let made = items::arrange(made, &*encoder, Sharing::Keep)?;
    let specs: Vec<TensorSpec> = made.iter().map(|item| item.spec.clone()).collect();
    let sink = FileSink::create(path, overwrite, write.durability)?;
    let mut writer = Writer::new(sink, encoder, write);
    writer.declare(&specs)?;
    items::write(&mut writer, made, &write.work)?;
    let finished = writer.close()?;
    let len = finished.len();
    finished.publish()?;
    Ok(len)
}

impl SourceFolder {
    /// Returns the bytes of the other files in the folder, without those in its subfolders.
    fn len_of_others(&self) -> Result<u64> {
        let failed = |e| io(e, "reading the folder").in_source(self.path.display());
        let mut len = 0u64;
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_own = self.names.iter().any(|name| entry.file_name() == name.as_str());
            let found = std::fs::metadata(entry.path()).ok().filter(|found| found.is_file());
            len = len.saturating_add(found.filter(|_| !is_own).map_or(0, |found| found.len()));
        }
        Ok(len)
    }

    fn new(start: &File) -> Option<SourceFolder> {
        let format = holdall_formats::by_name(start.format())?;
        if !matches!(format.shards, Some(Shards::Index)) {
            return None;
        }
        let local = |role: fn(FileRole) -> bool| {
            start.files().iter().filter(move |file| role(file.role)).map(|file| &file.location)
        };
        let index = local(|role| role == FileRole::Index).next()?;
        let path = index.as_path()?.parent()?.to_owned();
        let mut names = Vec::new();
        let mut of_sources = HashMap::new();
        for file in start.files() {
            if let FileRole::Shard(_) = file.role {
                // A file in another folder cannot have its name in the new one.
                let own = file.location.as_path()?;
                if own.parent() != Some(path.as_path()) {
                    return None;
                }
                of_sources.insert(file.source?, names.len());
                names.push(file.location.file_name().to_owned());
            }
        }
        let of_tensors = start.tensors().filter_map(|tensor| {
            let source = tensor.components().next()?.stored.source;
            let file = of_sources.get(&usize::try_from(source).ok()?)?;
            Some((tensor.name().to_owned(), *file))
        });
        let of_tensors = of_tensors.collect();
        Some(SourceFolder { format, path, index: index.file_name().to_owned(), names, of_tensors })
    }

    fn write(
        &self,
        path: &Path,
        made: Vec<Item>,
        write: &WriteOptions,
        version: Option<u64>,
    ) -> Result<u64> {
        let format = self.format;
        let sink = FolderSink::create(path, write.overwrite, &SHARDS_TARGET)?;
        let last = self.names.len().saturating_sub(1);
        let mut of_files: Vec<Vec<Item>> = self.names.iter().map(|_| Vec::new()).collect();
        let (mut map, mut total, mut len) = (BTreeMap::new(), 0u64, 0u64);
        for item in made {
            let at = self.of_tensors.get(&item.spec.name).copied().unwrap_or(last);
            let bytes = item.spec.components.iter().map(|c| c.decoded_len);
            total = total.saturating_add(bytes.fold(0, u64::saturating_add));
            map.insert(item.spec.name.clone(), self.names[at].clone());
            of_files[at].push(item);
        }
        for (name, items) in self.names.iter().zip(of_files) {
            let to = sink.path().join(name);
            let written = write_file(&to, items, write.encoder(format)?, write, false)?;
            len = len.saturating_add(written);
        }
        let mut add = |name: &str, text: &str| -> Result<()> {
            let mut to = FileSink::create(&sink.path().join(name), false, write.durability)?;
            to.append(text.as_bytes())?;
            len = len.saturating_add(text.len() as u64);
            to.finish()
        };
        add(&self.index, &index_text(&map, total))?;
        if let Some(version) = version {
            let state = super::updates::STATE;
            let parent = sink.path().join(state);
            let parent = parent.parent().unwrap_or(sink.path());
            std::fs::create_dir_all(parent)
                .map_err(|e| io(e, "creating").in_source(path.display()))?;
            add(state, &format!("{{\"version\": \"{version:06}\"}}\n"))?;
        }
        let mut own: HashSet<&str> =
            self.names.iter().map(String::as_str).chain([self.index.as_str()]).collect();
        if version.is_some() {
            own.extend(super::updates::STATE.split('/').next());
        }
        copy_others(&self.path, sink.path(), &own, 0)?;
        sink.finish(write.durability)?;
        Ok(len)
    }
}

/// Checks that the result does not replace the base, and is not in its folder, of which all files are copied.
fn check_folders(base: &Path, path: &Path) -> Result<()> {
    let Ok(base) = base.canonicalize() else { return Ok(()) };
    if path.canonicalize().is_ok_and(|own| own == base) {
        let message = "the base is in this folder, which would be replaced";
        return Err(SHARDS_TARGET.broken(message).in_source(path.display()));
    }
    // The folders above a new one need not exist.
    let above = path.ancestors().skip(1).map(|folder| match folder == Path::new("") {
        true => Path::new("."),
        false => folder,
    });
    let existing = { above }.find_map(|folder| folder.canonicalize().ok());
    if existing.is_some_and(|folder| folder.starts_with(&base)) {
        let message = "it lies in the folder of the base, whose files are copied";
        let e = SHARDS_TARGET.broken(message).in_source(path.display());
        return Err(e.with_hint("name a folder outside that of the base"));
    }
    Ok(())
}

/// The most folders that lie in each other: a link to a folder may lead round.
const MAX_DEPTH: usize = 16;

/// Copies the other files of a model's folder, with its subfolders and the contents of links. The history of `git` is not
/// part of a model.
fn copy_others(from: &Path, to: &Path, own: &HashSet<&str>, depth: usize) -> Result<()> {
    let failed = |e| io(e, "copying the files of the folder").in_source(from.display());
    if depth > MAX_DEPTH {
        let message = format!("more than {MAX_DEPTH} folders lie in each other");
        return Err(SHARDS_TARGET.broken(message).in_source(from.display()));
    }
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if own.contains(&*name.to_string_lossy()) || name == ".git" {
            continue;
        }
        let (source, target) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            std::fs::create_dir_all(&target).map_err(failed)?;
            copy_others(&source, &target, &HashSet::new(), depth + 1)?;
        } else if source.is_file() {
            std::fs::copy(&source, &target).map_err(failed)?;
        } else {
            let message = "it is neither a file nor a folder, so it cannot be copied";
            return Err(SHARDS_TARGET.broken(message).in_source(source.display()));
        }
    }
    Ok(())
}
