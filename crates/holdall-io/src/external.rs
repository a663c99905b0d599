//! Files whose tensors have their bytes in other files of the same folder, which are opened with them: ONNX models with
//! external data, zTensor 2 files with shards, TensorFlow checkpoints.

use crate::file::File;
use crate::index::fetch_ends;
use crate::location::{Folder, Site};
use crate::model::ModelFile;
use crate::options::OpenOptions;
use crate::shards::MANY;
use crate::source::{ByteSource, fetched};
#[cfg(any(feature = "onnx", feature = "ztensor2"))]
use holdall_core::Limits;
#[cfg(feature = "onnx")]
use holdall_core::Stop;
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result, Rule, Window};
use holdall_formats::ExternalFiles;
#[cfg(feature = "onnx")]
use holdall_formats::onnx::{EXTERNAL, Graph, locations};
use holdall_formats::shards;
#[cfg(feature = "ztensor2")]
use holdall_formats::ztensor2::{self, ShardObjects};
#[cfg(feature = "onnx")]
use std::path::Path;
use std::sync::Arc;

/// Returns `true` if the error says that bytes are in another file.
pub(crate) fn has_unavailable_data(e: &Error) -> bool {
    holdall_formats::FORMATS
        .iter()
        .filter_map(|format| format.external_files)
        .any(|external| external.missing.code == e.code())
}

/// Returns the digest of a file's content, independent of its layout. `None` if the format defines no such digest, or
/// the file lacks the data for it.
///
/// # Errors
/// Returns the errors of its source.
pub fn content(file: &File) -> Result<Option<String>> {
    let content = holdall_formats::by_name(file.format()).and_then(|format| format.content);
    let (Some(content), Some(source)) = (content, file.all_sources().first()) else {
        return Ok(None);
    };
    let mut window = Window::new(source.len());
    fetch_ends(&**source, &mut window)?;
    let found = fetched(&**source, &mut window, |window| content(window, file.limits()));
    found.map_err(|e| e.in_source(file.name()))
}

/// Returns the objects of a zTensor 2 file that is the shard with this name.
///
/// # Errors
/// Returns the errors in the file.
#[cfg(feature = "ztensor2")]
pub fn shard_objects(
    source: &dyn ByteSource,
    limits: &Limits,
    shard: &str,
) -> Result<ShardObjects> {
    let mut window = Window::new(source.len());
    fetch_ends(source, &mut window)?;
    fetched(source, &mut window, |window| ztensor2::shard_objects(window, limits, shard))
}

/// Returns what a zTensor 2 file states about its shards. `None` if it also has tensors of its own.
///
/// # Errors
/// Returns the errors in the file.
#[cfg(feature = "ztensor2")]
pub fn root(model: &File) -> Result<Option<ztensor2::Root>> {
    let Some(source) = model.all_sources().first() else { return Ok(None) };
    let mut window = Window::new(source.len());
    fetch_ends(&**source, &mut window)?;
    let read = |window: &Window| ztensor2::Root::read(window, model.limits());
    fetched(&**source, &mut window, read).map_err(|e| e.in_source(model.name()))
}

/// Reads an ONNX model into which weights are to be written.
///
/// # Errors
/// Returns the errors of its source, and errors in the model.
#[cfg(feature = "onnx")]
pub fn graph(model: &File) -> Result<Graph> {
    let read = |window: &Window| holdall_formats::onnx::graph(window, model.limits());
    read_model(model, read).map_err(|e| e.in_source(model.name()))
}

/// Returns the external files that the ONNX model at `path` names. Empty if there is no such model.
#[cfg(feature = "onnx")]
pub fn named_files(path: &Path) -> Vec<String> {
    let limits = Limits::default();
    let all = OpenOptions::new()
        .open(path)
        .and_then(|model| read_model(&model, |w| locations(w, &limits)));
    all.unwrap_or_default()
}

#[cfg(feature = "onnx")]
fn read_model<T>(model: &File, read: impl Fn(&Window) -> Result<T, Stop>) -> Result<T> {
    let Some(source) = model.all_sources().first() else {
        return Err(EXTERNAL.broken("the model has no source to read from"));
    };
    let mut window = Window::new(source.len());
    fetch_ends(&**source, &mut window)?;
    fetched(&**source, &mut window, read)
}

impl OpenOptions {
    /// Adds the external files that a file names, if there are any.
    pub(crate) fn with_external(&self, file: File, site: &Site) -> Result<File> {
        let beside =
            holdall_formats::by_name(file.format()).and_then(|format| format.external_files);
        let Some(ExternalFiles { outside, names, path: path_of, decode, .. }) = beside else {
            return Ok(file);
        };
        if !shards::has_unavailable_data(file.index()) {
            return Ok(file);
        }
        let (folder, own) = (&site.folder, site.name.as_str());
        let shown = file.name().to_owned();
        let Some(source) = file.all_sources().first().cloned() else { return Ok(file) };
        let mut window = Window::new(source.len());
        fetch_ends(&*source, &mut window)?;
        let names = fetched(&*source, &mut window, |window| names(window, self.limits()))?;
        let is_many = names.len() > MANY;
        let found = folder.each(names, |name| {
            let path = plain(&path_of(own, &name));
            let found = self.open_external(folder, own, &path, is_many, outside)?;
            Ok(found.map(|source| (name, source)))
        })?;
        // If a file does not exist, its tensors keep their fault.
        let (mut files, mut sources) = (Vec::new(), vec![source.clone()]);
        let mut external = Vec::new();
        for (name, source) in found.into_iter().flatten() {
            external.push(folder.locate(&plain(&path_of(own, &name))));
            files.push((name, source.len()));
            sources.push(source);
        }
        let index = fetched(&*source, &mut window, |window| decode(window, self.limits(), &files));
        let index =
            index.and_then(|index| self.check_faults(index)).map_err(|e| e.in_source(&shown))?;
        let all = ModelFile::with_external(site.location.clone(), external);
        Ok(self.open_index(index, sources, shown)?.with_files(all))
    }

    /// Returns the bytes of an external file of the model `entry`, if it exists.
    fn open_external(
        &self,
        folder: &Folder,
        entry: &str,
        name: &str,
        is_many: bool,
        outside: &'static Rule,
    ) -> Result<Option<Arc<dyn ByteSource>>> {
        if folder.has(name) == Some(false) {
            return Ok(None);
        }
        folder.check_links(entry, std::slice::from_ref(&name), outside)?;
        let found = folder.find(self, name, is_many).map_err(|e| match folder {
            Folder::Address(_) => e.within(format!("external data `{}`", name.escaped())),
            _ => e,
        });
        Ok(Some(found?.source))
    }
}

/// Removes `.` segments from a relative path: `./a` becomes `a`.
fn plain(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| *part != ".").collect();
    parts.join("/")
}
