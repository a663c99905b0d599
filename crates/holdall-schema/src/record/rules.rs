//! What can be wrong with records, as JSON and as bytes.

use crate::error::{Kind, Rule};

/// Every rule of records.
pub static RULES: &[&Rule] = &[
    &LENGTH,
    &BOOL_BYTE,
    &ENUM_INDEX,
    &UNION_TAG,
    &PRESENCE,
    &UNION_PADDING,
    &ENTRY_BOUNDS,
    &ENTRY_EMPTY,
    &ENTRY_LENGTH,
    &ENTRY_ALIGN,
    &UTF8,
    &JSON,
    &TOO_LARGE,
    &RANGE,
    &TYPE,
    &MISSING_MEMBER,
    &UNKNOWN_MEMBER,
    &COUNT,
    &ENUM_VALUE,
    &UNION_KEY,
    &TIMESTAMP,
    &BASE64,
    &ACCESS,
    &KEYWORD,
];

/// Another number of bytes than a record has.
pub static LENGTH: Rule =
    Rule::new("record/length", Kind::Misuse, "The bytes of a record are as many as its kind has.");
/// A boolean that is neither.
pub static BOOL_BYTE: Rule =
    Rule::new("record/bool-byte", Kind::Malformed, "A boolean is a byte of 0 or 1.");
/// An enum that stands for nothing.
pub static ENUM_INDEX: Rule =
    Rule::new("record/enum-index", Kind::Malformed, "An enum is a place in its list.");
/// A tag that stands for nothing.
pub static UNION_TAG: Rule =
    Rule::new("record/union-tag", Kind::Malformed, "A union's tag is the place of a variant.");
/// Presence bits and bytes that do not fit together.
pub static PRESENCE: Rule = Rule::new(
    "record/presence",
    Kind::Malformed,
    "The bytes of absent members are zero, and so are presence bits of no member.",
);
/// Bytes beside a variant.
pub static UNION_PADDING: Rule = Rule::new(
    "record/union-padding",
    Kind::Malformed,
    "The bytes of a union that its variant does not take are zero.",
);
/// An entry that leaves the heap.
pub static ENTRY_BOUNDS: Rule =
    Rule::new("record/entry-bounds", Kind::Malformed, "An entry lies inside its heap.");
/// An empty entry that points somewhere.
pub static ENTRY_EMPTY: Rule =
    Rule::new("record/entry-empty", Kind::Malformed, "An entry of length 0 has the offset 0.");
/// Part of an element.
pub static ENTRY_LENGTH: Rule = Rule::new(
    "record/entry-length",
    Kind::Malformed,
    "The bytes of a variable array are a whole number of strides.",
);
/// Elements that do not lie at their alignment.
pub static ENTRY_ALIGN: Rule = Rule::new(
    "record/entry-align",
    Kind::Malformed,
    "A variable array starts at a multiple of its elements' alignment in the heap.",
);
/// A string that is not text.
pub static UTF8: Rule = Rule::new("record/utf8", Kind::Malformed, "A string is UTF-8.");
/// A record kind that holds something else than a JSON object.
pub static JSON: Rule = Rule::new(
    "record/json",
    Kind::Malformed,
    "A `TypeDef:Record` is one JSON object in UTF-8 with unique keys.",
);
/// Entries that share bytes so that they stand for too many.
pub static TOO_LARGE: Rule = Rule::new(
    "record/too-large",
    Kind::Limit,
    "What the entries of a record stand for, shared bytes counted each time, is at most \
     `Limits::decoded_len` bytes.",
);
/// A number that its kind does not have.
pub static RANGE: Rule =
    Rule::new("record/range", Kind::Misuse, "A number is within the range of its kind.");
/// JSON of another type.
pub static TYPE: Rule = Rule::new("record/type", Kind::Misuse, "A value has the type of its kind.");
/// A required member that is missing.
pub static MISSING_MEMBER: Rule = Rule::new(
    "record/missing-member",
    Kind::Misuse,
    "Every required member is there, or has a default.",
);
/// A member that the struct does not have.
pub static UNKNOWN_MEMBER: Rule =
    Rule::new("record/unknown-member", Kind::Misuse, "Every member is one that the struct has.");
/// Too few elements, or too many.
pub static COUNT: Rule = Rule::new(
    "record/count",
    Kind::Misuse,
    "A fixed array and a tensor have their number of elements.",
);
/// A string that an enum does not have.
pub static ENUM_VALUE: Rule =
    Rule::new("record/enum-value", Kind::Misuse, "The string of an enum is one of its list.");
/// A union without its key.
pub static UNION_KEY: Rule = Rule::new(
    "record/union-key",
    Kind::Misuse,
    "The discriminator of a union is there and holds the key of a variant.",
);
/// A time that is none, or out of reach.
pub static TIMESTAMP: Rule = Rule::new(
    "record/timestamp",
    Kind::Misuse,
    "A time is RFC 3339 without leap seconds, to the nanosecond, from 1677-09-21 to 2262-04-11.",
);
/// Text that is not base64.
pub static BASE64: Rule = Rule::new(
    "record/base64",
    Kind::Misuse,
    "Bytes are base64 of the standard alphabet, with padding.",
);
/// A member read as what it is not.
pub static ACCESS: Rule = Rule::new(
    "record/access",
    Kind::Misuse,
    "A member is read and written as a type that its kind has.",
);
/// A value that a standard keyword refuses.
pub static KEYWORD: Rule = Rule::new(
    "record/keyword",
    Kind::Misuse,
    "A value is as the standard keywords beside its kind say.",
);
