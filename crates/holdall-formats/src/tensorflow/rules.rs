//! Every rule of the format.

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// No header, or another version.
    pub HEADER: Unsupported "tensorflow/header"
        "The header, the first entry of an index, states at least one data file, and that readers of version 1 can read it.";
    /// An invalid entry.
    pub ENTRY: Malformed "tensorflow/entry"
        "An entry has a UTF-8 name, a shape without negative dimensions, and bytes in one of the data files.";
    /// An element type that is not known.
    pub ELEMENT_TYPE: Unsupported "tensorflow/element-type"
        "The elements of a tensor are numbers or booleans with 8 bits or more."
        remedies [LeaveOut];
    /// Slices that do not form a tensor.
    pub SLICES: Unsupported "tensorflow/slices"
        "The slices of a variable are stored and cover its shape, each element once; if they do not form a grid, there are at most 4096."
        remedies [LeaveOut];
    /// A data file that does not exist.
    pub DATA: Unsupported "tensorflow/data"
        "The data files that the index of a checkpoint names are in the same folder, and have the bytes that it describes."
        hint "`model.ckpt.index` needs `model.ckpt.data-00000-of-00001` in the same folder, and all other files with such names";
    /// A data file that is a link to another folder.
    pub LINK: Malformed "tensorflow/link" "No data file is a link that leads out of the checkpoint's folder.";
}
