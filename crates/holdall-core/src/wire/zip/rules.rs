//! Every rule of zip archives.

use crate::error::{Kind, Rule};

/// Rules of zip archives.
pub static RULES: &[&Rule] = &[
    &END,
    &TRAILING,
    &MULTI_DISK,
    &ZIP64,
    &DIRECTORY,
    &DIRECTORY_LEN,
    &TOO_MANY_ENTRIES,
    &ENCRYPTED,
    &METHOD,
    &NAME,
    &KIND,
    &EXTRA,
    &LENGTH,
    &DUPLICATE_NAME,
    &OVERLAP,
    &BOUNDS,
    &LOCAL_HEADER,
    &DESCRIPTOR,
    &CRC32,
    &ENTRY_LEN,
];

/// No end record.
pub static END: Rule =
    Rule::new("zip/end", Kind::Malformed, "A zip ends in one whole end record and its comment.")
        .with_hint("the file was cut short, perhaps by a download that broke off: get it again");
/// Something follows the end record.
pub static TRAILING: Rule = Rule::new(
    "zip/trailing",
    Kind::Malformed,
    "The comment of the end record reaches to the last byte of the file, and no second end record is in \
     it.",
)
.with_hint("something was put after the zip: cut it off, or write the zip anew");
/// A part of a zip of several disks.
pub static MULTI_DISK: Rule =
    Rule::new("zip/multi-disk", Kind::Unsupported, "A zip is one file, not a part of several.")
        .with_hint("`zip -s 0 parts.zip --out whole.zip` joins the parts");
/// The records for large files are wrong.
pub static ZIP64: Rule = Rule::new(
    "zip/zip64",
    Kind::Malformed,
    "A number that does not fit is in a zip64 record, which is whole, in its place, and agrees with those \
     that do fit.",
);
/// The directory is not where, or as long as, the end record says.
pub static DIRECTORY: Rule = Rule::new(
    "zip/directory",
    Kind::Malformed,
    "The directory ends where the end records start, and holds exactly the entries that these count.",
);
/// The directory is too long.
pub static DIRECTORY_LEN: Rule = Rule::new(
    "zip/directory-len",
    Kind::Limit,
    "The directory of a zip has at most `Limits::header_len` bytes.",
);
/// Too many entries.
pub static TOO_MANY_ENTRIES: Rule =
    Rule::new("zip/too-many-entries", Kind::Limit, "A zip has at most `Limits::files` entries.");
/// An encrypted entry.
pub static ENCRYPTED: Rule =
    Rule::new("zip/encrypted", Kind::Unsupported, "No entry is encrypted, nor is the directory.")
        .with_hint("write the zip anew without a password");
/// A method that is not known.
pub static METHOD: Rule = Rule::new(
    "zip/method",
    Kind::Unsupported,
    "The bytes of an entry are stored as they are, or by Deflate or zstd.",
);
/// A name that readers do not agree on.
pub static NAME: Rule = Rule::new(
    "zip/name",
    Kind::Malformed,
    "The name of an entry is text in UTF-8, marked so unless it is ASCII, neither empty nor with a NUL, and \
     has no second spelling.",
);
/// An entry that is neither file nor folder nor link.
pub static KIND: Rule = Rule::new(
    "zip/kind",
    Kind::Malformed,
    "An entry is a file, a symbolic link, or a folder; only a folder's name ends in `/`, and it has no \
     bytes.",
);
/// Extra fields that cannot be read.
pub static EXTRA: Rule = Rule::new(
    "zip/extra",
    Kind::Malformed,
    "Extra fields of the directory are whole, and those that matter come once.",
);
/// Lengths that no data has.
pub static LENGTH: Rule = Rule::new(
    "zip/length",
    Kind::Malformed,
    "An entry's two lengths fit its method: the same where it is stored as it is, at most 1032 to 1 by \
     Deflate and 32768 to 1 by zstd.",
);
/// Two entries of one name.
pub static DUPLICATE_NAME: Rule =
    Rule::new("zip/duplicate-name", Kind::Malformed, "The names of a zip's entries are unique.");
/// Two entries with common bytes.
pub static OVERLAP: Rule =
    Rule::new("zip/overlap", Kind::Malformed, "No byte of a zip belongs to two entries.");
/// An entry outside the file.
pub static BOUNDS: Rule =
    Rule::new("zip/bounds", Kind::Malformed, "Every entry ends before the directory starts.");
/// The header at the entry says something else.
pub static LOCAL_HEADER: Rule = Rule::new(
    "zip/local-header",
    Kind::Malformed,
    "The header before an entry's bytes says what the directory says of it: name, method, flags, lengths, \
     CRC-32.",
);
/// What follows the entry says something else.
pub static DESCRIPTOR: Rule = Rule::new(
    "zip/descriptor",
    Kind::Malformed,
    "Where a descriptor follows an entry's bytes, it says what the directory says: lengths and CRC-32.",
);
/// The bytes are not those that were packed.
pub static CRC32: Rule = Rule::new(
    "zip/crc32",
    Kind::Integrity,
    "The decoded bytes of an entry have the CRC-32 that the directory says.",
)
.with_hint("the file was damaged after it was written: get it again");
/// An entry to be held in memory is too long.
pub static ENTRY_LEN: Rule = Rule::new(
    "zip/entry-len",
    Kind::Limit,
    "An entry that is read as a text has at most `Limits::text_len` bytes.",
);
