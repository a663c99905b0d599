//! Rules of packages that only exist where there are files.

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// Nothing that says what runs the model.
    pub RUNNER: Misuse "package/runner"
        "A package to be made names the runner of its model, and the versions of the framework that the model needs.";
    /// A line that declares nothing.
    pub DECLARED: Misuse "package/declared"
        "An input or output that is declared in one line has the form `NAME: TYPE[DIMENSIONS]`.";
    /// A package that would be among what it is made of.
    pub OUTPUT_INSIDE: Misuse "package/output-inside"
        "A package is written outside the folder that is packed, and not over a file that is packed."
        hint "name a file in another folder";
    /// A damaged file that is packed.
    pub UNREAD: Malformed "package/unread"
        "A file of a model that is packed can be read: otherwise it is packed as it is, without the files that it may name."
        hint "`holdall verify` says what is wrong with it";
    /// No folder to unpack into.
    pub PLACE: Misuse "package/place"
        "A package is unpacked into a new folder."
        hint "name a folder that does not exist"
        remedies [Overwrite];
}
