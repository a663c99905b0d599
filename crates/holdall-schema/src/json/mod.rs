//! Strict JSON: a pull reader over a byte slice, values, and the few pieces of a writer.
//!
//! # What
//! The reader hands out one token at a time and builds nothing: a header with 10^5 entries streams
//! straight into an index. Strings without an escape are borrowed from the text. Here because
//! schemas, records and the formats of `holdall-core` all read JSON by the same rules.
//!
//! # Layout
//! Text, as in RFC 8259. No byte order mark, no comments, no `NaN`.
//!
//! # Specification
//! RFC 8259, all of its grammar, by [`RULES`]: [`SYNTAX`], [`STRING`] and [`SURROGATE`] (section 7),
//! [`NUMBER`] (section 6), [`UTF8`] (section 8.1), [`TRUNCATED`], [`TRAILING`]. Section 4 leaves the
//! meaning of a repeated key open; callers refuse it ([`DUPLICATE_KEY`], found by [`duplicate`] or by
//! a flag for each known field).
//!
//! # Support
//! Reads everything, token by token ([`Reader`]; integers come as `u64` by [`Reader::u64`]) or into a
//! value ([`parse`]). Writes strings ([`write_string`]).
//!
//! # Deviations
//! None from the RFC. Nesting is limited, which its section 9 allows.
//!
//! # Untrusted input
//! Nesting: bounded by the limit given to [`Reader::new`], and [`Reader::skip`] does not recurse.
//! Numbers: digits that pass 64 bits are [`INTEGER`]. Strings: an unescaped copy is never longer
//! than its text. Nothing is allocated by a number in the text.

mod parse;
mod reader;

pub use parse::{parse, parse_at};
pub use reader::{Number, Reader, Token, duplicate, hex_digit, write_string};

use crate::error::{Kind, Rule};

/// Every rule of JSON text.
pub static RULES: &[&Rule] = &[
    &UTF8,
    &SYNTAX,
    &TRUNCATED,
    &TRAILING,
    &STRING,
    &SURROGATE,
    &NUMBER,
    &INTEGER,
    &TYPE,
    &DEPTH,
    &DUPLICATE_KEY,
    &LOSSLESS,
    &NOT_JSON,
];

/// The text is not UTF-8.
pub static UTF8: Rule = Rule::new("json/utf8", Kind::Malformed, "JSON text is valid UTF-8.");
/// A byte that cannot stand where it does.
pub static SYNTAX: Rule =
    Rule::new("json/syntax", Kind::Malformed, "JSON text follows the grammar of RFC 8259.");
/// The text stops inside a value.
pub static TRUNCATED: Rule =
    Rule::new("json/truncated", Kind::Malformed, "JSON text ends after its value, not inside it.");
/// Something follows the value.
pub static TRAILING: Rule =
    Rule::new("json/trailing", Kind::Malformed, "Only whitespace follows the one JSON value.");
/// A bad escape or a control character in a string.
pub static STRING: Rule = Rule::new(
    "json/string",
    Kind::Malformed,
    "A JSON string holds no bare control characters, and only the escapes of RFC 8259.",
);
/// Half of a surrogate pair.
pub static SURROGATE: Rule = Rule::new(
    "json/surrogate",
    Kind::Malformed,
    "An escaped surrogate is the first half of a pair, followed by the second.",
);
/// Digits that are not a JSON number.
pub static NUMBER: Rule = Rule::new(
    "json/number",
    Kind::Malformed,
    "A JSON number has no leading zeros, digits around its point and in its exponent, and fits a \
     double.",
);
/// A count that is negative, broken or too large.
pub static INTEGER: Rule = Rule::new(
    "json/integer",
    Kind::Malformed,
    "A count is a whole number from 0 to 2^64 - 1, written without point or exponent.",
);
/// A value of another type than the format wants here.
pub static TYPE: Rule =
    Rule::new("json/type", Kind::Malformed, "Every JSON value has the type its format gives it.");
/// Nested too deeply.
pub static DEPTH: Rule =
    Rule::new("json/depth", Kind::Limit, "JSON nests at most `Limits::depth` levels deep.");
/// A key twice in one object.
pub static DUPLICATE_KEY: Rule =
    Rule::new("json/duplicate-key", Kind::Malformed, "The keys of one JSON object are unique.");
/// An object with a `$` key that stands for no attribute value.
pub static LOSSLESS: Rule = Rule::new(
    "json/lossless",
    Kind::Malformed,
    "An object with a key that starts with `$` is one of the forms that stand for values JSON lacks.",
);
/// A value handed to a writer that would not be read back.
pub static NOT_JSON: Rule = Rule::new(
    "json/not-json",
    Kind::Misuse,
    "A value to be written as JSON is read back as it is: integers from -2^64 to 2^64 - 1, keys that are \
     unique, and no deeper than readers go.",
);
