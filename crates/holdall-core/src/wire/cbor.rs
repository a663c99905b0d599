//! CBOR: a pull reader over a byte slice and a deterministic writer.
//!
//! # Overview
//! The encoding of zTensor's manifests. [`Reader`] returns one item at a time, and borrows text and bytes from the
//! slice. [`Writer`] always writes the same bytes for the same content.
//!
//! # Layout
//! ```text
//! byte 0      major type (3 bits) · additional information (5 bits)
//! then        0, 1, 2, 4 or 8 bytes of argument, big-endian: a number, a length or a count
//! then        the bytes of a string, or the items of an array, map or tag
//! 31 as additional information: a string, array or map that ends with the byte 0xFF
//! ```
//!
//! # Specification
//! RFC 8949 (which replaces RFC 7049, the one that zTensor names). Well-formedness is sections 3 and 5.3.1
//! (`cbor/truncated`, `cbor/reserved`, `cbor/break`), text is section 3.1 (`cbor/utf8`), unique keys are section 5.6
//! (`cbor/duplicate-key`). The other rules are Holdall's.
//!
//! # Support
//! All of CBOR is read and written in attribute values. The typed reads, for a format's own structure, accept untagged
//! items, text of definite length (`cbor/kind`), and text keys (`cbor/key`). A format that allows more first converts
//! its manifest, with [`Reader::tags`], [`Reader::any_text`] and [`Reader::raw`]. Arrays and maps of indefinite length
//! are read, because existing writers use them. Integers and lengths need not be in their shortest form.
//!
//! # Deviations
//! A NaN keeps its bits when it is widened to f64. The form in which an item was encoded (longer integers, indefinite
//! lengths, float width) is not kept: the writer has one form for each value.
//!
//! # Untrusted input
//! Lengths and counts are compared with the number of bytes left before they are used (`cbor/truncated`, `cbor/count`);
//! no number in a file determines the size of an allocation. Nesting is limited by [`crate::Limits::depth`]
//! (`cbor/depth`), attribute values by [`crate::Limits::attribute_values`] (`cbor/too-many-values`). Skipping takes
//! time proportional to the bytes, and does not recurse.

mod items;
mod reader;
mod value;
mod writer;

pub use items::Kind;
pub use reader::{Items, Reader};
pub use value::{MAX_DEPTH, check_keys, has_duplicates};
pub use writer::{Writer, check};

crate::error::rules! {
    /// Rules of CBOR.
    pub static RULES;

    /// An item extends beyond the end.
    pub TRUNCATED: Malformed "cbor/truncated" "Every item ends inside the bytes that hold it.";
    /// Additional information 28 to 30, or a simple value in the wrong form.
    pub RESERVED: Malformed "cbor/reserved"
        "No item uses an encoding that CBOR reserves (RFC 8949, section 3).";
    /// A break does not end an item of indefinite length.
    pub BREAK: Malformed "cbor/break"
        "A break appears only at the end of an item of indefinite length.";
    /// A text is not UTF-8.
    pub UTF8: Malformed "cbor/utf8" "Text is UTF-8.";
    /// A count exceeds the number of bytes left.
    pub COUNT: Malformed "cbor/count"
        "An array or map declares no more items than the bytes left can hold, at one byte each.";
    /// Items are nested too deeply.
    pub DEPTH: Limit "cbor/depth"
        "Arrays, maps and tags nest at most `Limits::depth` deep, and never more than 512."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// There are more attribute values than the limit.
    pub TOO_MANY_VALUES: Limit "cbor/too-many-values"
        "The attributes of a file hold at most `Limits::attribute_values` values."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
    /// An item does not have the kind that its position requires.
    pub ITEM_KIND: Malformed "cbor/kind"
        "Every item has the kind that its position requires: text, an unsigned integer, an array or a map.";
    /// A key is not text.
    pub KEY: Malformed "cbor/key" "Names of tensors and of their components are text.";
    /// A map has the same key twice.
    pub DUPLICATE_KEY: Malformed "cbor/duplicate-key" "The keys of a map are unique.";
    /// Bytes follow the item.
    pub TRAILING: Malformed "cbor/trailing" "The bytes hold one item and nothing after it.";
    /// A value to be written has no CBOR form.
    pub NOT_CBOR: Misuse "cbor/not-cbor"
        "A value to be written has a CBOR form: integers from -2^64 to 2^64 - 1, simple values that are not reserved, unique map keys.";
}
