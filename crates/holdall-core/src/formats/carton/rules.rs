//! Every rule of packages, and the codes of its warnings.

crate::error::rules! {
    /// Rules of packages.
    pub static RULES;

    /// A version of the specification that is not 1.
    pub VERSION: Unsupported "carton/version" "`spec_version` of `carton.toml` is 1.";
    /// A required field is missing.
    pub MISSING_FIELD: Malformed "carton/missing-field"
        "Every table of the texts has the fields that the specification requires.";
    /// A field of another type.
    pub FIELD: Malformed "carton/field"
        "Every field that the specification names has the type that it gives it.";
    /// An element type that is not known.
    pub DTYPE: Unsupported "carton/dtype"
        "A `dtype` is one of the 11 of the specification; in `tensor_data/index.toml` also \
         `nested`.";
    /// A shape that is none.
    pub SHAPE: Malformed "carton/shape"
        "A declared shape is a text or a list of texts and of whole numbers from 0 on; a tensor's \
         shape a list of the latter whose product fits 64 bits. Both have at most `Limits::rank` \
         dimensions.";
    /// Two things of one name.
    pub DUPLICATE_NAME: Malformed "carton/duplicate-name"
        "No two inputs have one name, no two outputs, and no two tensors.";
    /// A requirement that no version can be checked against.
    pub FRAMEWORK_VERSION: Malformed "carton/framework-version"
        "`required_framework_version` is a requirement as Cargo writes it: `=1.12.1`, `>=2, <3`.";
    /// A reference that leads nowhere.
    pub REFERENCE: Malformed "carton/reference"
        "What self-tests and examples refer to is `@tensor_data/` and the name of a tensor of \
         `tensor_data/index.toml`, or, in examples, `@misc/` and the path of a file in `misc`.";
    /// A zip without `MANIFEST`.
    pub NO_MANIFEST: Malformed "carton/no-manifest" "A package in a zip has a `MANIFEST`.";
    /// A line of `MANIFEST` that is not a row.
    pub MANIFEST: Malformed "carton/manifest"
        "Each line of `MANIFEST` is a path, `=` and 64 lower-case hex digits, and ends in one line \
         feed; none is for `MANIFEST` or `LINKS`.";
    /// `MANIFEST` is not sorted.
    pub MANIFEST_ORDER: Malformed "carton/manifest-order"
        "The lines of `MANIFEST` rise in the order of the bytes of their paths; no path is twice.";
    /// `LINKS` says something else than it can.
    pub LINKS: Malformed "carton/links"
        "`LINKS` maps hashes, 64 lower-case hex digits, to lists of one address or more.";
    /// Another version of `LINKS`.
    pub LINKS_VERSION: Unsupported "carton/links-version" "`version` of `LINKS` is 1.";
    /// A path that leads out of the package, or that not every system has.
    pub PATH: Malformed "carton/path"
        "A path has parts separated by `/`, none of them empty, `.` or `..`, and neither \
         backslashes, control characters, nor drives; it has at most 1024 bytes, each part 255.";
    /// Two paths that cannot both be.
    pub COLLISION: Malformed "carton/collision"
        "No file stands where another path has a folder, and paths that differ only in case or in the form \
         of Unicode are unpacked to a place that keeps them apart. The names of the texts and of the folder \
         `model` are paths in this, also of packages without them. Of such paths it is warned.";
    /// A file that `MANIFEST` does not list.
    pub UNLISTED: Malformed "carton/unlisted"
        "`MANIFEST` lists every file but itself and `LINKS`."
        hint "the file was put into the package after it was made: it belongs to no hash";
    /// A file that is listed and nowhere to be found.
    pub MISSING_FILE: Malformed "carton/missing-file"
        "Every file that `MANIFEST` lists is in the package, or its hash is in `LINKS`.";
    /// Other bytes than `MANIFEST` says.
    pub HASH: Integrity "carton/hash"
        "The bytes of every file have the SHA-256 that `MANIFEST` gives."
        hint "the file was changed after the package was made: get it again from where it came";
    /// A symbolic link that leads elsewhere.
    pub SYMLINK: Malformed "carton/symlink"
        "A symbolic link is relative, leads to a file in the same top folder, not round in a loop, \
         and its row of `MANIFEST` has the hash of that file.";
    /// Tensor files without a table of tensors.
    pub NO_TENSOR_INDEX: Malformed "carton/no-tensor-index"
        "Where there are files in `tensor_data`, one of them is `index.toml`.";
    /// A tensor whose file is not there.
    pub TENSOR_FILE: Malformed "carton/tensor-file"
        "The `file` of a tensor is the path of a file below `tensor_data`, and not `index.toml`.";
    /// A tensor file of another length.
    pub TENSOR_LEN: Malformed "carton/tensor-len"
        "The file of a tensor of numbers has exactly product(shape) elements of its dtype.";
    /// Nested tensors that do not fit.
    pub NESTED: Malformed "carton/nested"
        "The `inner` tensors of a nested tensor exist, are not nested, and have one dtype and one \
         rank; the first dimension of its `shape`, if given, is their number.";
    /// Texts of another number.
    pub STRINGS: Malformed "carton/strings"
        "The file of a tensor of texts is TOML whose `data` is a list of exactly product(shape) \
         texts.";
    /// A self-test that does not fit what is declared: told when the package is opened.
    pub SELF_TEST: Malformed "carton/self-test"
        "The tensors of a self-test are those that are declared: every input and no other, dtypes and shapes as \
         declared. It is a warning, unless the package is verified strictly.";
    /// An example of something else.
    pub EXAMPLE: Malformed "carton/example"
        "An example has inputs or outputs, and they are declared ones. It is a warning, unless the package is verified \
         strictly.";
    /// Inputs, and no outputs.
    pub NO_OUTPUTS: Malformed "carton/no-outputs"
        "A package that declares an input declares its outputs, too. It is a warning, unless the package is verified \
         strictly.";
    /// Tests of what is not said.
    pub NOTHING_DECLARED: Malformed "carton/nothing-declared"
        "A package with self-tests or examples declares inputs and outputs. It is a warning, unless the package is \
         verified strictly.";
    /// Nothing to run.
    pub NO_MODEL: Malformed "carton/no-model"
        "A package has a file in `model`. It is a warning, unless the package is verified strictly.";
    /// A platform that no program would call so.
    pub PLATFORM: Malformed "carton/platform"
        "`required_platforms` lists target triples: `x86_64-unknown-linux-gnu`. It is a warning, unless the package is \
         verified strictly."
        hint "no program has a platform of that name, so that the model runs nowhere";
    /// A link that leads nowhere, or where it must not.
    pub DESCRIPTION_LINK: Malformed "carton/description-link"
        "Links and pictures of `model_description` lead to whole `https` addresses, or to `@misc/` and the path of a \
         file in `misc`. It is a warning, unless the package is verified strictly.";
    /// HTML, which is not shown as such.
    pub DESCRIPTION_HTML: Malformed "carton/description-html"
        "`model_description` has no HTML. It is a warning, unless the package is verified strictly.";
    /// Too many files.
    pub TOO_MANY_FILES: Limit "carton/too-many-files"
        "A package has at most `Limits::files` files, and `MANIFEST` at most `Limits::text_len` \
         bytes.";
}

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
    /// `carton.toml` is only in `LINKS`, so nothing is known of the model yet.
    pub const LINKED_DESCRIPTION: &str = "carton/linked-description";
    /// `tensor_data/index.toml` is only in `LINKS`, so nothing is known of the tensors yet.
    pub const LINKED_INDEX: &str = "carton/linked-index";
}
