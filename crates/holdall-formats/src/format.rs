//! The description of a file format.

use holdall_core::encode::{Encode, EncodeOptions};
use holdall_core::error::{Result, Rule};
use holdall_core::limits::Limits;
use holdall_core::model::{Attributes, Index};
use holdall_core::window::{Stop, Window};
use std::ops::Range;

/// A file format: how to recognise, read and, for some formats, write it.
#[derive(Debug)]
pub struct Format {
    /// The short name in code, output and `--to`: `ztensor`.
    pub id: &'static str,
    /// The name for people: `zTensor`.
    pub name: &'static str,
    /// File name extensions without the dot.
    pub extensions: &'static [&'static str],
    /// Versions that can be read, newest first; empty if the format has no versions.
    pub reads: &'static [&'static str],
    /// Versions that can be written, newest first; empty if the format has no versions.
    pub versions: &'static [&'static str],
    /// Returns `true` if the bytes are of this format. A damaged file is also claimed if this format can best explain
    /// the errors in it.
    pub detect: fn(&Window) -> Result<bool, Stop>,
    /// Decodes the index of a file.
    pub decode: fn(&Window, &Limits) -> Result<Index, Stop>,
    /// Returns the byte range of a file's table of contents, if a few bytes of the file are enough to find it. These
    /// bytes and the table are enough to decode the file.
    pub table: Option<FindTable>,
    /// Makes an encoder, if the format can be written.
    pub encode: Option<NewEncoder>,
    /// Location of the file's index. Remote sources fetch this range first.
    pub index_location: IndexLocation,
    /// Whether the table of contents is at the very end, so that a file can be edited in place.
    pub ends_in_manifest: bool,
    /// Finds older ends of a file in some of its bytes, the last first. A file whose end was lost may contain one.
    pub old_ends: Option<FindOldEnds>,
    /// Whether components can be aligned as the caller requests.
    pub aligns: bool,
    /// Whether a file has a schema.
    pub has_schema: bool,
    /// Whether tensors are written into an existing file, which has a graph, and not into a new file.
    pub has_graph: bool,
    /// How a model is written as several files, if it can be.
    pub shards: Option<Shards>,
    /// Whether the attributes of a model in several files are those of all files, merged; otherwise, they are those of
    /// the first file.
    pub merges_attributes: bool,
    /// Whether the file's attributes are stored among its tensors, with names of the same kind.
    pub attributes_are_values: bool,
    /// The framework of such files, as safetensors names it: `pt`.
    pub framework: Option<&'static str>,
    /// The file attribute that names the framework that the tensors are from. Libraries refuse files without it.
    pub framework_key: Option<&'static str>,
    /// Returns `true` if a file with an extension of the format is a model or a part of one, judged by its name and the
    /// names of all files in its folder.
    pub is_model_file: fn(name: &str, all: &[String]) -> bool,
    /// Whether such files often lie in the same folder as a file of another format with the same weights. That file is
    /// then the model.
    pub often_duplicates_weights: bool,
    /// How a file refers to external files with bytes of its tensors, if the format allows them.
    pub external_files: Option<ExternalFiles>,
    /// Layouts of tensors that are not arrays of numbers, each with a description of such a tensor in words.
    pub other_values: &'static [(&'static str, &'static str)],
    /// Computes the digest of a file's content, which does not depend on where the content is stored, if the format
    /// defines one.
    pub content: Option<ContentDigest>,
    /// The rule that bytes in the data region which belong to no component are zero, if the format has this rule.
    /// Verifying a file checks it.
    pub gaps: Option<&'static Rule>,
    /// Returns the code of the warning for non-zero bytes in the padding before a component, if writers of this version
    /// set them to zero. Verifying a file gives the warning.
    pub padding: Option<fn(version: &str) -> Option<&'static str>>,
    /// Every rule that the decoder and the encoder check.
    pub rules: &'static [&'static Rule],
}

