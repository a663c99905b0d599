//! Files whose tensors have their bytes in others beside them, opened with those: ONNX models with external data, zTensor 2
//! with shards, checkpoints of TensorFlow.

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
use holdall_core::error::Shown as _;
use holdall_core::{Error, Result, Rule, Window};
use holdall_formats::ExternalFiles;
#[cfg(feature = "onnx")]
use holdall_formats::onnx::{EXTERNAL, Graph, locations};
use holdall_formats::shards;
#[cfg(feature = "ztensor2")]
use holdall_formats::ztensor2::{self, Objects};
#[cfg(feature = "onnx")]
use std::path::Path;
use std::sync::Arc;

/// Whether what is wrong is that bytes are in another file.
pub(crate) fn is_away(e: &Error) -> bool {
    holdall_formats::FORMATS
        .iter()
        .filter_map(|format| format.beside)
        .any(|of| of.away.code == e.code())
}

/// The digest of what a file holds, however it lies in it; nothing where its format defines none, or the file lacks what it takes.
///
/// # Errors
/// What its source fails with.
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

/// What a file of zTensor 2 holds, where it is the shard of that name.
///
/// # Errors
/// What is wrong with the file.
#[cfg(feature = "ztensor2")]
pub fn objects_of(source: &dyn ByteSource, limits: &Limits, shard: &str) -> Result<Objects> {
    let mut window = Window::new(source.len());
    fetch_ends(source, &mut window)?;
    fetched(source, &mut window, |window| ztensor2::objects_of(window, limits, shard))
}

/// Returns what a file of zTensor 2 states of its shards, or `None` if it has tensors besides them.
///
/// # Errors
/// What is wrong with the file.
#[cfg(feature = "ztensor2")]
pub fn root(model: &File) -> Result<Option<ztensor2::Root>> {
    let Some(source) = model.all_sources().first() else { return Ok(None) };
    let mut window = Window::new(source.len());
    fetch_ends(&**source, &mut window)?;
    let read = |window: &Window| ztensor2::Root::read(window, model.limits());
    fetched(&**source, &mut window, read).map_err(|e| e.in_source(model.name()))
}

/// A model into which weights are to be written.
///
/// # Errors
/// What its source fails with, and what is wrong with it.
#[cfg(feature = "onnx")]
pub fn graph(model: &File) -> Result<Graph> {
    let read = |window: &Window| holdall_formats::onnx::graph(window, model.limits());
    of_model(model, read).map_err(|e| e.in_source(model.name()))
}

/// The files beside the model at `path`, as it names them; none where there is no model.
#[cfg(feature = "onnx")]
pub fn beside(path: &Path) -> Vec<String> {
    let limits = Limits::default();
    let all =
        OpenOptions::new().open(path).and_then(|model| of_model(&model, |w| locations(w, &limits)));
    all.unwrap_or_default()
}

#[cfg(feature = "onnx")]
fn of_model<T>(model: &File, read: impl Fn(&Window) -> Result<T, Stop>) -> Result<T> {
    let Some(source) = model.all_sources().first() else {
        return Err(EXTERNAL.broken("there is nothing to read it from"));
    };
    let mut window = Window::new(source.len());
    fetch_ends(&**source, &mut window)?;
    fetched(&**source, &mut window, read)
}

impl OpenOptions {
    /// Returns a file with those beside it that it names, if it names some.
    pub(crate) fn with_external(&self, file: File, site: &Site) -> Result<File> {
        let beside = holdall_formats::by_name(file.format()).and_then(|format| format.beside);
        let Some(ExternalFiles { outside, names, path: path_of, decode, .. }) = beside else {
            return Ok(file);
        };
        if !shards::is_away(file.index()) {
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
            let found = self.beside(folder, own, &path, is_many, outside)?;
            Ok(found.map(|source| (name, source)))
        })?;
        // What is not there stays the fault of its tensors.
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

    /// Returns the bytes of a file beside the model `entry`, if it is there.
    fn beside(
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
            Folder::Address(_) => e.within(format!("external data `{}`", name.shown())),
            _ => e,
        });
        Ok(Some(found?.source))
    }
}

/// Returns a relative path without parts that say nothing: `./a` is `a`.
fn plain(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| *part != ".").collect();
    parts.join("/")
}
