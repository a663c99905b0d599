//! Models in several files: which files of a folder are one model, what an index file says of them, and what they contain as one.
//! `docs/spec/shards.md` has the rules.

mod map;
mod split;
mod text;

pub(crate) use map::KERAS;

pub use map::{Checked, MAX_INDEX, Map};
pub use split::{PartName, Split, part_name, part_of};
pub use text::{ChangedShard, IndexText, index_text};

use holdall_collections::HashSet;
use holdall_core::error::{Result, Shown as _, rules};
use holdall_core::limits::Limits;
use holdall_core::model::{Index, IndexBuilder, Warning};

rules! {
    /// The rules of this module.
    pub static RULES;

    /// An index of files that cannot be read.
    pub SHARD_INDEX: Malformed "shards/index"
        "The index of a model in several files is a JSON object of at most 10 MiB whose `weight_map` names the file of each tensor.";
    /// A file of a model that is elsewhere.
    pub SHARD_OUTSIDE: Malformed "shards/outside"
        "The files that an index names are in or below its folder, and no symbolic link leads out of that.";
    /// A file of a model that is not there.
    pub SHARD_MISSING: NotFound "shards/missing" "All files of a model are there."
        hint "the download may not be complete"
        remedies [Salvage];
    /// A tensor that its file has not.
    pub SHARD_TENSOR: Malformed "shards/tensor"
        "Every tensor is in the file that the index names."
        remedies [NameFiles, Salvage];
    /// A folder with several models that differ in their variant.
    pub VARIANTS: Misuse "shards/variants"
        "A folder that is opened has one variant of a model."
        hint "name the file or the index of one of them";
    /// Parts that are not of one file.
    pub SPLIT: Malformed "shards/split"
        "Each part of a split file says which part it is, how many there are, and how many tensors they have together; its name says the same.";
    /// A folder that is not a model.
    pub NO_MODEL: NotFound "shards/no-model"
        "A folder that is opened has an index of files, a single file of tensors, or all parts of one."
        hint "name one of its files";
}

/// The code of the warning that a file is a part of a model and is opened without the others.
pub const PART: &str = "shards/part";

/// A file of a model: its name, and what it contains.
#[derive(Debug)]
pub struct Shard {
    /// Its name, as the model has it.
    pub name: String,
    /// What it contains.
    pub index: Index,
    /// Tensors that the model has from other files.
    left_out: HashSet<String>,
}

impl Shard {
    /// A file all of whose tensors are the model's.
    pub fn new(name: impl Into<String>, index: Index) -> Shard {
        Shard { name: name.into(), index, left_out: HashSet::default() }
    }
}

/// What files contain as one, in this order; what the first says of itself, its format among it, is said of all.
///
/// # Errors
/// `index/duplicate-name`, where two have a tensor of the same name; what [`IndexBuilder`] finds.
pub fn joined<'s>(
    shards: impl IntoIterator<Item = &'s Shard>,
    warnings: Vec<Warning>,
    limits: &Limits,
) -> Result<Index> {
    let mut shards = shards.into_iter().peekable();
    let first = shards.peek().map(|shard| shard.index.clone());
    let (format, version) = first.as_ref().map_or(("", ""), |i| (i.format(), i.version()));
    let mut builder = IndexBuilder::of_files(format, version, limits);
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

/// Whether more files belong to the one that an index is of: it is the first part of a split one, or tensors have their bytes
/// in files beside it.
pub fn has_more(index: &Index) -> bool {
    split::is_first(index) || is_away(index)
}

/// Whether tensors have their bytes in files beside it, which are not at hand.
pub fn is_away(index: &Index) -> bool {
    let Some(beside) = crate::by_name(index.format()).and_then(|format| format.beside) else {
        return false;
    };
    index.faults().any(|e| e.code() == beside.away.code)
}

/// Refuses names of files that are not beside the file that has them, or in folders beside it.
///
/// # Errors
/// [`SHARD_OUTSIDE`].
pub fn check_names(all: &[String]) -> Result<()> {
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
