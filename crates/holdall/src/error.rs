//! Rules that only exist where there are files: what the operating system says, what callers ask.

#[cfg(feature = "carton")]
use crate::carton::links::rules as links;
#[cfg(feature = "carton")]
use crate::carton::rules as packages;
use crate::http::rules as http;
use crate::records::rules as records;
use holdall_core::{Error, Kind, Rule};
use std::fmt::Display;

pub use holdall_core::error::{Shown, list};

/// Every rule of this crate.
pub static RULES: &[&Rule] = &[
    &IO,
    &NOT_FOUND,
    &NO_COMPONENT,
    &NO_ATTRIBUTE,
    &DIGEST,
    &CHANGED,
    &WRONG_LAYOUT,
    &UNKNOWN_LAYOUT,
    &BUFFER_LEN,
    &EXISTS,
    &EXTENSION,
    &WRITE_LEN,
    &NOT_WRITTEN,
    &DECLARE,
    &SELECT,
    &PATTERN,
    &SAME_NAME,
    &CANNOT_EDIT,
    &CANNOT_HOLD,
    &NOT_IN_FORMAT,
    &LOCKED,
    &CHANGED_SINCE,
    &NOT_REGULAR,
    &CANCELLED,
    &records::KIND,
    &records::SIZE,
    &records::HEAP,
    &records::INDEX,
    &records::BUFFER,
    &records::CONTENT,
    &records::NODE,
    &records::OTHER_KIND,
    &records::LINE,
    &records::DERIVE,
    &http::NOT_BUILT,
    &http::URL,
    &http::SCHEME,
    &http::DOWNGRADE,
    &http::PRIVATE_HOST,
    &http::REDIRECT,
    &http::REDIRECT_TARGET,
    &http::FAILED,
    &http::SLOW,
    &http::STATUS,
    &http::ANSWER,
    &http::RANGES,
    &http::ENCODING,
    &http::CHANGED,
    &http::TOO_LONG,
    &http::CERTIFICATES,
    #[cfg(feature = "carton")]
    &packages::NO_FILE,
    #[cfg(feature = "carton")]
    &packages::NO_TENSOR,
    #[cfg(feature = "carton")]
    &packages::NOT_HERE,
    #[cfg(feature = "carton")]
    &packages::NO_PACKAGE,
    #[cfg(feature = "carton")]
    &packages::PART,
    #[cfg(feature = "carton")]
    &packages::LINK_OUT,
    #[cfg(feature = "carton")]
    &packages::OUTPUT_INSIDE,
    #[cfg(feature = "carton")]
    &packages::PLACE,
    #[cfg(feature = "carton")]
    &links::UNREACHABLE,
    #[cfg(feature = "carton")]
    &links::DIGEST,
    #[cfg(feature = "carton")]
    &links::ENCODED,
    #[cfg(feature = "carton")]
    &links::TOO_LONG,
    #[cfg(feature = "carton")]
    &links::OFFLINE,
    #[cfg(feature = "carton")]
    &links::NO_ADDRESS,
    #[cfg(feature = "carton")]
    &links::NOT_AN_ADDRESS,
    #[cfg(feature = "carton")]
    &links::CACHE_FOLDER,
    #[cfg(feature = "carton")]
    &links::ADDRESS,
    #[cfg(feature = "carton")]
    &links::CANNOT_LINK,
];

/// The operating system failed.
pub static IO: Rule =
    Rule::new("io/failed", Kind::Io, "The operating system does what it is asked.");
/// No such tensor.
pub static NOT_FOUND: Rule =
    Rule::new("file/no-tensor", Kind::NotFound, "A tensor asked for by name is in the file.");
/// No such component.
pub static NO_COMPONENT: Rule = Rule::new(
    "file/no-component",
    Kind::NotFound,
    "A component asked for by role is in the tensor.",
);
/// No such attribute.
pub static NO_ATTRIBUTE: Rule = Rule::new(
    "edit/no-attribute",
    Kind::NotFound,
    "An attribute that is to be taken away is there.",
)
.with_hint("`holdall inspect` lists the attributes of a file, with `-t NAME` those of a tensor");
/// Stored bytes are not the ones that were written.
pub static DIGEST: Rule = Rule::new(
    "file/digest",
    Kind::Integrity,
    "The stored bytes of a component have the digest that the file gives for them.",
)
.with_hint("the bytes changed since they were written: fetch or restore the file again");
/// The file is not the one that was opened.
pub static CHANGED: Rule =
    Rule::new("file/changed", Kind::Io, "A file keeps its length while it is open.")
        .with_hint("another process is writing the file; open it again when that is done");
