//! Rules of packages that involve files.

pub use holdall_package::rules::NOT_HERE;

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A path that the package does not contain.
    pub NO_FILE: NotFound "package/no-file" "The package contains a file with the requested path.";
    /// A file that is not a package.
    pub NO_PACKAGE: Misuse "package/no-package"
        "A file that is opened as a package is a package, not a file of another format.";
    /// A tensor that the package does not contain.
    pub NO_TENSOR: NotFound "package/no-tensor"
        "`tensor_data/index.toml` lists a tensor with the requested name.";
    /// Parts that do not form a package.
    pub PART: Misuse "package/part"
        "The files, tensors and description that a package is made of fit together.";
    /// A link out of the folder to be packed.
    pub LINK_OUT: Misuse "package/link-out"
        "A symbolic link in a folder to be packed leads to something in that folder, unless the caller wants other links followed."
        remedies [FollowLinks];
}
