//! Every rule of zip archives.

crate::error::rules! {
    /// Rules of zip archives.
    pub static RULES;

    /// No end record.
    pub END: Malformed "zip/end"
        "A zip ends in one whole end record and its comment."
        hint "the file was cut short, perhaps by a download that broke off: get it again";
    /// Something follows the end record.
    pub TRAILING: Malformed "zip/trailing"
        "The comment of the end record reaches to the last byte of the file, and no second end \
         record is in it."
        hint "something was put after the zip: cut it off, or write the zip anew";
    /// A part of a zip of several disks.
    pub MULTI_DISK: Unsupported "zip/multi-disk"
        "A zip is one file, not a part of several."
        hint "join the parts into one zip";
    /// The records for large files are wrong.
    pub ZIP64: Malformed "zip/zip64"
        "A number that does not fit is in a zip64 record, which is whole, in its place, and agrees \
         with those that do fit.";
    /// The directory is not where, or as long as, the end record says.
    pub DIRECTORY: Malformed "zip/directory"
        "The directory ends where the end records start, and holds exactly the entries that these \
         count.";
    /// The directory is too long.
    pub DIRECTORY_LEN: Limit "zip/directory-len"
        "The directory of a zip has at most `Limits::header_len` bytes.";
    /// Too many entries.
    pub TOO_MANY_ENTRIES: Limit "zip/too-many-entries" "A zip has at most `Limits::files` entries.";
    /// An encrypted entry.
    pub ENCRYPTED: Unsupported "zip/encrypted"
        "No entry is encrypted, nor is the directory."
        hint "write the zip anew without a password";
    /// A method that is not known.
    pub METHOD: Unsupported "zip/method"
        "The bytes of an entry are stored as they are, or by Deflate or zstd.";
    /// A name that readers do not agree on.
    pub NAME: Malformed "zip/name"
        "The name of an entry is text in UTF-8, marked so unless it is ASCII, neither empty nor \
         with a NUL, and has no second spelling.";
    /// An entry that is neither file nor folder nor link.
    pub KIND: Malformed "zip/kind"
        "An entry is a file, a symbolic link, or a folder; only a folder's name ends in `/`, and it \
         has no bytes.";
    /// Extra fields that cannot be read.
    pub EXTRA: Malformed "zip/extra"
        "Extra fields of the directory are whole, and those that matter come once.";
    /// Lengths that no data has.
    pub LENGTH: Malformed "zip/length"
        "An entry's two lengths fit its method: the same where it is stored as it is, at most 1032 \
         to 1 by Deflate and 32768 to 1 by zstd.";
    /// Two entries of one name.
    pub DUPLICATE_NAME: Malformed "zip/duplicate-name" "The names of a zip's entries are unique.";
    /// Two entries with common bytes.
    pub OVERLAP: Malformed "zip/overlap" "No byte of a zip belongs to two entries.";
    /// An entry outside the file.
    pub BOUNDS: Malformed "zip/bounds" "Every entry ends before the directory starts.";
    /// The header at the entry says something else.
    pub LOCAL_HEADER: Malformed "zip/local-header"
        "The header before an entry's bytes says what the directory says of it: name, method, \
         flags, lengths, CRC-32.";
    /// What follows the entry says something else.
    pub DESCRIPTOR: Malformed "zip/descriptor"
        "Where a descriptor follows an entry's bytes, it says what the directory says: lengths and \
         CRC-32.";
    /// The bytes are not those that were packed.
    pub CRC32: Integrity "zip/crc32"
        "The decoded bytes of an entry have the CRC-32 that the directory says."
        hint "the file was damaged after it was written: get it again";
    /// An entry to be held in memory is too long.
    pub ENTRY_LEN: Limit "zip/entry-len"
        "An entry that is read as a text has at most `Limits::text_len` bytes.";
}
