//! Models of several files, opened as one: folders, index files that say which tensor is in which file, and the parts of a
//! split GGUF file. Distributed checkpoints have a module of their own.

use crate::arrays::Reopened;
#[cfg(feature = "gguf")]
use crate::error::SPLIT;
use crate::error::{
    NO_MODEL, SHARD_INDEX, SHARD_MISSING, SHARD_OUTSIDE, SHARD_TENSOR, io as failed,
};
use crate::file::File;
use crate::open::{OpenOptions, index};
use crate::source::{ByteSource, FileSource};
use crate::workers;
use holdall_core::error::Shown as _;
use holdall_core::error::hash::HashSet;
use holdall_core::formats::by_name;
#[cfg(feature = "gguf")]
use holdall_core::formats::gguf::Part;
use holdall_core::model::Warning;
use holdall_core::{Attributes, Format, Index, IndexBuilder, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod map;
use map::{KERAS, Map};

/// Of more files than this each is opened when it is read, not before.
pub(crate) const MANY: usize = 64;
/// Files at addresses that are opened at once: each takes a round trip or two.
const AT_ONCE: usize = 32;
/// What the names of index files end in.
const INDEX: &str = ".index.json";
/// The most bytes of an index file.
const MAX_INDEX: u64 = 10 << 20;
/// The index files that are looked for first, of those in a folder.
const FIRST: [&str; 3] = [
    "model.safetensors.index.json",
    "diffusion_pytorch_model.safetensors.index.json",
    "pytorch_model.bin.index.json",
];
/// Files of a whole model that count before the index of a model beside them, as in transformers' `from_pretrained`.
const WHOLE: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];
/// What the names of index files of pickles end in.
const PICKLES: &str = ".bin.index.json";

/// Where the files of a model are.
pub(crate) enum Home {
    Folder(PathBuf),
    /// An address, up to the last `/`, and what follows the name: `#` and a fragment, or nothing.
    Web(String, String),
}

impl Home {
    /// Where the file at `path` is, and its name there.
    pub(crate) fn of(path: &Path) -> (Home, &str) {
        if let Some(url) = crate::http::is_url(path) {
            // In keys of object stores `?` and `#` are characters like others.
            let is_key = crate::stores::is_address(url);
            let end = if is_key { None } else { url.find('#') };
            let (address, fragment) = url.split_at(end.unwrap_or(url.len()));
            let address = match is_key {
                true => address,
                false => address.split('?').next().unwrap_or_default(),
            };
            let (base, name) = address.rsplit_once('/').unwrap_or_default();
            return (Home::Web(format!("{base}/"), fragment.to_owned()), name);
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        (Home::Folder(path.parent().unwrap_or(Path::new("")).to_owned()), name)
    }

    /// Where the file of that name is.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        match self {
            Home::Folder(folder) => folder.join(name),
            Home::Web(base, fragment) => PathBuf::from(format!("{base}{name}{fragment}")),
        }
    }

    /// What becomes of each of several files, in their order: one for each core at once; many, where each is waited for.
    pub(crate) fn each<J: Send, T: Send>(
        &self,
        files: Vec<J>,
        open: impl Fn(J) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let at_once = match self {
            Home::Folder(_) => workers::threads(None),
            Home::Web(..) => AT_ONCE,
        };
        workers::map(at_once, files, open)
    }

    pub(crate) fn shown(&self) -> String {
        match self {
            Home::Folder(folder) => folder.display().to_string(),
            Home::Web(base, _) => base.clone(),
        }
    }
}

/// The folder that an address of an object store is.
#[cfg(feature = "stores")]
fn folder_of(address: &str) -> Home {
    Home::Web(format!("{}/", address.trim_end_matches('/')), String::new())
}

/// A file of a model: where its bytes come from, and what it contains.
struct Shard {
    name: String,
    source: Arc<dyn ByteSource>,
    index: Index,
    /// Tensors that the model has from other files.
    left_out: HashSet<String>,
}

