//! All rules of packages, and the codes of warnings.

holdall_core::error::rules! {
    /// Rules of packages.
    pub static RULES;

    /// The version of the specification is not 1.
    pub VERSION: Unsupported "carton/version" "`spec_version` of `carton.toml` is 1.";
    /// A required field is missing.
    pub MISSING_FIELD: Malformed "carton/missing-field"
        "Every table has the fields that the specification requires.";
    /// A field has another type.
    pub FIELD: Malformed "carton/field"
        "Every field that the specification names has the type that the specification gives.";
    /// An element type is unknown.
    pub DTYPE: Unsupported "carton/dtype"
        "A `dtype` is one of the 11 that the specification names, or `nested` in `tensor_data/index.toml`.";
    /// An invalid shape.
    pub SHAPE: Malformed "carton/shape"
        "A declared shape is a string, or a list of strings and non-negative integers. The shape of a tensor is a list of non-negative integers whose product fits in 64 bits. Both have at most `Limits::rank` dimensions.";
    /// Two inputs, outputs or tensors have the same name.
    pub DUPLICATE_NAME: Malformed "carton/duplicate-name"
        "Inputs have unique names, and so do outputs and tensors.";
    /// A version requirement cannot be parsed.
    pub FRAMEWORK_VERSION: Malformed "carton/framework-version"
        "`required_framework_version` is a requirement as Cargo writes it: `=1.12.1`, `>=2, <3`.";
    /// A reference has no target.
    pub REFERENCE: Malformed "carton/reference"
        "A self-test refers to a tensor as `@tensor_data/NAME`, where `tensor_data/index.toml` lists NAME. An example may also refer to a file as `@misc/PATH`.";
    /// A zip without `MANIFEST`.
    pub NO_MANIFEST: Malformed "carton/no-manifest" "A package in a zip has a `MANIFEST`.";
    /// A line of `MANIFEST` is not a row.
    pub MANIFEST: Malformed "carton/manifest"
        "Each line of `MANIFEST` is a path, `=`, 64 lower-case hex digits and a line feed. `MANIFEST` and `LINKS` themselves are not listed.";
    /// `MANIFEST` is not sorted.
    pub MANIFEST_ORDER: Malformed "carton/manifest-order"
        "The lines of `MANIFEST` are sorted by the bytes of their paths, and no path is listed twice.";
    /// `LINKS` has an invalid entry.
    pub LINKS: Malformed "carton/links"
        "`LINKS` maps each hash, 64 lower-case hex digits, to a list of at least one address.";
    /// `LINKS` has another version.
    pub LINKS_VERSION: Unsupported "carton/links-version" "`version` of `LINKS` is 1.";
    /// A path leads out of the package, or is not valid on every system.
    pub PATH: Malformed "carton/path"
        "A path consists of parts separated by `/`. No part is empty, `.` or `..`; there are no backslashes, control characters or drive letters; a part has at most 255 bytes and the path at most 1024.";
    /// Two paths cannot both exist.
    pub COLLISION: Malformed "carton/collision"
        "No file has the path of another file's folder. Paths that differ only in case or Unicode form cause a warning, and can only be unpacked where the file system tells them apart. The names of a package's own texts, and of the folder `model`, count as paths, even in packages without them.";
    /// `MANIFEST` does not list a file.
    pub UNLISTED: Malformed "carton/unlisted"
        "`MANIFEST` lists every file but itself and `LINKS`."
        hint "the file was put into the package after it was made: it belongs to no hash";
    /// A listed file is neither in the package nor in `LINKS`.
    pub MISSING_FILE: Malformed "carton/missing-file"
        "Every file that `MANIFEST` lists is in the package, or its hash is in `LINKS`.";
    /// A file's bytes do not match `MANIFEST`.
    pub HASH: Integrity "carton/hash"
        "The bytes of every file have the SHA-256 that `MANIFEST` gives."
        hint "the file was changed after the package was made: get it again from where it came";
    /// A symbolic link has an invalid target.
    pub SYMLINK: Malformed "carton/symlink"
        "A symbolic link is relative, leads to a file in the same top folder, is not part of a loop, and is listed in `MANIFEST` with the hash of that file.";
    /// There are tensor files but no table of tensors.
    pub NO_TENSOR_INDEX: Malformed "carton/no-tensor-index"
        "If there are files in `tensor_data`, one of them is `index.toml`.";
    /// A tensor's file does not exist.
    pub TENSOR_FILE: Malformed "carton/tensor-file"
        "The `file` of a tensor is the path of a file below `tensor_data`, and not `index.toml`.";
    /// A tensor's file has another length.
    pub TENSOR_LEN: Malformed "carton/tensor-len"
        "The file of a numeric tensor holds exactly product(shape) elements of its dtype.";
    /// The inner tensors of a nested tensor do not fit.
    pub NESTED: Malformed "carton/nested"
        "The `inner` tensors of a nested tensor exist, are not nested themselves, and share one dtype and one rank. The first dimension of `shape`, if given, is how many there are.";
    /// A string tensor has another number of texts.
    pub STRINGS: Malformed "carton/strings"
        "The file of a string tensor is TOML whose `data` is a list of exactly product(shape) strings.";
    /// A self-test does not fit the declarations; reported when the package is opened.
    pub SELF_TEST: Malformed "carton/self-test"
        "A self-test gives every declared input and no other tensor, each with the declared dtype and shape. Breaking this is a warning, or an error where the package is verified strictly.";
    /// An example does not fit the declarations.
    pub EXAMPLE: Malformed "carton/example"
        "An example has inputs or outputs, and all of them are declared. Breaking this is a warning, or an error where the package is verified strictly.";
    /// Inputs are declared, but no outputs.
    pub NO_OUTPUTS: Malformed "carton/no-outputs"
        "A package that declares inputs declares outputs too. Breaking this is a warning, or an error where the package is verified strictly.";
    /// There are self-tests or examples, but no declarations.
    pub NOTHING_DECLARED: Malformed "carton/nothing-declared"
        "A package with self-tests or examples declares its inputs and outputs. Breaking this is a warning, or an error where the package is verified strictly.";
    /// There is no folder `model`.
    pub NO_MODEL: Malformed "carton/no-model"
        "A package has a folder `model`, with files or without. Breaking this is a warning, or an error where the package is verified strictly.";
    /// A platform is not a target triple.
    pub PLATFORM: Malformed "carton/platform"
        "`required_platforms` lists target triples, such as `x86_64-unknown-linux-gnu`. Breaking this is a warning, or an error where the package is verified strictly."
        hint "no program has a platform of that name, so that the model runs nowhere";
    /// A link in the description has a missing or forbidden target.
    pub DESCRIPTION_LINK: Malformed "carton/description-link"
        "Links and pictures in `model_description` have absolute `https` addresses, or `@misc/` and the path of a file in `misc`. Breaking this is a warning, or an error where the package is verified strictly.";
    /// The description contains HTML, which is shown as text.
    pub DESCRIPTION_HTML: Malformed "carton/description-html"
        "`model_description` contains no HTML. Breaking this is a warning, or an error where the package is verified strictly.";
    /// A file is only linked to, and was not fetched.
    pub NOT_HERE: Unsupported "package/not-here"
        "A file that is only linked to is fetched before it is read."
        remedies [FetchLinks];
    /// There are too many files.
    pub TOO_MANY_FILES: Limit "carton/too-many-files"
        "A package has at most `Limits::files` files, and `MANIFEST` at most `Limits::text_len` \
         bytes."
        remedies [RaiseLimit { limit: "files", at_least: None }];
}

/// Codes of warnings: irregularities that do not make a package bad.
pub mod warnings {
    /// A self-test does not fit the declared inputs and outputs.
    pub const SELF_TEST: &str = "carton/self-test";
    /// A field of our extensions, or of a later specification, has another type than expected.
    pub const EXTENSION: &str = "carton/extension";
    /// The entry `MANIFEST` or `LINKS` has a slash before its name, as the original writes it.
    pub const LEADING_SLASH: &str = "carton/leading-slash";
    /// `carton.toml` is only in `LINKS`, so the description of the model is not known yet.
    pub const LINKED_DESCRIPTION: &str = "carton/linked-description";
    /// `tensor_data/index.toml` is only in `LINKS`, so the tensors are not known yet.
    pub const LINKED_INDEX: &str = "carton/linked-index";
}