impl Format {
    /// Returns a format that is read with these functions and cannot be written. It has no name and no versions: set
    /// these and other fields with struct update syntax.
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
            often_duplicates_weights: false,
            external_files: None,
            other_values: &[],
            content: None,
            gaps: None,
            padding: None,
            rules: &[],
        }
    }
}

/// The part of a file that contains its index, the table of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexLocation {
    /// The start. It leads to everything that lies elsewhere.
    Start,
    /// The end, and a few bytes at the start that identify the format.
    End,
    /// Both the start and the end.
    BothEnds,
}

/// How the files of a model in several files belong together.
#[derive(Debug, Clone, Copy)]
pub enum Shards {
    /// An index file in the same folder names the file of each tensor.
    Index,
    /// Each file states in its attributes which part it is.
    Parts(Parts),
    /// A root file in the same folder names the other files and describes their contents.
    Root,
}

/// The part of a model that a file is, as its attributes state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPart {
    /// The index of the part.
    pub index: u32,
    /// The number of parts.
    pub count: u32,
    /// The number of tensors in all parts together, if stated.
    pub tensors: Option<u32>,
}

/// How files of a format state which part of a model they are.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// Returns the part that a file with these attributes is, or `None` if it is whole.
    pub read: fn(&Attributes) -> Option<ModelPart>,
    /// Sets the attributes of part `number`, counted from 0, of `count` parts, which have `tensors` tensors together.
    pub set: fn(attributes: &mut Attributes, number: u16, count: u16, tensors: i32),
    /// Removes the attributes that only a part has.
    pub remove: fn(&mut Attributes),
}

/// How a file refers to external files, in the same folder or below it, with bytes of its tensors.
#[derive(Debug, Clone, Copy)]
pub struct ExternalFiles {
    /// The rule that a tensor breaks if its external file is not available.
    pub missing: &'static Rule,
    /// The rule that external files are in the folder of the file that names them, or below it.
    pub outside: &'static Rule,
    /// Returns the names of the external files of the file in the window, in the order in which they occur.
    pub names: fn(&Window, &Limits) -> Result<Vec<String>, Stop>,
    /// Returns the path, relative to the folder, of the file that a file with the first name calls by the second name.
    pub path: fn(&str, &str) -> String,
    /// Decodes the file in the window together with its available external files, which are given as the names that the
    /// file has for them, and their lengths. They become the sources 1, 2, … of the index.
    pub decode: DecodeExternal,
}

/// Computes the digest of a file's content; `None` if the file lacks digests that are required for it.
pub type ContentDigest = fn(&Window, &Limits) -> Result<Option<String>, Stop>;

/// Decodes a file together with its external files.
pub type DecodeExternal = fn(&Window, &Limits, &[(String, u64)]) -> Result<Index, Stop>;

/// Finds offsets at which an earlier version of a file may have ended, in some of its bytes.
pub type FindOldEnds = fn(&[u8]) -> Vec<OldEnd>;

/// An offset at which an earlier version of a file may have ended, judged by the bytes before it.
#[derive(Debug, Clone, Copy)]
pub struct OldEnd {
    /// The offset in the bytes that were searched.
    pub offset: usize,
    /// The number of bytes from the start of the supposed table of contents to this offset.
    pub back: u64,
    /// Returns `true` if a table of contents may begin with these bytes, of which there are at least 8.
    pub begins: fn(&[u8]) -> bool,
}

/// Returns the byte range of a file's table of contents.
pub type FindTable = fn(&Window, &Limits) -> Result<Range<u64>, Stop>;

/// Makes an encoder for one file.
pub type NewEncoder = fn(&EncodeOptions) -> Result<Box<dyn Encode>>;

/// Returns the encoder, or `None` in a build that does not write.
#[allow(dead_code, reason = "a build may have no format that is written")]
pub(crate) const fn writer(new: NewEncoder) -> Option<NewEncoder> {
    if cfg!(feature = "write") { Some(new) } else { None }
}
