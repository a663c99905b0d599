//! Rules of packages that only exist where there are files.

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A path that is not in the package.
    pub NO_FILE: NotFound "package/no-file" "The package contains the file whose path is asked for.";
    /// A file that is not a package.
    pub NO_PACKAGE: Misuse "package/no-package"
        "A file that is opened as a package is a package, not a file of another format.";
    /// A tensor that is not in the package.
    pub NO_TENSOR: NotFound "package/no-tensor"
        "`tensor_data/index.toml` lists the tensor that is asked for by name.";
    /// A file that is only linked to, and nobody to fetch it.
    pub NOT_HERE: Unsupported "package/not-here"
        "A file that is only linked to is fetched before it is read."
        remedies [FetchLinks];
    /// Parts that do not make a package.
    pub PART: Misuse "package/part"
        "The files, tensors and description that a package is made of fit together.";
    /// Nothing that says what runs the model.
    pub RUNNER: Misuse "package/runner"
        "A package to be made names the runner of its model, and the versions of the framework that the model needs.";
    /// A line that declares nothing.
    pub DECLARED: Misuse "package/declared"
        "An input or output that is declared in one line has the form `NAME: TYPE[DIMENSIONS]`.";
    /// A link out of the folder that is packed.
    pub LINK_OUT: Misuse "package/link-out"
        "A symbolic link in a folder to be packed leads to something in that folder, unless the caller wants other links followed."
        remedies [FollowLinks];
    /// A package that would be among what it is made of.
    pub OUTPUT_INSIDE: Misuse "package/output-inside"
        "A package is written outside the folder that is packed, and not over a file that is packed."
        hint "name a file in another folder";
    /// No folder to unpack into.
    pub PLACE: Misuse "package/place"
        "A package is unpacked into a new folder."
        hint "name a folder that does not exist"
        remedies [Overwrite];
}