impl Shard {
    /// A file all of whose tensors are the model's.
    fn new(name: &str, source: Arc<dyn ByteSource>, index: Index) -> Shard {
        Shard { name: name.to_owned(), source, index, left_out: HashSet::default() }
    }
}

/// Whether a folder holds a model: an index file, or files of tensors.
pub fn is_model_folder(path: &Path) -> bool {
    path.is_dir() && files(path).is_ok_and(|all| are_model(path, &all))
}

/// Whether these are the files of a folder that holds a model.
pub(crate) fn are_model(folder: &Path, all: &[String]) -> bool {
    !folder.join("carton.toml").exists()
        && all.iter().any(|n| is_index(n) || is_tensors(n, all) || is_chunks(n))
}

/// Whether a file of that name is an index.
fn is_index(name: &str) -> bool {
    name.ends_with(INDEX) || name.ends_with(KERAS)
}

/// Whether a file of that name describes a distributed checkpoint, in a build that reads those.
fn is_checkpoint(name: &str) -> bool {
    cfg!(feature = "pytorch") && name == ".metadata"
}

/// Whether a file of that name has items of a distributed checkpoint.
fn is_chunks(name: &str) -> bool {
    cfg!(feature = "pytorch") && name.ends_with(".distcp")
}

/// The format that the extension of a file's name says.
pub(crate) fn format_by(name: &str) -> Option<&'static Format> {
    by_name(Path::new(name).extension()?.to_str()?)
}

/// Whether a file of that name is one of tensors, in a format that is known, among these files of a folder. Single arrays are not
/// a model.
fn is_tensors(name: &str, all: &[String]) -> bool {
    // Anything is called `.bin`; of these, some are known.
    let is_known = || ["pytorch_model", "adapter_model"].iter().any(|own| name.contains(own));
    // Anything is called `.index`, too: that of a checkpoint of TensorFlow has its data beside it.
    let data = || format!("{}.data-", name.strip_suffix(".index").unwrap_or(name));
    let has_data = || all.iter().any(|other| other.starts_with(&data()));
    format_by(name).is_some_and(|f| match f.id {
        "carton" | "npy" => false,
        "tensorflow" => has_data(),
        _ => true,
    }) && (!name.ends_with(".bin") || is_known())
}

/// Whether it is of a format, by its name, that stands beside the weights of many models: pickles of them and of other things, the
/// same as a graph, arrays, the same for other frameworks.
fn is_beside(name: &str) -> bool {
    const BESIDE: [&str; 6] = ["pytorch", "onnx", "npz", "flax", "tflite", "tensorflow"];
    format_by(name).is_some_and(|f| BESIDE.contains(&f.id))
}

/// The one of these that names the others, by the names: `model.zt` of `model.zt` and `model-NAME.zt`.
fn root_of<'a>(names: &[&'a String]) -> Option<&'a str> {
    let shortest = names.iter().min_by_key(|name| name.len())?.as_str();
    let (of, extension) = shortest.rsplit_once('.')?;
    let beside = by_name("ztensor2").and_then(|format| format.beside)?;
    let is_known = |name: &str| {
        let shard = name.strip_prefix(of).and_then(|name| name.strip_suffix(extension));
        let shard = shard.and_then(|name| name.strip_prefix('-')?.strip_suffix('.'));
        name == shortest || shard.is_some_and(|shard| (beside.path)(shortest, shard) == name)
    };
    (names.len() > 1 && names.iter().all(|name| is_known(name))).then_some(shortest)
}

/// The names of the files in a folder, sorted.
pub(crate) fn files(folder: &Path) -> Result<Vec<String>> {
    let place = |e| failed(e, "reading the folder").in_source(folder.display());
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(place)? {
        let entry = entry.map_err(place)?;
        if let (Ok(name), true) = (entry.file_name().into_string(), entry.path().is_file()) {
            all.push(name);
        }
    }
    all.sort();
    Ok(all)
}

