//! Files whose tensors have their bytes in others beside them, opened with those: ONNX models with external data, zTensor 2
//! with shards, checkpoints of TensorFlow.

use crate::file::File;
use crate::index::fetch_ends;
use crate::model::ModelFile;
use crate::options::OpenOptions;
use crate::shards::{Home, MANY};
use crate::source::{ByteSource, fetched};
#[cfg(any(feature = "onnx", feature = "ztensor2"))]
use holdall_core::Limits;
#[cfg(feature = "onnx")]
use holdall_core::Stop;
use holdall_core::error::Shown as _;
use holdall_core::{Error, Result, Rule, Window};
use holdall_formats::Beside;
#[cfg(feature = "onnx")]
use holdall_formats::onnx::{EXTERNAL, Graph, locations};
use holdall_formats::shards;
#[cfg(feature = "ztensor2")]
use holdall_formats::ztensor2::{self, Objects};
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
    /// A file with those beside it that it names, where it names some.
    pub(crate) fn with_external(&self, file: File, path: &Path) -> Result<File> {
        let beside = holdall_formats::by_name(file.format()).and_then(|format| format.beside);
        let Some(Beside { outside, names, path: path_of, decode, .. }) = beside else {
            return Ok(file);
        };
        if !shards::is_away(file.index()) {
            return Ok(file);
        }
        let (home, own) = Home::of(path);
        let shown = file.name().to_owned();
        let Some(source) = file.all_sources().first().cloned() else { return Ok(file) };
        let mut window = Window::new(source.len());
        fetch_ends(&*source, &mut window)?;
        let names = fetched(&*source, &mut window, |window| names(window, self.limits()))?;
        let is_many = names.len() > MANY;
        let found = home.each(names, |name| {
            let found = self.beside(&home, &path_of(own, &name), path, is_many, outside)?;
            Ok(found.map(|source| (name, source)))
        })?;
        // What is not there stays the fault of its tensors.
        let (mut files, mut sources) = (Vec::new(), vec![source.clone()]);
        let mut external = Vec::new();
        for (name, source) in found.into_iter().flatten() {
            external.push(home.join(&path_of(own, &name)));
            files.push((name, source.len()));
            sources.push(source);
        }
        let index = fetched(&*source, &mut window, |window| decode(window, self.limits(), &files));
        let index = index.and_then(|index| self.judged(index)).map_err(|e| e.in_source(&shown))?;
        let all = ModelFile::with_external(path, external);
        Ok(self.open_index(index, sources, shown)?.with_files(all))
    }

    /// A file beside a model, where it is there.
    fn beside(
        &self,
        home: &Home,
        name: &str,
        model: &Path,
        is_many: bool,
        outside: &'static Rule,
    ) -> Result<Option<Arc<dyn ByteSource>>> {
        let folder = match home {
            Home::Web(base, fragment) => {
                let address = format!("{base}{name}{fragment}");
                let named = |e: Error| e.within(format!("external data `{}`", name.shown()));
                return self.remote(&address).map(|(source, _)| Some(source)).map_err(named);
            }
            Home::Folder(folder) => folder,
        };
        let path = folder.join(name);
        if !path.is_file() {
            return Ok(None);
        }
        if !is_inside(&path, folder, model) {
            let message = format!("`{}` is a link out of the model's folder", name.shown());
            return Err(outside.broken(message).in_source(model.display()));
        }
        self.part(home, name, is_many).map(|(source, _)| Some(source))
    }
}

/// Whether a file is in a folder, or in the one in which the model's own file is, links followed: caches keep the files of a
/// model in one folder, and links to them in another.
fn is_inside(path: &Path, folder: &Path, model: &Path) -> bool {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let real = |path: &Path| path.canonicalize().ok();
    let Some(path) = real(path) else { return false };
    let home = real(model).and_then(|model| Some(model.parent()?.to_owned()));
    real(folder).is_some_and(|folder| path.starts_with(folder))
        || home.is_some_and(|home| path.parent() == Some(&home))
}
