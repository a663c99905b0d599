//! Models that are folders: which of a folder's files are its model, by their names.
//!
//! A [`FolderFormat`] is to a folder what a [`Format`] is to a file: a constant that describes itself. [`FOLDERS`] is the one list of
//! them. What it recognizes is one of the forms of [`Chosen`], which say how the model is opened.

use crate::shards::{KERAS, NO_MODEL, are_parts};
use crate::{FORMATS, Format, Shards, by_name};
use holdall_core::error::{Error, Shown as _};
use holdall_core::model::Warning;

/// A kind of model that is a folder.
#[derive(Debug)]
pub struct FolderFormat {
    /// Short name in code and documents: `checkpoint`.
    pub id: &'static str,
    /// Name for people: `distributed checkpoint`.
    pub name: &'static str,
    /// Returns what of a folder is its model, of the names of its files, which are sorted; `None` if it is not of this kind.
    pub choose: for<'n> fn(&'n [String]) -> Option<Chosen<'n>>,
    /// Returns how the model is opened that a file of that name stands for; `None` if such a file is opened by itself.
    pub by_entry: for<'n> fn(&'n str) -> Option<Chosen<'n>>,
    /// Whether a file of that name, among these, shows that the folder has such a model, if perhaps an incomplete one.
    pub is_part: fn(&str, &[String]) -> bool,
    /// A folder inside whose files are part of the model, and the file beside it that tells so.
    pub inner: Option<Inner>,
}

/// A folder inside of a folder that is a model.
#[derive(Debug, Clone, Copy)]
pub struct Inner {
    /// The file in the outer folder.
    pub marker: &'static str,
    /// The name of the inner folder.
    pub folder: &'static str,
}

/// All kinds of folders, in the order in which they are tried.
pub static FOLDERS: &[&FolderFormat] = &[
    &INDEXED,
    #[cfg(feature = "pytorch")]
    &CHECKPOINT,
    &FILES,
    &SAVED_MODEL,
    &ARRAYS,
];

/// An index file says which tensor is in which file.
static INDEXED: FolderFormat = FolderFormat {
    id: "indexed",
    name: "files with an index",
    choose: indexed,
    by_entry: |name| is_index(name).then_some(Chosen::Index(name, None)),
    is_part: |name, _| is_index(name),
    inner: None,
};

/// A distributed checkpoint of PyTorch.
#[cfg(feature = "pytorch")]
static CHECKPOINT: FolderFormat = FolderFormat {
    id: "checkpoint",
    name: "distributed checkpoint of PyTorch",
    choose: |all| {
        let has = |is: fn(&str) -> bool| all.iter().any(|name| is(name));
        (has(is_checkpoint) && has(is_chunks)).then_some(Chosen::Checkpoint(METADATA))
    },
    by_entry: |name| is_checkpoint(name).then_some(Chosen::Checkpoint(name)),
    is_part: |name, _| is_chunks(name),
    inner: None,
};

/// One file, the parts of one, or a file that names the others.
static FILES: FolderFormat = FolderFormat {
    id: "files",
    name: "one file, or the parts of one",
    choose: files,
    by_entry: |_| None,
    is_part: is_tensors,
    inner: None,
};

/// A saved model of TensorFlow, whose weights are in a folder of their own: those are then [`FILES`].
static SAVED_MODEL: FolderFormat = FolderFormat {
    id: "saved-model",
    name: "saved model of TensorFlow",
    choose: |_| None,
    by_entry: |_| None,
    is_part: |_, _| false,
    inner: Some(Inner { marker: "saved_model.pb", folder: "variables" }),
};

/// Files of single arrays, perhaps in folders inside.
static ARRAYS: FolderFormat = FolderFormat {
    id: "arrays",
    name: "`.npy` files",
    choose: |_| Some(Chosen::Arrays),
    by_entry: |_| None,
    is_part: |_, _| false,
    inner: None,
};

/// What the names of index files end in.
const INDEX: &str = ".index.json";
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

