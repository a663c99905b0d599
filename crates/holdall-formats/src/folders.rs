//! Models that are folders: which files of a folder are its model, judged by their names.
//!
//! A [`FolderFormat`] is for a folder what a [`Format`] is for a file: a constant that describes the kind of folder.
//! [`FOLDERS`] lists all of them. The result is one of the variants of [`ModelFiles`], which say how to open the model.

use crate::shards::{KERAS, NO_MODEL, PartName, SHARD_MISSING, VARIANTS};
use crate::{FORMATS, Format, Shards, by_name};
use holdall_core::error::{Error, Escape as _};
use holdall_core::model::Warning;

/// A kind of folder that contains a model.
#[derive(Debug)]
pub struct FolderFormat {
    /// The short name in code and documents: `checkpoint`.
    pub id: &'static str,
    /// The name for people: `distributed checkpoint`.
    pub name: &'static str,
    /// Returns the files that are the model of a folder with these file names, which are sorted; `None` if the folder
    /// is of another kind.
    pub choose: for<'n> fn(&'n [String]) -> Option<ModelFiles<'n>>,
    /// Returns how to open the model whose entry file has this name; `None` if such a file is opened by itself.
    pub by_entry: for<'n> fn(&'n str) -> Option<ModelFiles<'n>>,
    /// Returns `true` if a file of this name, among the names in the folder, shows that the folder has such a model,
    /// even an incomplete one.
    pub is_part: fn(&str, &[String]) -> bool,
    /// The nested folder whose files are also part of the model, if this kind has one.
    pub inner: Option<NestedFolder>,
}

/// A folder in the folder of a model.
#[derive(Debug, Clone, Copy)]
pub struct NestedFolder {
    /// The file in the outer folder that shows that the nested folder is part of the model.
    pub marker: &'static str,
    /// The name of the nested folder.
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

/// A model with an index file, which names the file of each tensor.
static INDEXED: FolderFormat = FolderFormat {
    id: "indexed",
    name: "files with an index",
    choose: indexed,
    by_entry: |name| is_index(name).then_some(ModelFiles::Index(name, None)),
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
        (has(is_checkpoint) && has(is_chunks)).then_some(ModelFiles::Checkpoint(METADATA))
    },
    by_entry: |name| is_checkpoint(name).then_some(ModelFiles::Checkpoint(name)),
    is_part: |name, _| is_chunks(name),
    inner: None,
};

/// One file, the parts of one file, or a file that names the others.
static FILES: FolderFormat = FolderFormat {
    id: "files",
    name: "one file, or the parts of one",
    choose: files,
    by_entry: |_| None,
    is_part: is_tensors,
    inner: None,
};

/// A saved model of TensorFlow. Its weights are in a nested folder, which is then one of [`FILES`].
static SAVED_MODEL: FolderFormat = FolderFormat {
    id: "saved-model",
    name: "saved model of TensorFlow",
    choose: |_| None,
    by_entry: |_| None,
    is_part: |_, _| false,
    inner: Some(NestedFolder { marker: "saved_model.pb", folder: "variables" }),
};

/// Files of single arrays, possibly in nested folders.
static ARRAYS: FolderFormat = FolderFormat {
    id: "arrays",
    name: "`.npy` files",
    choose: |_| Some(ModelFiles::Arrays),
    by_entry: |_| None,
    is_part: |_, _| false,
    inner: None,
};

/// The end of an index file's name.
const INDEX: &str = ".index.json";
/// The index files of a folder that are preferred, in this order.
const FIRST: [&str; 3] = [
    "model.safetensors.index.json",
    "diffusion_pytorch_model.safetensors.index.json",
    "pytorch_model.bin.index.json",
];
/// Files with a whole model that are preferred to the index of a model in the same folder, as in transformers'
/// `from_pretrained`.
const WHOLE: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];
/// The end of the name of an index file for pickles.
const PICKLES: &str = ".bin.index.json";

