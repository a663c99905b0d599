//! The rules of zip archives.

crate::error::rules! {
    /// Rules of zip archives.
    pub static RULES;

    /// The end record is missing.
    pub END: Malformed "zip/end"
        "A zip ends with one complete end record and its comment."
        hint "the file is incomplete, perhaps because a download was interrupted: download it again"
        remedies [Salvage];
    /// Bytes follow the end record.
    pub TRAILING: Malformed "zip/trailing"
        "The comment of the end record extends to the last byte of the file, and contains no second end record."
        hint "bytes were appended to the zip: remove them, or write the zip again";
    /// The file is one part of a zip of several disks.
    pub MULTI_DISK: Unsupported "zip/multi-disk"
        "A zip is a single file, not one of several parts."
        hint "join the parts into one zip";
    /// The zip64 records are malformed.
    pub ZIP64: Malformed "zip/zip64"
        "A number that does not fit its field is in a zip64 record, which is complete, in its place, and agrees with the numbers that do fit.";
    /// The directory is not where the end record states, or has another length.
    pub DIRECTORY: Malformed "zip/directory"
        "The directory ends where the end records start, and has exactly as many entries as they state.";
    /// The directory is too long.
    pub DIRECTORY_LEN: Limit "zip/directory-len"
        "The directory of a zip has at most `Limits::header_len` bytes."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
    /// There are too many entries.
    pub TOO_MANY_ENTRIES: Limit "zip/too-many-entries" "A zip has at most `Limits::files` entries."
        remedies [RaiseLimit { limit: "files", at_least: None }];
    /// An entry is encrypted.
    pub ENCRYPTED: Unsupported "zip/encrypted"
        "Neither entries nor the directory are encrypted."
        hint "write the zip again without a password";
    /// The compression method is not supported.
    pub METHOD: Unsupported "zip/method"
        "The bytes of an entry are stored, or compressed by Deflate or zstd.";
    /// Readers do not agree on the name of an entry.
    pub NAME: Malformed "zip/name"
        "The name of an entry is UTF-8, marked as such unless it is ASCII. It is not empty, contains no NUL and has no second spelling.";
    /// An entry is neither a file nor a folder nor a symbolic link.
    pub KIND: Malformed "zip/kind"
        "An entry is a file, a symbolic link or a folder. Only a folder's name ends in `/`, and a folder has no bytes.";
    /// Extra fields are malformed.
    pub EXTRA: Malformed "zip/extra"
        "Extra fields in the directory are complete, and those that matter appear once.";
    /// The lengths of an entry are impossible.
    pub LENGTH: Malformed "zip/length"
        "An entry's stored and decoded lengths fit its method: equal if it is stored, at most 1 to 1032 by Deflate and 1 to 32768 by zstd.";
    /// Two entries have the same name.
    pub DUPLICATE_NAME: Malformed "zip/duplicate-name" "The names of a zip's entries are unique.";
    /// Two entries overlap.
    pub OVERLAP: Malformed "zip/overlap" "No byte of a zip belongs to two entries.";
    /// An entry extends beyond the end of the data.
    pub BOUNDS: Malformed "zip/bounds" "Every entry ends before the directory starts.";
    /// The local header of an entry differs from the directory.
    pub LOCAL_HEADER: Malformed "zip/local-header"
        "The header before an entry's bytes agrees with the directory: name, method, flags, lengths, CRC-32.";
    /// The descriptor of an entry differs from the directory.
    pub DESCRIPTOR: Malformed "zip/descriptor"
        "A descriptor after an entry's bytes gives the same lengths and CRC-32 as the directory.";
    /// The bytes differ from the ones that were packed.
    pub CRC32: Integrity "zip/crc32"
        "The decoded bytes of an entry match the CRC-32 in the directory."
        hint "the file was damaged after it was written: download or copy it again";
    /// An entry is too long to be read into memory.
    pub ENTRY_LEN: Limit "zip/entry-len"
        "An entry that is read as a text has at most `Limits::text_len` bytes."
        remedies [RaiseLimit { limit: "text_len", at_least: None }];
}
