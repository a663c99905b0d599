//! What a file format says of itself.

use holdall_core::encode::{Encode, EncodeOptions};
use holdall_core::error::{Result, Rule};
use holdall_core::limits::Limits;
use holdall_core::model::{Attributes, Index};
use holdall_core::window::{Stop, Window};
use std::ops::Range;

/// A file format: how to recognise it, read it and, where we do, write it.
#[derive(Debug)]
pub struct Format {
    /// Short name in code, output and `--to`: `ztensor`.
    pub id: &'static str,
    /// Name for people: `zTensor`.
    pub name: &'static str,
    /// File name extensions without the dot.
    pub extensions: &'static [&'static str],
    /// Versions that can be read, newest first; empty where the format has none.
    pub reads: &'static [&'static str],
    /// Versions that can be written, newest first; empty where the format has none.
    pub versions: &'static [&'static str],
    /// Whether the bytes are of this format. It claims a file as soon as it would be the right one
    /// to explain what is wrong with it.
    pub detect: fn(&Window) -> Result<bool, Stop>,
    /// What the file contains.
    pub decode: fn(&Window, &Limits) -> Result<Index, Stop>,
    /// Where its table of contents lies, where a few bytes tell that: with these and the table it is decoded.
    pub table: Option<FindTable>,
    /// An encoder, where the format can be written.
    pub encode: Option<NewEncoder>,
    /// Location of the file's index. Remote sources fetch this range first.
    pub index_location: IndexLocation,
    /// Whether what tells its contents is at the very end, so that a file can be edited in place.
    pub ends_in_manifest: bool,
    /// Where a file may have ended before, among some of its bytes, the last first: a file whose end was lost may have
    /// an older one.
    pub old_ends: Option<FindOldEnds>,
    /// Whether components start where a caller wants them aligned to.
    pub aligns: bool,
    /// Whether a file has a schema.
    pub has_schema: bool,
    /// Whether tensors are written into a file of it that is there, and not on their own.
    pub has_graph: bool,
    /// How a model is written in several files, where it can be.
    pub shards: Option<Shards>,
    /// Whether the attributes of a model in several files are those of all of them; otherwise, they are those of the first file.
    pub merges_attributes: bool,
    /// Whether the file's attributes are values that stand among its tensors, under names of the same kind.
    pub attributes_are_values: bool,
    /// What safetensors calls the framework whose files these are: `pt`.
    pub framework: Option<&'static str>,
    /// The file attribute that names the framework of the file that the tensors are from. Libraries refuse files without it.
    pub framework_key: Option<&'static str>,
    /// Whether a file with an extension of the format is a model or a part of one, by its name and the names of all files in its folder.
    pub is_model_file: fn(name: &str, all: &[String]) -> bool,
    /// Whether files of it often have the same weights as a file of another format in the same folder, which is then the model.
    pub stands_beside_weights: bool,
    /// How a file names others beside it that have bytes of its tensors, where it can.
    pub beside: Option<ExternalFiles>,
    /// Layouts of tensors that are not arrays of numbers, each with what such a tensor is, in words.
    pub other_values: &'static [(&'static str, &'static str)],
    /// The digest of what a file holds, however it lies in it, where the format defines one and the file has what it takes.
    pub content: Option<ContentDigest>,
    /// The rule that bytes of the data region which belong to no component are zero, where the format
    /// has one. Verifying finds it broken.
    pub gaps: Option<&'static Rule>,
    /// The code of the warning for bytes before a component that align it and are not zero, where writers
    /// of a file of that version set them to zero. Verifying gives it.
    pub padding: Option<fn(version: &str) -> Option<&'static str>>,
    /// Every rule its decoder and encoder can find broken.
    pub rules: &'static [&'static Rule],
}