#[cfg(not(feature = "pytorch"))]
impl OpenOptions {
    /// This build reads no checkpoints.
    fn open_checkpoint(&self, home: &Home) -> Result<File> {
        Err(NO_MODEL.broken("this build reads no checkpoints of PyTorch").in_source(home.shown()))
    }
}

impl OpenOptions {
    /// Opens several files as one, in this order: shards that no index names together. Each has tensors of its own; what the
    /// first says of itself, its format among it, is said of all. One alone is opened as [`open`](Self::open) does.
    ///
    /// # Errors
    /// As [`open`](Self::open) of each; NotFound, where none is named; `index/duplicate-name`, where two have a tensor of the same name.
    pub fn open_all<P: AsRef<Path>>(&self, paths: &[P]) -> Result<File> {
        let (first, more) = match paths {
            [] => return Err(NO_MODEL.broken("no file is named")),
            [one] => return self.open(one),
            [first, more @ ..] => (first.as_ref().display(), more.len()),
        };
        let shown = format!("{first} and {more} more");
        let mut shards = Vec::with_capacity(paths.len());
        for path in paths {
            let (source, name) = self.bytes_of(path.as_ref())?;
            let index = index(&*source, self.limits()).map_err(|e| e.in_source(&name))?;
            shards.push(Shard::new(&name, source, index));
        }
        self.joined(shards, Vec::new(), shown)
    }

    /// The model of several files that `path` names: a folder, or an index file; nothing where it names neither.
    pub(crate) fn open_model(&self, path: &Path) -> Result<Option<File>> {
        let (home, name) = Home::of(path);
        match &home {
            Home::Web(..) if is_index(name) => {
                let (source, shown) = self.remote(&path.to_string_lossy())?;
                return self.of_index(&home, name, &*source, None, shown).map(Some);
            }
            Home::Web(..) if is_checkpoint(name) => return self.open_checkpoint(&home).map(Some),
            #[cfg(feature = "stores")]
            Home::Web(base, _) if crate::stores::is_address(base) => {
                let text = path.to_string_lossy();
                let is_folder = crate::stores::is_folder(&text);
                return is_folder.then(|| self.open_folder(&folder_of(&text))).transpose();
            }
            Home::Web(..) => return Ok(None),
            Home::Folder(folder) if is_index(name) && path.is_file() => {
                return self.of_file(folder, name, None, path.display().to_string()).map(Some);
            }
            Home::Folder(_) if is_checkpoint(name) && path.is_file() => {
                return self.open_checkpoint(&home).map(Some);
            }
            Home::Folder(_) => {}
        }
        match path.is_dir() {
            true => self.open_folder(&Home::Folder(path.to_owned())).map(Some),
            false => Ok(None),
        }
    }

    /// What an object store has below an address at which it has no object; nothing where there is nothing.
    #[cfg(feature = "stores")]
    pub(crate) fn open_prefix(&self, path: &Path) -> Option<Result<File>> {
        let home = folder_of(path.to_str()?);
        match self.names(&home) {
            Ok(names) if !names.is_empty() => Some(self.open_folder(&home)),
            _ => None,
        }
    }

    /// The names of the files in a folder, sorted.
    fn names(&self, home: &Home) -> Result<Vec<String>> {
        match home {
            Home::Folder(folder) => files(folder),
            #[cfg(feature = "stores")]
            Home::Web(base, _) => {
                let base = crate::stores::shown(base);
                let own = |listed: &crate::stores::Listed| {
                    let name = listed.address.strip_prefix(base.as_str())?.to_owned();
                    (!name.contains('/')).then_some(name)
                };
                let all = self.list(&base)?;
                if all.is_empty() {
                    let message = "there is nothing below this address";
                    return Err(crate::stores::rules::NO_OBJECT.broken(message).in_source(&base));
                }
                Ok(all.iter().filter_map(own).collect())
            }
            #[cfg(not(feature = "stores"))]
            Home::Web(..) => Ok(Vec::new()),
        }
    }

