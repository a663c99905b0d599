//! Every rule of packages, and the codes of its warnings.

use crate::error::{Kind, Rule};
use crate::wire::{toml, zip};

/// Rules of packages; those of zip and TOML included.
pub static RULES: &[&Rule] = &[
    &VERSION,
    &MISSING_FIELD,
    &FIELD,
    &DTYPE,
    &SHAPE,
    &DUPLICATE_NAME,
    &FRAMEWORK_VERSION,
    &REFERENCE,
    &NO_MANIFEST,
    &MANIFEST,
    &MANIFEST_ORDER,
    &LINKS,
    &LINKS_VERSION,
    &PATH,
    &COLLISION,
    &UNLISTED,
    &MISSING_FILE,
    &HASH,
    &SYMLINK,
    &NO_TENSOR_INDEX,
    &TENSOR_FILE,
    &TENSOR_LEN,
    &NESTED,
    &STRINGS,
    &TOO_MANY_FILES,
    &toml::LEN,
    &toml::BROKEN,
    &toml::DEPTH,
    &toml::TOO_MANY_VALUES,
    &zip::END,
    &zip::TRAILING,
    &zip::MULTI_DISK,
    &zip::ZIP64,
    &zip::DIRECTORY,
    &zip::DIRECTORY_LEN,
    &zip::TOO_MANY_ENTRIES,
    &zip::ENCRYPTED,
    &zip::METHOD,
    &zip::NAME,
    &zip::KIND,
    &zip::EXTRA,
    &zip::LENGTH,
    &zip::DUPLICATE_NAME,
    &zip::OVERLAP,
    &zip::BOUNDS,
    &zip::LOCAL_HEADER,
    &zip::DESCRIPTOR,
    &zip::CRC32,
    &zip::ENTRY_LEN,
];

/// A version of the specification that is not 1.
pub static VERSION: Rule =
    Rule::new("carton/version", Kind::Unsupported, "`spec_version` of `carton.toml` is 1.");
/// A required field is missing.
pub static MISSING_FIELD: Rule = Rule::new(
    "carton/missing-field",
    Kind::Malformed,
    "Every table of the texts has the fields that the specification requires.",
);
/// A field of another type.
pub static FIELD: Rule = Rule::new(
    "carton/field",
    Kind::Malformed,
    "Every field that the specification names has the type that it gives it.",
);
/// An element type that is not known.
pub static DTYPE: Rule = Rule::new(
    "carton/dtype",
    Kind::Unsupported,
    "A `dtype` is one of the 11 of the specification; in `tensor_data/index.toml` also `nested`.",
);
/// A shape that is none.
pub static SHAPE: Rule = Rule::new(
    "carton/shape",
    Kind::Malformed,
    "A declared shape is a text or a list of texts and of whole numbers from 0 on; a tensor's shape a list \
     of the latter whose product fits 64 bits. Both have at most `Limits::rank` dimensions.",
);
/// Two things of one name.
pub static DUPLICATE_NAME: Rule = Rule::new(
    "carton/duplicate-name",
    Kind::Malformed,
    "No two inputs have one name, no two outputs, and no two tensors.",
);
/// A requirement that no version can be held against.
pub static FRAMEWORK_VERSION: Rule = Rule::new(
    "carton/framework-version",
    Kind::Malformed,
    "`required_framework_version` is a requirement as Cargo writes it: `=1.12.1`, `>=2, <3`.",
);
/// A reference that leads nowhere.
pub static REFERENCE: Rule = Rule::new(
    "carton/reference",
    Kind::Malformed,
    "What self-tests and examples refer to is `@tensor_data/` and the name of a tensor of \
     `tensor_data/index.toml`, or, in examples, `@misc/` and the path of a file in `misc`.",
);
/// A zip without `MANIFEST`.
pub static NO_MANIFEST: Rule =
    Rule::new("carton/no-manifest", Kind::Malformed, "A package in a zip has a `MANIFEST`.");
/// A line of `MANIFEST` that is no row.
pub static MANIFEST: Rule = Rule::new(
    "carton/manifest",
    Kind::Malformed,
    "Each line of `MANIFEST` is a path, `=` and 64 lower-case hex digits, and ends in one line feed; none \
     is for `MANIFEST` or `LINKS`.",
);
/// `MANIFEST` is not sorted.
pub static MANIFEST_ORDER: Rule = Rule::new(
    "carton/manifest-order",
    Kind::Malformed,
    "The lines of `MANIFEST` rise in the order of the bytes of their paths; no path is twice.",
);
/// `LINKS` says something else than it can.
pub static LINKS: Rule = Rule::new(
    "carton/links",
    Kind::Malformed,
    "`LINKS` maps hashes, 64 lower-case hex digits, to lists of one address or more.",
);
/// Another version of `LINKS`.
pub static LINKS_VERSION: Rule =
    Rule::new("carton/links-version", Kind::Unsupported, "`version` of `LINKS` is 1.");
