//! Rules of packages that only exist where there are files.

use holdall_core::{Kind, Rule};

/// A path that is not in the package.
pub static NO_FILE: Rule =
    Rule::new("package/no-file", Kind::NotFound, "A file asked for by path is in the package.");
/// A file that is no package.
pub static NO_PACKAGE: Rule = Rule::new(
    "package/no-package",
    Kind::Misuse,
    "A file that is opened as a package is one, not a file of another format.",
);
/// A tensor that is not in the package.
pub static NO_TENSOR: Rule = Rule::new(
    "package/no-tensor",
    Kind::NotFound,
    "A tensor asked for by name is one that `tensor_data/index.toml` lists.",
);
/// A file that is only linked to, and nobody to fetch it.
pub static NOT_HERE: Rule = Rule::new(
    "package/not-here",
    Kind::Unsupported,
    "A file that is only linked to is fetched before it is read.",
)
.with_hint("`holdall fetch` gets what a package links to");
/// Parts that do not make a package.
pub static PART: Rule = Rule::new(
    "package/part",
    Kind::Misuse,
    "Files, tensors and description of a package that is made fit together.",
);
/// A link out of the folder that is packed.
pub static LINK_OUT: Rule = Rule::new(
    "package/link-out",
    Kind::Misuse,
    "A symbolic link in a folder that is packed leads to what is in the folder, unless the caller wants \
     others followed.",
)
.with_hint("`--follow-links` packs what such links lead to");
/// A package that would be among what it is made of.
pub static OUTPUT_INSIDE: Rule = Rule::new(
    "package/output-inside",
    Kind::Misuse,
    "A package is written outside the folder that is packed, and to none of the files that are.",
)
.with_hint("name a file in another folder");
/// No folder to unpack into.
pub static PLACE: Rule =
    Rule::new("package/place", Kind::Misuse, "A package is unpacked into a new folder.")
        .with_hint("name a folder that does not exist, or add `--force` to replace it");
