//! Which files of a folder are its model, by their names.

use super::map::KERAS;
use super::{NO_MODEL, split};
use crate::{FORMATS, Format, Shards, by_name};
use holdall_core::error::{Error, Shown as _};
use holdall_core::model::Warning;

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
    /// The distributed checkpoint that the folder is.
    Checkpoint,
    /// This file, with those that belong to it.
    File(&'n str),
    /// This file, where all of these belong to it; otherwise they are [too many](too_many).
    Root(&'n str, Vec<&'n str>),
    /// Files that nothing makes one model.
    Several(Vec<&'n str>),
    /// The folder has no file of tensors.
    Nothing,
}

/// Which of the files of a folder are its model; their names are sorted.
pub fn chosen(all: &[String]) -> Chosen<'_> {
    let mut indices: Vec<&str> = names(all).filter(|name| is_index(name)).collect();
    let mut tensors: Vec<&str> = names(all).filter(|name| is_tensors(name, all)).collect();
    if tensors.iter().any(|name| !is_beside(name)) {
        tensors.retain(|name| !is_beside(name));
        indices.retain(|name| !name.ends_with(PICKLES));
    }
    let first = FIRST.into_iter().find_map(|first| indices.iter().find(|name| **name == first));
    let index = match (first, &*indices) {
        (Some(first), _) => Some(*first),
        (None, [one]) => Some(*one),
        (None, _) => None,
    };
    if let Some(name) = index {
        let own = name.strip_suffix(INDEX);
        return match own.filter(|own| names(all).any(|name| name == *own)) {
            Some(whole) if WHOLE.contains(&whole) => Chosen::Whole(whole, two_models(whole, name)),
            whole => Chosen::Index(name, whole.map(|whole| two_models(name, whole))),
        };
    }
    if names(all).any(is_checkpoint) && names(all).any(is_chunks) {
        return Chosen::Checkpoint;
    }
    match &*tensors {
        [] => Chosen::Nothing,
        [one] => Chosen::File(one),
        [first, ..] if split::are_parts(&tensors) => Chosen::File(first),
        _ => match root_of(&tensors) {
            Some(root) => Chosen::Root(root, tensors),
            None => Chosen::Several(tensors),
        },
    }
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

/// Whether the files of a folder with these names are a model.
pub fn are_model(all: &[String]) -> bool {
    names(all).any(|name| is_index(name) || is_tensors(name, all) || is_chunks(name))
}

/// Whether a file of that name is an index file.
pub fn is_index(name: &str) -> bool {
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

/// Whether a file of that name describes a distributed checkpoint, in a build that reads those.
pub fn is_checkpoint(name: &str) -> bool {
    cfg!(feature = "pytorch") && name == ".metadata"
}

/// Whether a file of that name has items of a distributed checkpoint.
fn is_chunks(name: &str) -> bool {
    cfg!(feature = "pytorch") && name.ends_with(".distcp")
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