/// A view that the layout does not have.
pub static WRONG_LAYOUT: Rule = Rule::new(
    "file/wrong-layout",
    Kind::Misuse,
    "A view is asked for that the tensor's layout has.",
);
/// A layout that means nothing here.
pub static UNKNOWN_LAYOUT: Rule = Rule::new(
    "file/unknown-layout",
    Kind::Unsupported,
    "The elements of a tensor are asked for when its layout is one that this version knows, and is \
     made of elements.",
)
.with_hint("read its components one by one, as bytes");
/// A buffer of the wrong length.
pub static BUFFER_LEN: Rule = Rule::new(
    "file/buffer-len",
    Kind::Misuse,
    "A buffer to read into has exactly the component's decoded length.",
);
/// The target exists.
pub static EXISTS: Rule =
    Rule::new("write/exists", Kind::Misuse, "An existing file is replaced only when asked to.")
        .with_hint("add `--force` to replace it");
/// A name that says no format.
pub static EXTENSION: Rule = Rule::new(
    "write/extension",
    Kind::Misuse,
    "The format to write is named, or its file name extension says it.",
)
.with_hint("name the format: `--to ztensor`, `--to metatensor` or `--to safetensors`");
/// More or fewer bytes than declared.
pub static WRITE_LEN: Rule = Rule::new(
    "write/length",
    Kind::Misuse,
    "A component is given exactly as many bytes as were declared for it.",
);
/// A component is named that was not written.
pub static NOT_WRITTEN: Rule = Rule::new(
    "write/not-written",
    Kind::Misuse,
    "A component whose bytes another shares was written before it.",
);
/// The format needs to know all tensors first.
pub static DECLARE: Rule = Rule::new(
    "write/declare",
    Kind::Misuse,
    "Tensors of a format whose header comes first are declared before the first is written.",
)
.with_hint("call `Writer::declare` with all tensors");

/// Nothing selected.
pub static SELECT: Rule =
    Rule::new("select/nothing", Kind::NotFound, "A pattern selects at least one tensor.");
/// A pattern that cannot be read.
pub static PATTERN: Rule =
    Rule::new("select/pattern", Kind::Misuse, "A glob or rename rule is well formed.");
/// Two tensors would have one name.
pub static SAME_NAME: Rule = Rule::new(
    "write/same-name",
    Kind::Misuse,
    "Tensors of one file have different names, after renaming too.",
);
/// The target format cannot hold something.
pub static CANNOT_HOLD: Rule = Rule::new(
    "convert/cannot-hold",
    Kind::Unsupported,
    "The target format can hold every tensor and attribute that is written to it.",
);
/// An encoding or a digest is asked for that the target format lacks.
pub static NOT_IN_FORMAT: Rule = Rule::new(
    "write/not-in-format",
    Kind::Misuse,
    "An encoding and a digest that are asked for are ones that the format written has.",
);
/// Another process is editing the file.
pub static LOCKED: Rule = Rule::new("edit/locked", Kind::Io, "One process at a time edits a file.")
    .with_hint("another process is editing the file; try again when it is done");
/// The file was changed by someone else.
pub static CHANGED_SINCE: Rule = Rule::new(
    "edit/changed",
    Kind::Io,
    "A file is changed by nobody else between reading it and editing it.",
)
.with_hint("another process changed the file meanwhile; try again");
/// The name belongs to something that is not a file of bytes.
pub static NOT_REGULAR: Rule = Rule::new(
    "io/not-regular",
    Kind::Io,
    "A name given for a file is that of a regular file.",
)
.with_hint(
    "for a pipe or a device give `-` and redirect: `holdall … - < PIPE`, `holdall … - > PIPE`",
);
/// The caller has lost interest.
pub static CANCELLED: Rule =
    Rule::new("work/cancelled", Kind::Io, "A long operation is wanted until it is done.");
/// An edit that the file or its format does not allow.
pub static CANNOT_EDIT: Rule = Rule::new(
    "edit/cannot",
    Kind::Misuse,
    "An edit names tensors that are there, and gives names that are not taken.",
);

/// An operating system error that happened while doing `what`.
#[cold]
pub(crate) fn io(e: std::io::Error, what: impl Display) -> Error {
    IO.broken(format!("{what}: {e}")).with_io(e)
}