/// What of a folder is its model.
#[derive(Debug, Clone, PartialEq)]
pub enum Chosen<'n> {
    /// This index file says which files; the warning tells that a file of the whole model is there, too.
    Index(&'n str, Option<Warning>),
    /// This file alone, whatever it names; the warning tells of the index that is not read.
    Whole(&'n str, Warning),
    /// The distributed checkpoint that this file describes.
    Checkpoint(&'n str),
    /// This file, with those that belong to it.
    File(&'n str),
    /// This file, where all of these belong to it; otherwise they are [too many](too_many).
    Root(&'n str, Vec<&'n str>),
    /// Files that nothing makes one model.
    Several(Vec<&'n str>),
    /// The folder has no other file of tensors than single arrays, if it has those.
    Arrays,
}

/// Returns what of a folder is its model. The names of its files are sorted.
pub fn chosen(all: &[String]) -> Chosen<'_> {
    FOLDERS.iter().find_map(|folder| (folder.choose)(all)).unwrap_or(Chosen::Arrays)
}

/// Returns how the model is opened that a file of that name stands for; `None` if such a file is opened by itself.
pub fn by_entry(name: &str) -> Option<Chosen<'_>> {
    FOLDERS.iter().find_map(|folder| (folder.by_entry)(name))
}

/// The files of tensors in a folder that count, and its index files that do.
fn counted(all: &[String]) -> (Vec<&str>, Vec<&str>) {
    let mut indices: Vec<&str> = names(all).filter(|name| is_index(name)).collect();
    let mut tensors: Vec<&str> = names(all).filter(|name| is_tensors(name, all)).collect();
    if tensors.iter().any(|name| !is_beside(name)) {
        tensors.retain(|name| !is_beside(name));
        indices.retain(|name| !name.ends_with(PICKLES));
    }
    (tensors, indices)
}

fn indexed(all: &[String]) -> Option<Chosen<'_>> {
    let (_, indices) = counted(all);
    let first = FIRST.into_iter().find_map(|first| indices.iter().find(|name| **name == first));
    let name = match (first, &*indices) {
        (Some(first), _) => *first,
        (None, [one]) => *one,
        (None, _) => return None,
    };
    let own = name.strip_suffix(INDEX);
    Some(match own.filter(|own| names(all).any(|name| name == *own)) {
        Some(whole) if WHOLE.contains(&whole) => Chosen::Whole(whole, two_models(whole, name)),
        whole => Chosen::Index(name, whole.map(|whole| two_models(name, whole))),
    })
}

fn files(all: &[String]) -> Option<Chosen<'_>> {
    let (tensors, _) = counted(all);
    Some(match &*tensors {
        [] => return None,
        [one] => Chosen::File(one),
        [first, ..] if are_parts(&tensors) => Chosen::File(first),
        _ => match root_of(&tensors) {
            Some(root) => Chosen::Root(root, tensors),
            None => Chosen::Several(tensors),
        },
    })
}

/// Refuses files that nothing makes one model.
pub fn too_many(names: &[&str]) -> Error {
    let shown: Vec<_> = names.iter().take(4).map(|name| format!("`{}`", name.shown())).collect();
    let more = if names.len() > 4 { ", …" } else { "" };
    NO_MODEL.broken(format!(
        "the folder has {} files of tensors, and no index that makes them one model: {}{more}",
        names.len(),
        shown.join(", ")
    ))
}

/// Whether the files of a folder with these names are a model, if perhaps an incomplete one.
pub fn are_model(all: &[String]) -> bool {
    FOLDERS.iter().any(|folder| names(all).any(|name| (folder.is_part)(name, all)))
}

/// Whether a file of that name is an index file.
fn is_index(name: &str) -> bool {
    name.ends_with(INDEX) || name.ends_with(KERAS)
}

/// The format that the extension of a file's name says.
pub fn format_by(name: &str) -> Option<&'static Format> {
    let (stem, extension) = name.rsplit_once('.')?;
    by_name(extension).filter(|_| !stem.is_empty())
}

fn names(all: &[String]) -> impl Iterator<Item = &str> {
    all.iter().map(String::as_str)
}

/// The file that describes a distributed checkpoint.
#[cfg(feature = "pytorch")]
const METADATA: &str = ".metadata";

#[cfg(feature = "pytorch")]
fn is_checkpoint(name: &str) -> bool {
    name == METADATA
}

/// Whether a file of that name has items of a distributed checkpoint.
#[cfg(feature = "pytorch")]
fn is_chunks(name: &str) -> bool {
    name.ends_with(".distcp")
}

/// Returns whether a file of that name, among all files of a folder, is a model or a part of one, in a format of this build.
fn is_tensors(name: &str, all: &[String]) -> bool {
    format_by(name).is_some_and(|format| (format.is_model_file)(name, all))
}

/// Returns whether a file of that name stands beside the weights of many models, by its format.
fn is_beside(name: &str) -> bool {
    format_by(name).is_some_and(|format| format.stands_beside_weights)
}

/// The one of these that names the others, by the names: `model.zt` of `model.zt` and `model-NAME.zt`.
fn root_of<'n>(names: &[&'n str]) -> Option<&'n str> {
    let shortest = *names.iter().min_by_key(|name| name.len())?;
    let (of, extension) = shortest.rsplit_once('.')?;
    let is_root = |format: &&&Format| matches!(format.shards, Some(Shards::Root));
    let beside = FORMATS.iter().find(is_root)?.beside?;
    let is_known = |name: &str| {
        let shard = name.strip_prefix(of).and_then(|name| name.strip_suffix(extension));
        let shard = shard.and_then(|name| name.strip_prefix('-')?.strip_suffix('.'));
        name == shortest || shard.is_some_and(|shard| (beside.path)(shortest, shard) == name)
    };
    (names.len() > 1 && names.iter().all(|name| is_known(name))).then_some(shortest)
}

/// Tells of a folder that has a file of a whole model and an index, which name the same model.
fn two_models(read: &str, other: &str) -> Warning {
    let message = format!(
        "`{read}` is read and `{other}` is not; the folder has both: name one of them to read that"
    );
    Warning::new("shards/two-models", message)
}