impl Format {
    /// A format without a name and versions, which these read and nothing writes: others say what they have besides.
    pub const fn read_by(
        detect: fn(&Window) -> Result<bool, Stop>,
        decode: fn(&Window, &Limits) -> Result<Index, Stop>,
    ) -> Format {
        Format {
            id: "",
            name: "",
            extensions: &[],
            reads: &[],
            versions: &[],
            detect,
            decode,
            table: None,
            encode: None,
            index_location: IndexLocation::BothEnds,
            ends_in_manifest: false,
            old_ends: None,
            aligns: false,
            has_schema: false,
            has_graph: false,
            shards: None,
            merges_attributes: false,
            attributes_are_values: false,
            framework: None,
            framework_key: None,
            is_model_file: |_, _| true,
            stands_beside_weights: false,
            beside: None,
            other_values: &[],
            content: None,
            gaps: None,
            padding: None,
            rules: &[],
        }
    }
}

/// The part of a file that has its index: the table of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexLocation {
    /// The start; what lies elsewhere is found from there.
    Start,
    /// The end, with a few bytes at the start that name the format.
    End,
    /// Both the start and the end.
    BothEnds,
}

/// What makes several files one model.
#[derive(Debug, Clone, Copy)]
pub enum Shards {
    /// An index file beside them, which says where each tensor is.
    Index,
    /// Each says which part it is, in its attributes.
    Parts(Parts),
    /// A file beside them, which says what they hold and which files they are.
    Root,
}

/// Which part of a model a file says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPart {
    /// Its number, from 0.
    pub number: u32,
    /// The number of parts.
    pub count: u32,
    /// The number of tensors in all parts together, where that is stated.
    pub tensors: Option<u32>,
}

/// How files of a format say which parts of a model they are.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// Returns the part that a file with these attributes is, or `None` if it is whole.
    pub read: fn(&Attributes) -> Option<ModelPart>,
    /// Makes the attributes those of part `number`, from 0, of `count`, which have so many tensors together.
    pub set: fn(attributes: &mut Attributes, number: u16, count: u16, tensors: i32),
    /// Removes what only a part says.
    pub remove: fn(&mut Attributes),
}

/// Files beside a file that have bytes of its tensors.
#[derive(Debug, Clone, Copy)]
pub struct ExternalFiles {
    /// The rule that a tensor breaks whose bytes are in such a file, where that is not at hand.
    pub away: &'static Rule,
    /// The rule that such files are in the folder of the one that names them.
    pub outside: &'static Rule,
    /// Which files the one in the window names, in the order in which they come.
    pub names: fn(&Window, &Limits) -> Result<Vec<String>, Stop>,
    /// The path, from their folder, of what a file of the first name calls by the second.
    pub path: fn(&str, &str) -> String,
    /// What the file in the window contains with those that are at hand, by the names it has for them, and their lengths: sources 1 and
    /// on of the index.
    pub decode: DecodeExternal,
}

/// The digest of what a file holds, where it has what that takes.
pub type ContentDigest = fn(&Window, &Limits) -> Result<Option<String>, Stop>;

/// Decodes a file with others beside it.
pub type DecodeExternal = fn(&Window, &Limits, &[(String, u64)]) -> Result<Index, Stop>;

/// Finds them.
pub type FindOldEnds = fn(&[u8]) -> Vec<OldEnd>;

/// A place where a file may have ended, as far as the bytes before it tell.
#[derive(Debug, Clone, Copy)]
pub struct OldEnd {
    /// Bytes before it of those that were looked at.
    pub at: usize,
    /// Bytes from what would be its table of contents to it.
    pub back: u64,
    /// Whether a table of contents may begin with such bytes; of 8 at least.
    pub begins: fn(&[u8]) -> bool,
}

/// Says where the table of contents of a file lies.
pub type FindTable = fn(&Window, &Limits) -> Result<Range<u64>, Stop>;

/// Makes an encoder for one file.
pub type NewEncoder = fn(&EncodeOptions) -> Result<Box<dyn Encode>>;

/// How a format is written, in a build that writes.
#[allow(dead_code, reason = "a build may have no format that is written")]
pub(crate) const fn writer(new: NewEncoder) -> Option<NewEncoder> {
    if cfg!(feature = "write") { Some(new) } else { None }
}