    fn open_folder(&self, home: &Home) -> Result<File> {
        let all = self.names(home)?;
        let shown = home.shown();
        let mut indices: Vec<&String> = all.iter().filter(|name| is_index(name)).collect();
        let mut tensors: Vec<&String> = all.iter().filter(|name| is_tensors(name, &all)).collect();
        if tensors.iter().any(|name| !is_beside(name)) {
            tensors.retain(|name| !is_beside(name));
            indices.retain(|name| !name.ends_with(PICKLES));
        }
        let first = FIRST.iter().find(|first| indices.iter().any(|name| name == *first));
        let chosen = match (first, indices.as_slice()) {
            (Some(first), _) => Some(*first),
            (None, [one]) => Some(one.as_str()),
            (None, _) => None,
        };
        if let Some(name) = chosen {
            let whole = name.strip_suffix(INDEX).filter(|own| all.iter().any(|n| n == own));
            if let Some(whole) = whole.filter(|own| WHOLE.contains(own)) {
                let shard = self.shard(home, whole)?;
                return self.joined(vec![shard], vec![two_models(whole, name)], shown);
            }
            let more = whole.map(|whole| two_models(name, whole));
            return match home {
                Home::Folder(folder) => self.of_file(folder, name, more, shown),
                Home::Web(base, _) => {
                    let (source, _) = self.remote(&format!("{base}{name}"))?;
                    self.of_index(home, name, &*source, more, shown)
                }
            };
        }
        if all.iter().any(|name| is_checkpoint(name)) && all.iter().any(|name| is_chunks(name)) {
            return self.open_checkpoint(home);
        }
        match tensors.as_slice() {
            [one] => self.open(home.join(one)),
            [first, ..]
                if parts_of(first).is_some_and(|(stem, ..)| {
                    tensors.iter().all(|name| parts_of(name).is_some_and(|(own, ..)| own == stem))
                }) =>
            {
                self.open(home.join(first))
            }
            many if root_of(many).is_some_and(|root| {
                // All the others are what it names.
                self.open(home.join(root)).is_ok_and(|file| file.all_sources().len() == many.len())
            }) =>
            {
                self.open(home.join(root_of(many).unwrap_or_default()))
            }
            // Which may be in folders of it.
            [] => match home {
                Home::Folder(folder) => self.open_arrays(folder),
                Home::Web(..) => {
                    let message = "the folder has no file of tensors, and no index of them";
                    Err(NO_MODEL.broken(message).in_source(shown))
                }
            },
            many => {
                let names: Vec<_> =
                    many.iter().take(4).map(|name| format!("`{}`", name.shown())).collect();
                let more = if many.len() > 4 { ", …" } else { "" };
                let message = format!(
                    "the folder has {} files of tensors, and no index that makes them one model: {}{more}",
                    many.len(),
                    names.join(", ")
                );
                Err(NO_MODEL.broken(message).in_source(shown))
            }
        }
    }

    /// The model of the index file of that name in a folder.
    fn of_file(
        &self,
        folder: &Path,
        name: &str,
        more: Option<Warning>,
        shown: String,
    ) -> Result<File> {
        let path = folder.join(name);
        let source = FileSource::open(&path).map_err(|e| e.in_source(path.display()))?;
        self.of_index(&Home::Folder(folder.to_owned()), name, &source, more, shown)
    }