/// A path that leads out of the package, or that not every system has.
pub static PATH: Rule = Rule::new(
    "carton/path",
    Kind::Malformed,
    "A path has parts separated by `/`, none of them empty, `.` or `..`, and neither backslashes, control \
     characters, nor drives; it has at most 4096 bytes.",
);
/// Two paths that are one on some systems.
pub static COLLISION: Rule = Rule::new(
    "carton/collision",
    Kind::Malformed,
    "No two paths, and no two folders of paths, differ only in case or in the form of Unicode, and no file \
     stands where another has a folder. The names of the texts are paths in this, also of packages without \
     them.",
);
/// A file that `MANIFEST` does not list.
pub static UNLISTED: Rule = Rule::new(
    "carton/unlisted",
    Kind::Malformed,
    "`MANIFEST` lists every file but itself and `LINKS`.",
)
.with_hint("the file was put into the package after it was made: it belongs to no hash");
/// A file that is listed and nowhere to be found.
pub static MISSING_FILE: Rule = Rule::new(
    "carton/missing-file",
    Kind::Malformed,
    "Every file that `MANIFEST` lists is in the package, or its hash is in `LINKS`.",
);
/// Other bytes than `MANIFEST` says.
pub static HASH: Rule = Rule::new(
    "carton/hash",
    Kind::Integrity,
    "The bytes of every file have the SHA-256 that `MANIFEST` gives.",
)
.with_hint("the file was changed after the package was made: get it again from where it came");
/// A symbolic link that leads elsewhere.
pub static SYMLINK: Rule = Rule::new(
    "carton/symlink",
    Kind::Malformed,
    "A symbolic link is relative, leads to a file in the same top folder, not round in a loop, and its row \
     of `MANIFEST` has the hash of that file.",
);
/// Tensor files without a table of tensors.
pub static NO_TENSOR_INDEX: Rule = Rule::new(
    "carton/no-tensor-index",
    Kind::Malformed,
    "Where there are files in `tensor_data`, one of them is `index.toml`.",
);
/// A tensor whose file is not there.
pub static TENSOR_FILE: Rule = Rule::new(
    "carton/tensor-file",
    Kind::Malformed,
    "The `file` of a tensor is the name of a file in `tensor_data`, and not `index.toml`.",
);
/// A tensor file of another length.
pub static TENSOR_LEN: Rule = Rule::new(
    "carton/tensor-len",
    Kind::Malformed,
    "The file of a tensor of numbers has exactly product(shape) elements of its dtype.",
);
/// Nested tensors that do not fit.
pub static NESTED: Rule = Rule::new(
    "carton/nested",
    Kind::Malformed,
    "The `inner` tensors of a nested tensor exist, are not nested, and have one dtype and one rank; the \
     first dimension of its `shape`, if given, is their number.",
);
/// Texts of another number.
pub static STRINGS: Rule = Rule::new(
    "carton/strings",
    Kind::Malformed,
    "The file of a tensor of texts is TOML whose `data` is a list of exactly product(shape) texts.",
);
/// Too many files.
pub static TOO_MANY_FILES: Rule = Rule::new(
    "carton/too-many-files",
    Kind::Limit,
    "A package has at most `Limits::files` files, and `MANIFEST` at most `Limits::text_len` bytes.",
);

/// Codes of warnings: what is odd about a package but does not make it bad.
pub mod warnings {
    /// A self-test does not fit what inputs and outputs are declared to be.
    pub const SELF_TEST: &str = "carton/self-test";
    /// An option of the runner that is not a number, a text, or yes or no.
    pub const OPTION: &str = "carton/option";
    /// A field of ours, or of a later text of the specification, is not what we take it for.
    pub const EXTENSION: &str = "carton/extension";
    /// The entry of `MANIFEST` or `LINKS` has a slash before its name, as the original writes it.
    pub const LEADING_SLASH: &str = "carton/leading-slash";
    /// `tensor_data/index.toml` is only in `LINKS`, so nothing is known of the tensors yet.
    pub const LINKED_INDEX: &str = "carton/linked-index";
}