/// The files of a folder that are its model, and how to open them.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelFiles<'n> {
    /// This index file names the files. The warning says that the folder also has a file with the whole model.
    Index(&'n str, Option<Warning>),
    /// This file alone, whatever other files it names. The warning names the index that is not read.
    Whole(&'n str, Warning),
    /// The distributed checkpoint that this file describes.
    Checkpoint(&'n str),
    /// This file, with the files that belong to it.
    File(&'n str),
    /// This file, if all of these files belong to it. If not, there are [too many files](too_many).
    Root(&'n str, Vec<&'n str>),
    /// These files, in this order, are one model without an index.
    Shards(Vec<&'n str>),
    /// Files of a model of which [others are missing](missing).
    Incomplete(Vec<&'n str>),
    /// Several variants of a model: the index or the first file of each.
    Variants(Vec<&'n str>),
    /// Several files that neither an index nor their names make one model.
    Several(Vec<&'n str>),
    /// The folder has no files of tensors except, possibly, files of single arrays.
    Arrays,
}

/// Returns the files that are the model of a folder with these file names, which are sorted.
pub fn chosen(all: &[String]) -> ModelFiles<'_> {
    FOLDERS.iter().find_map(|folder| (folder.choose)(all)).unwrap_or(ModelFiles::Arrays)
}

/// Returns how to open the model whose entry file has this name; `None` if such a file is opened by itself.
pub fn by_entry(name: &str) -> Option<ModelFiles<'_>> {
    FOLDERS.iter().find_map(|folder| (folder.by_entry)(name))
}

/// Returns the files of tensors in a folder that can be its model, and the index files among them.
fn counted(all: &[String]) -> (Vec<&str>, Vec<&str>) {
    let mut indices: Vec<&str> = names(all).filter(|name| is_index(name)).collect();
    let mut tensors: Vec<&str> = names(all).filter(|name| is_tensors(name, all)).collect();
    if tensors.iter().any(|name| !is_beside(name)) {
        tensors.retain(|name| !is_beside(name));
        indices.retain(|name| {
            let of_variant = variant_index(name).is_some_and(|(whole, _)| whole.ends_with(".bin"));
            !name.ends_with(PICKLES) && !of_variant
        });
    }
    (tensors, indices)
}

fn indexed(all: &[String]) -> Option<ModelFiles<'_>> {
    let (tensors, indices) = counted(all);
    let first = FIRST.into_iter().find_map(|first| indices.iter().find(|name| **name == first));
    let name = match (first, &*indices) {
        (Some(first), _) => *first,
        (None, [one]) => *one,
        (None, _) => return variants_in(&indices).map(ModelFiles::Variants),
    };
    let beside: Vec<&str> = indices.iter().chain(&tensors).copied().collect();
    let own = ModelName::new(name);
    let others = beside.iter().filter(|other| {
        own.zip(ModelName::new(other)).is_some_and(|(own, other)| own.is_variant_of(&other))
    });
    let others: Vec<&str> = others.copied().collect();
    // Other libraries take the plain variant unless their caller requests another.
    let is_plain = own.is_some_and(|own| own.variant.is_empty());
    if !is_plain {
        let all_of: Vec<&str> = std::iter::once(name).chain(others.iter().copied()).collect();
        if let Some(found) = variants_in(&all_of) {
            return Some(ModelFiles::Variants(found));
        }
    }
    let own = name.strip_suffix(INDEX);
    Some(match own.filter(|own| names(all).any(|name| name == *own)) {
        Some(whole) if WHOLE.contains(&whole) => ModelFiles::Whole(whole, two_models(whole, name)),
        whole => {
            let other = whole.or_else(|| others.first().copied());
            ModelFiles::Index(name, other.map(|other| two_models(name, other)))
        }
    })
}

fn files(all: &[String]) -> Option<ModelFiles<'_>> {
    let (tensors, _) = counted(all);
    let first = tensors.first()?;
    let is_root = |name: &str| {
        format_by(name).is_some_and(|format| matches!(format.shards, Some(Shards::Root)))
    };
    let part = PartName::new(first).filter(|part| part.count > 1 && !is_root(first));
    let is_of = |part: &PartName<'_>, name: &&str| {
        PartName::new(name).is_some_and(|other| PartName { number: part.number, ..other } == *part)
    };
    if let Some(part) = part.filter(|part| tensors.iter().all(|name| is_of(part, name))) {
        return Some(match format_by(first).map(|format| format.shards) {
            _ if tensors.len() != part.count as usize => ModelFiles::Incomplete(tensors),
            Some(Some(Shards::Parts(_))) => ModelFiles::File(first),
            _ => ModelFiles::Shards(tensors),
        });
    }
    Some(match &*tensors {
        [one] => ModelFiles::File(one),
        _ => match (root_of(&tensors), variants_in(&tensors)) {
            (Some(root), _) => ModelFiles::Root(root, tensors),
            (None, Some(variants)) => ModelFiles::Variants(variants),
            (None, None) => ModelFiles::Several(tensors),
        },
    })
}

/// The parsed name of an index, or of a file that has a whole model or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModelName<'n> {
    /// `diffusion_pytorch_model` of `diffusion_pytorch_model.fp16-00001-of-00003.safetensors`.
    stem: &'n str,
    /// `fp16`; empty if the name has no variant.
    variant: &'n str,
    extension: &'n str,
}

impl<'n> ModelName<'n> {
    fn new(name: &'n str) -> Option<ModelName<'n>> {
        if let Some((whole, variant)) = variant_index(name) {
            let (stem, extension) = whole.rsplit_once('.')?;
            return Some(ModelName { stem, variant, extension });
        }
        let whole = name.strip_suffix(INDEX).unwrap_or(name);
        let (stem, extension) = match PartName::new(whole) {
            Some(PartName { stem, extension, .. }) => match extension.rsplit_once('.') {
                // The spelling of older versions of diffusers.
                Some((variant, extension)) if is_variant(variant) => {
                    return Some(ModelName { stem, variant, extension });
                }
                // A shard that was rewritten by an edit has a number here.
                Some((_, extension)) => (stem, extension),
                None => (stem, extension),
            },
            None => whole.rsplit_once('.')?,
        };
        let (stem, variant) = match stem.rsplit_once('.') {
            Some((stem, variant)) if is_known_variant(variant) && !stem.is_empty() => {
                (stem, variant)
            }
            _ => (stem, ""),
        };
        Some(ModelName { stem, variant, extension })
    }

    /// Returns `true` if these are two variants of one model.
    fn is_variant_of(&self, other: &ModelName<'_>) -> bool {
        (self.stem, self.extension) == (other.stem, other.extension)
            && self.variant != other.variant
    }
}

/// Returns `true` if the part of a name after a dot can be that of a variant: `fp16`, `non_ema`.
fn is_variant(text: &str) -> bool {
    text.len() <= 16
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns `true` if the part of a name before its extension is a known variant. Other texts can be parts of the name:
/// `model.visual.safetensors`.
fn is_known_variant(text: &str) -> bool {
    let of_type = ["fp", "bf", "f", "int", "uint", "nf", "mxfp", "nvfp", "q"].iter().any(|kind| {
        let rest = text.strip_prefix(kind);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    is_variant(text) && (of_type || matches!(text, "ema" | "non_ema" | "ema_only" | "no_ema"))
}

/// Returns the name without variant, and the variant, of a variant's index, as diffusers and transformers spell it:
/// `model.safetensors` and `fp16` of `model.safetensors.index.fp16.json`.
fn variant_index(name: &str) -> Option<(&str, &str)> {
    let (whole, variant) = name.strip_suffix(".json")?.rsplit_once('.')?;
    let whole = whole.strip_suffix(".index")?;
    (is_variant(variant) && format_by(whole).is_some()).then_some((whole, variant))
}

/// Returns one file of each variant, if all of these are variants of one model and there are several.
fn variants_in<'n>(all: &[&'n str]) -> Option<Vec<&'n str>> {
    let mut found: Vec<(ModelName<'n>, &'n str)> = Vec::new();
    for name in all {
        let own = ModelName::new(name)?;
        match found.iter_mut().find(|(model, _)| model.variant == own.variant) {
            // The index represents the variant if there is one, not a shard.
            Some((_, other)) if is_index(name) && !is_index(other) => *other = name,
            Some(_) => {}
            None => found.push((own, name)),
        }
        let (first, _) = found.first()?;
        if (first.stem, first.extension) != (own.stem, own.extension) {
            return None;
        }
    }
    (found.len() > 1).then(|| found.into_iter().map(|(_, name)| name).collect())
}

/// Returns the error for a folder with several variants of a model.
pub fn variants(names: &[&str]) -> Error {
    let shown: Vec<_> = names.iter().map(|name| format!("`{}`", name.escaped())).collect();
    let count = names.len();
    VARIANTS.broken(format!("the folder has {count} variants of a model: {}", shown.join(", ")))
}

/// Returns the error for files of which others are missing. Their names tell which.
pub fn missing(names: &[&str]) -> Error {
    let part = names.first().and_then(|name| PartName::new(name));
    let all = part.iter().flat_map(|part| (1..=part.count).map(|number| part.with_number(number)));
    let lacking: Vec<String> = all.filter(|name| !names.contains(&name.as_str())).collect();
    let count = part.map_or(0, |part| part.count);
    missing_files(&lacking, count as usize)
}

/// Returns the error for a model of `count` files of which `lacking` are missing.
pub fn missing_files(lacking: &[String], count: usize) -> Error {
    let shown: Vec<_> =
        lacking.iter().take(MAX_SHOWN).map(|name| format!("`{}`", name.escaped())).collect();
    let more = match lacking.len().saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let verb = if lacking.len() == 1 { "is" } else { "are" };
    SHARD_MISSING.broken(format!(
        "{} of {count} files of the model {verb} missing: {}{more}",
        lacking.len(),
        shown.join(", ")
    ))
}

/// The maximum number of missing files that an error names.
const MAX_SHOWN: usize = 16;

/// Returns the names that the index of a shard with this name may have; empty if the name is not that of a shard.
pub fn indices_of(name: &str) -> Vec<String> {
    let (Some(part), Some(own)) = (PartName::new(name), ModelName::new(name)) else {
        return Vec::new();
    };
    let ModelName { stem, variant, extension } = own;
    let mut all = vec![format!("{}.{}", part.stem, part.extension)];
    all.push(format!("{}.{}{INDEX}", part.stem, part.extension));
    if !variant.is_empty() {
        all.push(format!("{stem}.{extension}.index.{variant}.json"));
        all.push(format!("{stem}.{variant}.{extension}{INDEX}"));
    }
    all
}

/// Returns the error for a folder with several files that neither an index nor their names make one model.
pub fn too_many(names: &[&str]) -> Error {
    let shown: Vec<_> = names.iter().take(4).map(|name| format!("`{}`", name.escaped())).collect();
    let more = if names.len() > 4 { ", …" } else { "" };
    NO_MODEL.broken(format!(
        "the folder has {} files of tensors, and no index that makes them one model: {}{more}",
        names.len(),
        shown.join(", ")
    ))
}

/// Returns `true` if the files of a folder with these names are a model, even an incomplete one.
pub fn contain_model(all: &[String]) -> bool {
    FOLDERS.iter().any(|folder| names(all).any(|name| (folder.is_part)(name, all)))
}

/// Returns `true` if this is the name of an index file.
fn is_index(name: &str) -> bool {
    name.ends_with(INDEX) || name.ends_with(KERAS) || variant_index(name).is_some()
}

/// Returns the format that has the extension of a file's name.
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

/// Returns `true` if this is the name of a file with items of a distributed checkpoint.
#[cfg(feature = "pytorch")]
fn is_chunks(name: &str) -> bool {
    name.ends_with(".distcp")
}

/// Returns `true` if a file of this name, among all files of a folder, is a model or a part of one, in a format of this
/// build.
fn is_tensors(name: &str, all: &[String]) -> bool {
    format_by(name).is_some_and(|format| (format.is_model_file)(name, all))
}

/// Returns `true` if files of this name's format often lie next to a file with the same weights.
fn is_beside(name: &str) -> bool {
    format_by(name).is_some_and(|format| format.often_duplicates_weights)
}

/// Returns the file that names the others, judged by the names: `model.zt` of `model.zt` and `model-NAME.zt`.
fn root_of<'n>(names: &[&'n str]) -> Option<&'n str> {
    let shortest = *names.iter().min_by_key(|name| name.len())?;
    let (stem, extension) = shortest.rsplit_once('.')?;
    let is_root = |format: &&&Format| matches!(format.shards, Some(Shards::Root));
    let beside = FORMATS.iter().find(is_root)?.external_files?;
    let is_known = |name: &str| {
        let shard = name.strip_prefix(stem).and_then(|name| name.strip_suffix(extension));
        let shard = shard.and_then(|name| name.strip_prefix('-')?.strip_suffix('.'));
        name == shortest || shard.is_some_and(|shard| (beside.path)(shortest, shard) == name)
    };
    (names.len() > 1 && names.iter().all(|name| is_known(name))).then_some(shortest)
}

/// Returns the warning for a folder that has both a file with the whole model and an index of it.
fn two_models(read: &str, other: &str) -> Warning {
    let message = format!(
        "the folder has both `{read}` and `{other}`; `{read}` is read: name the other file to read it instead"
    );
    Warning::new("shards/two-models", message)
}
