//! Rules of packages that apply only on a file system.

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The runner of the model is not known.
    pub RUNNER: Misuse "package/runner"
        "The description of a new package names the runner of its model, and the required versions of the framework.";
    /// A declaration of an input or output cannot be parsed.
    pub DECLARED: Misuse "package/declared"
        "An input or output that is declared in one line has the form `NAME: TYPE[DIMENSIONS]`.";
    /// The target is among the files to be packed.
    pub OUTPUT_INSIDE: Misuse "package/output-inside"
        "A package is written outside the folder that is packed, and not over a file that is packed."
        hint "choose a path in another folder";
    /// A file to be packed is damaged.
    pub UNREAD: Malformed "package/unread"
        "A packed model file can be read. A damaged one is packed unchanged, and files that it may refer to are not found."
        hint "`holdall verify` reports its errors";
    /// The folder to unpack into exists or cannot be used.
    pub TARGET: Misuse "package/target"
        "A package is unpacked into a new folder."
        hint "name a folder that does not exist"
        remedies [Overwrite];
}
