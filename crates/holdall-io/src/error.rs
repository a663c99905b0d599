//! Rules that involve files: errors of the operating system, and misuse of this crate's functions.

use holdall_core::Error;
use std::fmt::Display;

pub use holdall_core::error::{Detail, Escape, list, rules};

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// An operation of the operating system failed.
    pub IO: Io "io/failed" "Operations of the operating system succeed.";
    /// There is no tensor with the requested name.
    pub NOT_FOUND: NotFound "file/no-tensor" "The file contains a tensor with the requested name.";
    /// The tensor has no component with the requested role.
    pub NO_COMPONENT: NotFound "file/no-component"
        "The tensor has a component with the requested role.";
    /// There is no attribute with the requested name.
    pub NO_ATTRIBUTE: NotFound "edit/no-attribute"
        "An attribute to be removed exists."
        remedies [ListAttributes];
    /// The file was replaced or truncated while it was open.
    pub CHANGED: Io "file/changed"
        "A file keeps its length while it is open."
        hint "another process is writing the file; open it again when that is done";
    /// The index and the sources do not belong to the same model.
    pub SOURCES: Misuse "file/sources"
        "An index is opened with one source for each that it lists, each of the length that the index states.";
    /// A source returned another number of bytes than requested.
    pub SOURCE_LEN: Misuse "file/source-len"
        "A source returns exactly the bytes of each requested range.";
    /// The requested view does not exist for the tensor's layout.
    pub WRONG_LAYOUT: Misuse "file/wrong-layout"
        "The requested view exists for the tensor's layout.";
    /// The layout is unknown, or has no elements.
    pub UNKNOWN_LAYOUT: Unsupported "file/unknown-layout"
        "Elements are read only from tensors whose layout this version knows, and whose layout has elements."
        hint "read its components one by one, as bytes";
    /// The buffer has another length than the component.
    pub BUFFER_LEN: Misuse "file/buffer-len"
        "A buffer to read into is exactly as long as the decoded component.";
    /// The target file exists.
    pub EXISTS: Misuse "write/exists"
        "An existing file is only replaced if the caller allows it."
        remedies [Overwrite];
    /// The file name's extension does not name a format.
    pub EXTENSION: Misuse "write/extension"
        "The output format is given by name or by the file name's extension."
        remedies [NameFormat];
    /// A component received more or fewer bytes than declared.
    pub WRITE_LEN: Misuse "write/length"
        "A component receives exactly the declared number of bytes.";
    /// An earlier write failed, so the file would be incomplete.
    pub FAILED: Misuse "write/failed"
        "A file is only finished if all earlier writes succeeded."
        hint "begin the file again";
    /// A component shares bytes with one that was not written.
    pub NOT_WRITTEN: Misuse "write/not-written"
        "A component is written before those that share its bytes.";
    /// The format requires that all tensors are declared first.
    pub DECLARE: Misuse "write/declare"
        "In a format whose header comes first, tensors are declared before the first is written."
        remedies [DeclareTensors];

    /// The target of a write is an address, not a local path.
    pub TO_ADDRESS: Unsupported "write/address"
        "Output goes to a file on disk; `convert`, `pack`, `build` and `fetch` can also write to an object store."
        hint "write a file, and upload it";
    /// There is no folder for the cache.
    pub NO_CACHE: Misuse "cache/no-folder"
        "The block cache has a folder, given by the caller, the environment or the system."
        remedies [SetCache];
    /// A selection matches no tensor.
    pub SELECT: NotFound "select/nothing" "A pattern selects at least one tensor.";
    /// A pattern or rename rule is invalid.
    pub PATTERN: Misuse "select/pattern" "A glob or rename rule is well formed.";
    /// Two tensors would have the same name.
    pub SAME_NAME: Misuse "write/same-name"
        "Tensors of one file have different names, also after renaming.";
    /// The target folder of a model in several files cannot be used.
    pub SHARDS_TARGET: Misuse "shards/target"
        "A model in several files is written into a new folder."
        hint "name a folder that does not exist"
        remedies [Overwrite];
    /// The format does not support models in several files.
    pub SHARDS_FORMAT: Misuse "shards/format"
        "A model in several files is written as safetensors, GGUF or zTensor 2.";
    /// The model would have too many files.
    pub SHARDS_COUNT: Misuse "shards/count"
        "A model is written as at most 99,999 files, or 65,535 as GGUF."
        hint "a greater maximum length makes fewer files";
    /// A rule for element types is invalid.
    pub CAST_RULE: Misuse "convert/cast-rule"
        "Element types to convert to are given as `TYPE`, once, or as `PATTERN=TYPE`, each a float type or `keep`.";
    /// The tensor's elements cannot be converted to another float type.
    pub NOT_CAST: Misuse "convert/not-cast"
        "A tensor named for conversion to another float type is dense and has float elements; if these have 8 bits, its scale is not in another tensor."
        hint "use a pattern instead of the name to select only tensors that can be converted";
    /// The conversion of a weight would lose its scale.
    pub SCALED: Unsupported "convert/scaled-weight"
        "A weight of at most 8 bits whose scale is another tensor of the file (`NAME_scale_inv`, `NAME_scale`) keeps its elements: other ones would be of no use without the scale."
        hint "a rule that says `keep` for such tensors leaves them as they are";
    /// A rule for the form of tensors is invalid.
    pub FORM_RULE: Misuse "convert/form-rule"
        "Forms that tensors are written in are given as `FORM`, once, or as `PATTERN=FORM`, each `csr`, `coo`, \
         `group:BITS:SIZE`, a block type such as `q8_0`, or `keep`.";
    /// The tensor cannot be converted to another form.
    pub NOT_FORMED: Misuse "convert/not-formed"
        "A tensor that is named to become sparse has elements of whole bytes, and two dimensions for `csr`. One that is named to become quantized holds floats, and its rows are a whole number of blocks where blocks are written."
        hint "use a pattern instead of the name to select only tensors that can get this form";
    /// The target format cannot hold a tensor or an attribute.
    pub CANNOT_HOLD: Unsupported "convert/cannot-hold"
        "The target format can hold every tensor and attribute that is written to it.";
    /// The target format does not support the requested encoding or digest.
    pub NOT_IN_FORMAT: Misuse "write/not-in-format"
        "The output format supports the requested encoding and digest.";
    /// Another process is editing the file.
    pub LOCKED: Io "edit/locked"
        "One process at a time edits a file."
        hint "another process is editing the file; try again when it is done";
    /// Another process changed the file after it was read.
    pub CHANGED_SINCE: Io "edit/changed"
        "A file does not change between being read and being edited."
        hint "another process changed the file meanwhile; try again";
    /// The path leads to a pipe or a device, not to a regular file.
    pub NOT_REGULAR: Io "io/not-regular"
        "A path to a file leads to a regular file, not to a pipe or a device."
        remedies [UseStreams];
    /// The system does not accept the name for a new file.
    pub NAME: Misuse "write/name"
        "The name of a new file is one that the system accepts: on Windows not that of a device, without reserved characters, and without a dot or a space at its end."
        hint "choose another name";
    /// The file to be replaced is open in another process.
    pub IN_USE: Io "write/in-use"
        "On Windows, no other process has a file open that is to be replaced."
        hint "close the programs that use the file, then try again; the old file is unchanged";
    /// The operation was cancelled.
    pub CANCELLED: Io "work/cancelled" "A long operation runs to completion unless its caller cancels it.";
    /// A warning that strict verification treats as an error.
    pub ODD: Malformed "verify/odd"
        "A file that is verified strictly causes no warnings when it is opened and verified.";
    /// The file has content that this version does not know.
    pub UNREPRESENTED: Unsupported "edit/unrepresented"
        "A file that is rewritten contains nothing that this version does not know."
        hint "convert it to another file; the report lists everything that is left out";
    /// The attribute is needed to read the tensor.
    pub NEEDED: Misuse "edit/needed-attribute"
        "An attribute that its tensor cannot be read without is not removed."
        hint "give it another value, or remove the tensor";
    /// The file or its format does not allow the edit.
    pub CANNOT_EDIT: Misuse "edit/cannot"
        "An edit names tensors that exist, and new names that are not taken.";
    /// An edit would change several files that cannot be replaced in one step.
    pub SEVERAL_FILES: Unsupported "edit/several-files"
        "An edit of a model in several files without an index changes one of its files."
        hint "convert the model into another folder or file with `holdall convert`, with the changes, or edit the result";
    /// An edit would rename tensors of a shard that was opened alone.
    pub NAMED_ELSEWHERE: Misuse "edit/named-elsewhere"
        "An edit of a single shard does not rename tensors that another file lists by name."
        hint "edit the model through the file that lists them";
    /// The operation does not support this kind of location.
    pub LOCATION: Misuse "operation/location"
        "An operation supports the kind of location that it is given; the documentation has a table of them.";
    /// The damaged file has no sound tensor.
    pub NOTHING_SOUND: Malformed "salvage/nothing-sound"
        "A damaged file that is salvaged has at least one sound tensor.";
}

/// Converts an operating system error that happened while doing `action`. If it contains one of our own errors, which was
/// passed through the standard library, returns that.
#[cold]
pub fn io(e: std::io::Error, action: impl Display) -> Error {
    if let Some(own) = e.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        return own.clone();
    }
    IO.broken(action.to_string()).because(e)
}
