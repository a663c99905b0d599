//! Rules about records, as JSON and as bytes.

crate::error::rules! {
    /// Every rule of records.
    pub static RULES;

    /// A record of the wrong length.
    pub LENGTH: Misuse "record/length" "A record has exactly as many bytes as its kind.";
    /// A boolean that is neither 0 nor 1.
    pub BOOL_BYTE: Malformed "record/bool-byte" "A boolean is the byte 0 or 1.";
    /// An enum index that is out of range.
    pub ENUM_INDEX: Malformed "record/enum-index" "An enum value is the index of an item in its list.";
    /// A tag that is out of range.
    pub UNION_TAG: Malformed "record/union-tag" "The tag of a union is the index of a variant.";
    /// Presence bits that contradict the bytes.
    pub PRESENCE: Malformed "record/presence"
        "The bytes of absent members are zero, and so are presence bits without a member.";
    /// Nonzero bytes that a variant does not use.
    pub UNION_PADDING: Malformed "record/union-padding"
        "The bytes of a union that its variant does not use are zero.";
    /// An entry that ends after its heap.
    pub ENTRY_BOUNDS: Malformed "record/entry-bounds" "An entry lies inside its heap.";
    /// An empty entry with an offset.
    pub ENTRY_EMPTY: Malformed "record/entry-empty" "An entry of length 0 has the offset 0.";
    /// An incomplete element.
    pub ENTRY_LENGTH: Malformed "record/entry-length"
        "The bytes of a variable array are a whole number of elements.";
    /// Elements that are not aligned.
    pub ENTRY_ALIGN: Malformed "record/entry-align"
        "A variable array starts at a multiple of its elements' alignment in the heap.";
    /// A string that is not UTF-8.
    pub UTF8: Malformed "record/utf8" "A string is UTF-8.";
    /// A `TypeDef:Record` that is not a JSON object.
    pub JSON: Malformed "record/json"
        "A `TypeDef:Record` is one JSON object in UTF-8 with unique keys.";
    /// Entries that share bytes and refer to too many in total.
    pub TOO_LARGE: Limit "record/too-large"
        "A record expands to at most `Limits::decoded_len` bytes, where shared bytes count each time."
        remedies [RaiseLimit { limit: "decoded_len", at_least: None }];
    /// A number that is out of range for its kind.
    pub RANGE: Misuse "record/range" "A number is within the range of its kind, and one that is written as an integer is held exactly.";
    /// JSON of another type.
    pub TYPE: Misuse "record/type" "A value has the type that its kind requires.";
    /// A required member that is missing.
    pub MISSING_MEMBER: Misuse "record/missing-member"
        "Every required member is present, or has a default.";
    /// A member that the struct does not have.
    pub UNKNOWN_MEMBER: Misuse "record/unknown-member" "Every member is one that the struct has.";
    /// Too few or too many elements.
    pub COUNT: Misuse "record/count" "A fixed array or tensor has exactly its number of elements.";
    /// A string that is not a value of the enum.
    pub ENUM_VALUE: Misuse "record/enum-value" "The string of an enum is in its list.";
    /// A union without a valid discriminator.
    pub UNION_KEY: Misuse "record/union-key"
        "The discriminator of a union is present and holds the key of a variant.";
    /// A time that is invalid or out of range.
    pub TIMESTAMP: Misuse "record/timestamp"
        "A time is RFC 3339 without leap seconds, with nanosecond precision, from 1677-09-21 to 2262-04-11.";
    /// Text that is not base64.
    pub BASE64: Misuse "record/base64" "Bytes are base64 in the standard alphabet, with padding.";
    /// A member read as a type that its kind does not allow.
    pub ACCESS: Misuse "record/access" "A member is read and written as a type that its kind allows.";
    /// A value that a standard keyword refuses.
    pub KEYWORD: Misuse "record/keyword" "A value satisfies the standard keywords next to its kind.";
}
