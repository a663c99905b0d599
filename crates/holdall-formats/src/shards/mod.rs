//! Models in several files: which files of a folder are one model, what an index file contains, and the joined index of
//! all files. `docs/spec/shards.md` has the rules.

mod map;
mod split;
mod text;

pub(crate) use map::KERAS;

pub use map::{Checked, MAX_INDEX, Map};
pub use split::{PartName, Split, part_name, part_of};
pub use text::{ChangedShard, IndexText, index_text};

use holdall_collections::HashSet;
use holdall_core::error::{Escape as _, Result, rules};
use holdall_core::limits::Limits;
use holdall_core::model::{Index, IndexBuilder, Warning};

rules! {
    /// The rules of this module.
    pub static RULES;

    /// The index file of a model cannot be read.
    pub SHARD_INDEX: Malformed "shards/index"
        "The index of a model in several files is a JSON object of at most 10 MiB whose `weight_map` names the file of each tensor.";
    /// A file of the model is outside of the folder.
    pub SHARD_OUTSIDE: Malformed "shards/outside"
        "The files that an index names are in or below its folder, and no symbolic link leads out of that folder.";
    /// A file of the model does not exist.
    pub SHARD_MISSING: NotFound "shards/missing" "All files of a model exist."
        hint "the download may not be complete"
        remedies [Salvage];
    /// A file lacks a tensor that it should have.
    pub SHARD_TENSOR: Malformed "shards/tensor"
        "Every tensor is in the file that the index names for it."
        remedies [NameFiles, Salvage];
    /// The folder has several variants of one model.
    pub VARIANTS: Misuse "shards/variants"
        "A folder that is opened has one variant of a model."
        hint "name the file or the index of one of them";
    /// Parts that do not belong to one file.
    pub SPLIT: Malformed "shards/split"
        "Each part of a split file states its number, the number of parts, and the number of tensors in all parts; its name has the same numbers.";
    /// The folder is not a model.
    pub NO_MODEL: NotFound "shards/no-model"
        "A folder that is opened has an index of files, a single file of tensors, or all parts of one."
        hint "name one of its files";
}

/// The code of the warning that a file is a part of a model and is opened without the other parts.
pub const PART: &str = "shards/part";

/// A file of a model: its name and its index.
#[derive(Debug)]
pub struct Shard {
    /// The name, as the model's index has it.
    pub name: String,
    /// The index of the file.
    pub index: Index,
    /// Tensors of the file that the model takes from other files.
    left_out: HashSet<String>,
}

impl Shard {
    /// Creates a shard all of whose tensors belong to the model.
    pub fn new(name: impl Into<String>, index: Index) -> Shard {
        Shard { name: name.into(), index, left_out: HashSet::default() }
    }
}

/// Joins the indexes of files, in this order, into one. The format, version and other properties are those of the first
/// file.
///
/// # Errors
/// Returns `index/duplicate-name` if two files have a tensor of the same name, and the errors of [`IndexBuilder`].
pub fn joined<'s>(
    shards: impl IntoIterator<Item = &'s Shard>,
    warnings: Vec<Warning>,
    limits: &Limits,
) -> Result<Index> {
    let mut shards = shards.into_iter().peekable();
    let first = shards.peek().map(|shard| shard.index.clone());
    let (format, version) = first.as_ref().map_or(("", ""), |i| (i.format(), i.version()));
    let mut builder = IndexBuilder::for_files(format, version, limits);
    let merges = crate::by_name(format).is_some_and(|format| format.merges_attributes);
    let mut attributes = first.as_ref().map(|i| i.attributes().clone()).unwrap_or_default();
    for shard in shards {
        let taken = builder.absorb(&shard.index, |tensor| !shard.left_out.contains(tensor));
        taken.map_err(|e| e.in_source(&shard.name))?;
        let more = shard.index.attributes().iter().filter(|_| merges);
        for (key, value) in more {
            if attributes.get(key).is_none() {
                attributes.push(key, value.clone());
            }
        }
    }
    split::leave(format, &mut attributes);
    builder.attributes(attributes);
    warnings.into_iter().for_each(|warning| builder.add_warning(warning));
    builder.finish()
}

/// Returns `true` if the model continues in other files: the index is of the first part of a split file, or tensors
/// have their bytes in external files.
pub fn has_more(index: &Index) -> bool {
    split::is_first(index) || has_unavailable_data(index)
}

/// Returns `true` if tensors have their bytes in external files, and these are not available.
pub fn has_unavailable_data(index: &Index) -> bool {
    let Some(beside) = crate::by_name(index.format()).and_then(|format| format.external_files)
    else {
        return false;
    };
    index.faults().any(|e| e.code() == beside.missing.code)
}

/// Checks that names of files lead to files in the same folder or in folders below it.
///
/// # Errors
/// Returns [`SHARD_OUTSIDE`] if one does not.
pub fn check_names(all: &[String]) -> Result<()> {
    for file in all {
        let is_inside = !file.is_empty()
            && !file.starts_with('/')
            && !file.contains(['\\', ':', '\0'])
            && file.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !is_inside {
            let message = format!(
                "`{}` is not the path of a file in or below the folder of the index",
                file.escaped()
            );
            return Err(SHARD_OUTSIDE.broken(message));
        }
    }
    Ok(())
}