    /// The model that an index file describes; `more` is a warning besides those about it.
    fn of_index(
        &self,
        home: &Home,
        name: &str,
        source: &dyn ByteSource,
        more: Option<Warning>,
        shown: String,
    ) -> Result<File> {
        let place = |e: holdall_core::Error| e.in_source(home.join(name).display());
        let len = source.len();
        if len > MAX_INDEX {
            let message = format!("it has {len} bytes, at most {MAX_INDEX}");
            return Err(place(SHARD_INDEX.broken(message)));
        }
        let map = Map::read(&source.read_range(0..len).map_err(place)?, name).map_err(place)?;
        let files = map.files.iter().enumerate().collect();
        let checked = home.each(files, |(number, file)| {
            let mut shard = self.shard(home, file)?;
            let checked = map.check(number, &mut shard, name);
            Ok((shard, checked))
        })?;
        let mut warnings = Vec::from_iter(more);
        let (mut shards, mut found, mut total) = (Vec::with_capacity(checked.len()), 0, 0u64);
        for (shard, own) in checked {
            shards.push(shard);
            found += own.found;
            total = total.saturating_add(own.total);
            warnings.extend(own.warnings);
        }
        if let Some((tensor, file)) = map.missing(&shards, found) {
            let file = map.files.get(file).map_or("", String::as_str);
            let message = format!("`{}` should have it, and has not", file.shown());
            return Err(place(SHARD_TENSOR.broken(message).in_tensor(tensor)));
        }
        if let Some(said) = map.total.filter(|said| *said != total) {
            let message =
                format!("`{name}` says that all tensors have {said} bytes, they have {total}");
            warnings.push(Warning::new("shards/total-size", message));
        }
        if !map.of_groups {
            return self.joined(shards, warnings, shown);
        }
        // Those of a group are in the first of its files.
        let mut attributes = Attributes::new();
        for (key, value) in shards.iter().flat_map(|shard| shard.index.attributes().iter()) {
            if attributes.get(key).is_none() {
                attributes.push(key, value.clone());
            }
        }
        self.joined_with(shards, attributes, warnings, shown)
    }

    /// The bytes of a file of a model, and how it is named in errors; `is_many` where it is opened when it is read, not before.
    pub(crate) fn part(
        &self,
        home: &Home,
        name: &str,
        is_many: bool,
    ) -> Result<(Arc<dyn ByteSource>, String)> {
        let folder = match home {
            Home::Web(base, fragment) => return self.remote(&format!("{base}{name}{fragment}")),
            Home::Folder(folder) => folder,
        };
        let path = folder.join(name);
        let shown = path.display().to_string();
        if !path.is_file() {
            let message = format!("`{}` is not there", name.shown());
            return Err(SHARD_MISSING.broken(message).in_source(folder.display()));
        }
        if is_many {
            return Ok((Arc::new(Reopened::open(&path)?), shown));
        }
        let file = FileSource::open(&path).map_err(|e| e.in_source(&shown))?;
        Ok((self.source(file).map_err(|e| e.in_source(&shown))?.0, shown))
    }

    /// A file of a model.
    fn shard(&self, home: &Home, name: &str) -> Result<Shard> {
        let (source, shown) = self.part(home, name, false)?;
        let index = index(&*source, self.limits()).map_err(|e| e.in_source(shown))?;
        Ok(Shard::new(name, source, index))
    }

    /// Files as one, with the attributes of the first.
    fn joined(&self, shards: Vec<Shard>, warnings: Vec<Warning>, shown: String) -> Result<File> {
        let first = shards.first();
        let attributes = first.map(|first| first.index.attributes().clone()).unwrap_or_default();
        self.joined_with(shards, attributes, warnings, shown)
    }

    fn joined_with(
        &self,
        shards: Vec<Shard>,
        mut attributes: Attributes,
        warnings: Vec<Warning>,
        shown: String,
    ) -> Result<File> {
        let (format, version) = shards
            .first()
            .map_or(("", String::new()), |s| (s.index.format(), s.index.version().to_owned()));
        let mut builder = IndexBuilder::of_files(format, version, self.limits());
        for shard in &shards {
            let taken = builder.absorb(&shard.index, |tensor| !shard.left_out.contains(tensor));
            taken.map_err(|e| e.in_source(&shard.name))?;
        }
        // Together they are not parts.
        #[cfg(feature = "gguf")]
        if format == "gguf" {
            holdall_core::formats::gguf::leave_parts(&mut attributes);
        }
        #[cfg(not(feature = "gguf"))]
        let _ = &mut attributes;
        builder.attributes(attributes);
        warnings.into_iter().for_each(|warning| builder.add_warning(warning));
        let index = builder.finish().and_then(|index| self.judged(index));
        let sources = shards.into_iter().map(|shard| shard.source).collect();
        self.open_index(index.map_err(|e| e.in_source(&shown))?, sources, shown)
    }

    /// All parts of a split file, whose first part is open.
    #[cfg(feature = "gguf")]
    pub(crate) fn with_parts(&self, first: File, path: &Path) -> Result<File> {
        let index = first.index().clone();
        let of_file = |index: &Index| match index.format() {
            "gguf" => Part::of(index.attributes()),
            _ => None,
        };
        let Some(Part { no: 0, count, tensors }) = of_file(&index) else { return Ok(first) };
        let shown = first.name().to_owned();
        let blame = |message: String| SPLIT.broken(message).in_source(&shown);
        let (home, own) = Home::of(path);
        let Some((stem, ..)) = parts_of(own).filter(|(_, no, of)| (*no, *of) == (1, count)) else {
            return Err(blame(format!("it says that it is part 1 of {count}, its name does not")));
        };
        let sources = first.all_sources().iter();
        let first = |source: &Arc<dyn ByteSource>| Shard::new(own, source.clone(), index.clone());
        let mut shards: Vec<Shard> = sources.map(first).collect();
        let others = home.each((1..count).collect(), |no: u32| {
            let name = part_name(stem, no + 1, count, "gguf");
            let shard = self.shard(&home, &name)?;
            match of_file(&shard.index) {
                Some(own) if (own.no, own.count) == (no, count) => Ok(shard),
                _ => Err(blame(format!(
                    "`{name}` does not say that it is part {} of {count}",
                    no + 1
                ))),
            }
        });
        shards.extend(others?);
        let total: usize = shards.iter().map(|shard| shard.index.len()).sum();
        if let Some(said) = tensors.filter(|said| *said as usize != total) {
            return Err(blame(format!("all parts should have {said} tensors, they have {total}")));
        }
        self.joined(shards, Vec::new(), shown)
    }

    /// This build reads no format whose files say that they are parts.
    #[cfg(not(feature = "gguf"))]
    pub(crate) fn with_parts(&self, first: File, _: &Path) -> Result<File> {
        Ok(first)
    }
}

/// Tells of a folder that has a file of a whole model and an index, which name the same model.
fn two_models(read: &str, other: &str) -> Warning {
    let message = format!(
        "`{read}` is read and `{other}` is not; the folder has both: name one of them to read that"
    );
    Warning::new("shards/two-models", message)
}

/// What one of several files is called, by its number from 1 on: `STEM-00001-of-00003.gguf`.
pub fn part_name(stem: &str, number: u32, count: u32, extension: &str) -> String {
    format!("{stem}-{number:05}-of-{count:05}.{extension}")
}

/// Stem, number and count of such a name.
fn parts_of(name: &str) -> Option<(&str, u32, u32)> {
    let (stem, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = stem.rsplit_once('-')?;
    let read = |text: &str| (text.len() == 5).then(|| text.parse().ok()).flatten();
    Some((stem, read(number)?, read(count)?))
}

/// Refuses names of files that are not beside the file that has them, or in folders beside it.
pub(crate) fn check_names(all: &[String]) -> Result<()> {
    for file in all {
        let is_inside = !file.is_empty()
            && !file.starts_with('/')
            && !file.contains(['\\', ':', '\0'])
            && file.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !is_inside {
            let message = format!("`{}` is not the path of a file beside it", file.shown());
            return Err(SHARD_OUTSIDE.broken(message));
        }
    }
    Ok(())
}
